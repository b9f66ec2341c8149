"""What MRC does about links, ports, switches and planes that fail under it, on the kernel's fabric, with real bytes.

Links to the receiver are shaped, so that planes and not this machine limit; numbers in comments are what was measured.
"""

import time
from collections.abc import Iterator

import pytest

from scenarios.run.progress import softnet_drops
from tests.support.live_traffic import Live, Sample, live, patiently
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

PLANES = range(4)
TO_RECEIVER, SHAPE = "p*:leaf1>h3", "20Mbit"
"""9,000 packets of 1 KiB a second over four planes."""
QUICK = {"pmtu": 1024, "window_pkts": 128, "loss_rule": "both", "reverse_probe_ms": 10}
"""A path on which nothing arrives is found by lateness, and SACKs take ways that work."""
THRESHOLD = {"loss_policy": "threshold"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with own_lab(tmp_path_factory.mktemp("runs")) as lab:
        lab("up", "--planes", "4", "--leaves", "2", "--spines", "2", "--hosts-per-leaf", "3")
        yield lab


@pytest.fixture
def traffic(lab: Lab) -> Iterator[Live]:
    with live(lab) as traffic:
        yield traffic


def row(sample: Sample, ev: int) -> dict:
    return next(each for each in sample.evs if each["ev"] == ev)


def first_sent(sample: Sample) -> list[int]:
    """First transmissions of each plane."""
    return [sum(each["tx_first"] for each in sample.evs if each["plane"] == plane) for plane in PLANES]


def sent_between(first: Sample, last: Sample) -> list[int]:
    return [last.packets(plane) - first.packets(plane) for plane in PLANES]


def rate(first: Sample, last: Sample) -> float:
    """Acknowledged bytes a second of all flows."""
    acked = sum(b.acked_bytes - a.acked_bytes for a, b in zip(first.flows, last.flows, strict=True))
    return acked / (last.mono_s - first.mono_s)


def ends(traffic: Live, seconds: float) -> tuple[Sample, Sample]:
    samples = traffic.follow(seconds)
    return samples[0], samples[-1]


def test_a_lossy_ev_leaves_for_a_spare_of_its_plane_and_comes_back_only_when_clean(traffic: Live) -> None:
    """MRC paper 5.2.4. Under 20 % loss 40 answers in a row come once in 7,500 probes: none in two seconds' 200."""
    patiently(traffic, replace_a_lossy_ev)


def replace_a_lossy_ev(traffic: Live) -> None:
    traffic.fault(TO_RECEIVER, rate=SHAPE)
    probing = {"active": 4, "revive_after": 40, "revive_ms": 300}
    traffic.open([(0, 3)], 64 << 20, **QUICK | {"loss_rule": "same-ev"}, ev=THRESHOLD | probing)
    traffic.post()
    _, before = ends(traffic, 0.3)
    victim = next(each for each in before.evs if each["plane"] == 1 and each["active"])
    spare = next(each for each in before.evs if each["plane"] == 1 and not each["active"])
    link = f"p1:leaf0>spine{victim['spine']}"
    traffic.fault(link, drop="20%")

    traffic.wait(lambda s: row(s, victim["ev"])["state"] == "ASSUMED_BAD", 2, "the EV is retired")
    gone, later = ends(traffic, 2.0)
    assert row(later, victim["ev"])["tx_first"] == row(gone, victim["ev"])["tx_first"], "it carries no data"
    assert row(later, spare["ev"])["active"]
    assert row(later, spare["ev"])["tx_first"] > 1000
    assert max(first_sent(later)) - min(first_sent(later)) <= 2, "its plane keeps its share"
    assert row(later, victim["ev"])["lost"] <= 20
    (left,) = traffic.events("EV_STATE")  # no other EV is accused
    assert (left["state"], left["signal"]) == ("ASSUMED_BAD", "LOST")
    assert (left["evs"], left["replaced_by"]) == ([f"{victim['ev']:#010x}"], f"{spare['ev']:#010x}")

    traffic.clear(link)
    back = traffic.wait(lambda s: row(s, victim["ev"])["state"] == "GOOD", 4, "the EV is back")
    assert row(back, victim["ev"])["probes"] >= 40
    assert not row(back, victim["ev"])["active"], "as a spare: its place is taken"
    traffic.clear()
    traffic.finish(20)


def test_a_port_down_costs_its_share_and_is_used_again_at_once(traffic: Live) -> None:
    """Paper figures 9a and 9b: a staircase of quarters, whichever end's port it is."""
    patiently(traffic, take_ports_down_and_up)


def take_ports_down_and_up(traffic: Live) -> None:
    traffic.fault(TO_RECEIVER, rate=SHAPE)
    traffic.open([(0, 3)], 64 << 20, **QUICK, ev=THRESHOLD)
    traffic.post()
    whole = rate(*ends(traffic, 0.6))

    traffic.fault("h0:plane1", down=True)
    assert_share(traffic, whole, without={1})
    traffic.fault("h3:plane2", down=True)
    assert_share(traffic, whole, without={1, 2})
    assert_back_at_once(traffic, "h0:plane1", 1)
    assert_share(traffic, whole, without={2})
    assert_back_at_once(traffic, "h3:plane2", 2)
    assert_share(traffic, whole, without=set())
    traffic.clear()
    traffic.finish(20)


def assert_share(traffic: Live, whole: float, without: set[int]) -> None:
    """The remaining planes carry what they can, and the others nothing at all."""
    traffic.follow(0.25)
    first, last = ends(traffic, 0.6)
    assert {plane for plane, packets in enumerate(sent_between(first, last)) if not packets} == without
    assert rate(first, last) / whole == pytest.approx(1 - len(without) / 4, abs=0.15)


def assert_back_at_once(traffic: Live, port: str, plane: int) -> None:
    """Within a carrier's period and an update on the wire: 10 to 50 ms."""
    before = traffic.sample()
    traffic.clear(port)
    opened_s = time.monotonic()
    used = traffic.wait(lambda sample: sample.packets(plane) > before.packets(plane), 2, f"plane {plane} is used")
    assert used.mono_s - opened_s < 0.5


def test_a_spine_that_forwards_nothing_costs_a_dip_and_then_nothing(traffic: Live) -> None:
    patiently(traffic, hang_a_spine)


def hang_a_spine(traffic: Live) -> None:
    traffic.fault(TO_RECEIVER, rate=SHAPE)
    traffic.open([(0, 3)], 48 << 20, **QUICK, ev=THRESHOLD)
    traffic.post()
    whole = rate(*ends(traffic, 0.6))
    traffic.fault("p2-spine0", hang=True)
    traffic.wait(lambda s: any(each["state"] == "ASSUMED_BAD" for each in s.evs), 2, "its EV is retired")
    traffic.follow(0.5)

    dropped = hung_writes(traffic)
    first, last = ends(traffic, 1.5)
    assert hung_writes(traffic) == dropped, "no more data goes there"
    (bad,) = (each for each in last.evs if each["state"] != "GOOD")
    assert (bad["plane"], bad["spine"]) == (2, 0)
    before = row(first, bad["ev"])
    assert (bad["tx_first"], bad["tx_rtx"]) == (before["tx_first"], before["tx_rtx"])
    assert bad["lost"] == before["lost"], "other paths may lose to lateness if this machine stands still"
    assert rate(first, last) > 0.85 * whole
    traffic.clear()
    assert traffic.finish(20).flows[0].timeouts == 0


def hung_writes(traffic: Live) -> int:
    return sum(fault.dropped_writes or 0 for fault in traffic.faults() if fault.kind == "hang")


def test_a_plane_dead_from_the_start_is_mapped_out_at_two_packets_a_path(traffic: Live) -> None:
    patiently(traffic, begin_with_a_dead_plane)


def begin_with_a_dead_plane(traffic: Live) -> None:
    traffic.fault("p3", drop="100%")
    pairs = [(host, (host + 3) % 6) for host in range(6)]
    traffic.open(pairs, 4 << 20, **QUICK, ev=THRESHOLD)
    traffic.post()
    began_s = time.monotonic()
    dead = traffic.wait(
        lambda s: all(each["state"] == "ASSUMED_BAD" for each in s.evs if each["plane"] == 3), 5, "plane 3 is out"
    )
    assert dead.mono_s - began_s < 3
    last = traffic.finish(30)
    paths = [each for each in last.evs if each["plane"] == 3]
    assert len(paths) == 6 * 2
    assert max(each["lost"] + each["timed_out"] for each in paths) < 5
    assert [each for each in last.evs if each["plane"] != 3 and each["state"] == "ASSUMED_BAD"] == []


def test_retransmissions_are_the_losses_and_there_are_none_without(traffic: Live) -> None:
    """Oblivious spraying on paths that keep order: what is resent was lost, packet by packet."""
    patiently(traffic, lose_one_percent)


def lose_one_percent(traffic: Live) -> None:
    transport = {"ack_timeout_ms": 5000, "window_pkts": 256}
    lost_here = own_losses(traffic)
    traffic.open([(0, 3), (1, 4)], 32768 * 256, **transport)
    traffic.post()
    clean = traffic.finish(60)
    assert sum(flow.packets_rtx for flow in clean.flows) == own_losses(traffic) - lost_here
    traffic.traffic.close()

    lost_here = own_losses(traffic)
    traffic.fault("p*:h0>leaf0,p*:h1>leaf0", drop="1%")
    traffic.open([(0, 3), (1, 4)], 32768 * 256, **transport)
    traffic.post()
    last = traffic.finish(60)
    lost = sum(fault.dropped_writes or 0 for fault in traffic.clear()) + own_losses(traffic) - lost_here
    assert lost > 400
    assert sum(flow.packets_rtx for flow in last.flows) == pytest.approx(lost, rel=0.02)


def own_losses(traffic: Live) -> int:
    """Packets that this machine lost by itself: nobody's fault, and losses all the same."""
    ports = [port for worker in traffic.traffic.counters() for port in worker.ports]
    return sum(port.rx_drops + port.tx_errors for port in ports) + softnet_drops()


def test_nscc_keeps_an_incast_in_the_queue_and_shares_it(traffic: Live) -> None:
    """Three senders, one receiver. Nothing in this fabric marks, so the largest window is what holds: 1.5 times
    80 Mb/s times 4 ms for each sender, 18 ms of queue in all. Without it the windows of packets overflow the queue.
    """
    patiently(traffic, incast_three_to_one)


def incast_three_to_one(traffic: Live) -> None:
    nscc = {"algorithm": "nscc", "link_rate": SHAPE, "base_rtt_us": 4000, "base_rtt_floor_us": 4000}
    steered = incast(traffic, congestion=nscc)
    free = incast(traffic)
    assert [flow.lost + flow.timeouts for flow in steered[-1].flows] == [0, 0, 0]
    assert max(flow.cwnd_bytes or 0 for sample in steered for flow in sample.flows) <= 60_000
    assert mean_rtt_ms(steered) < 4 + 1.5 * 18
    assert mean_rtt_ms(free) > 1.5 * mean_rtt_ms(steered)
    assert rate(steered[0], steered[-1]) > 0.6 * rate(free[0], free[-1])
    shares = [b.acked_bytes - a.acked_bytes for a, b in zip(steered[0].flows, steered[-1].flows, strict=True)]
    assert sum(shares) ** 2 / (3 * sum(share**2 for share in shares)) > 0.95, "Jain's index"


def incast(traffic: Live, **transport: object) -> list[Sample]:
    """Samples of a steady second."""
    traffic.fault(TO_RECEIVER, rate=SHAPE)
    traffic.open([(0, 3), (1, 3), (2, 3)], 8 << 20, pmtu=1024, window_pkts=256, **transport)
    traffic.post()
    traffic.follow(0.4)
    samples = traffic.follow(1.0)
    traffic.clear()
    traffic.finish(20)
    traffic.traffic.close()
    return samples


def mean_rtt_ms(samples: list[Sample]) -> float:
    return sum(flow.rtt_ns for sample in samples for flow in sample.flows) / (3e6 * len(samples))
