"""Every kind of fault with real packets: what it does, to which packets, and that nothing stays behind."""

import itertools
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from agent.wire.constants import BTH_RETRANSMISSION, Dscp, Opcode
from faults.inject import Injector, injector_of
from faults.kinds import By, Fault
from faults.mechanisms.base import Target
from faults.mechanisms.ebpf import PRIORITY
from faults.records import outstanding
from faults.request import worded
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.ports import shutdown
from testbed.kernel.ports.qdisc import Direction, attached_programs
from testbed.kernel.ports.shaping import read_tbf, set_tbf
from tests.support.netem import HAS_NETEM, WITHOUT_NETEM, needs_netem
from tests.support.veth_pair import End, veth_pair
from tests.support.wire_frames import DQPN, DST, ev, write_frame, write_frames

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and eBPF"),
]
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF")

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
LINK = "p0:leaf3>spine5"
PLAIN = b"\x02" * 12 + b"\x88\xb5" + bytes(100)  # local experimental EtherType, IEEE 802
WRITE, OTHER_EV, OTHER_QP = write_frame(), write_frames([1], spine=6)[0], write_frames([1], dqpn=DQPN + 1)[0]
AGAIN = write_frames([1], flags=BTH_RETRANSMISSION)[0]
SACK, NACK = write_frame(opcode=Opcode.SACK), write_frame(opcode=Opcode.NACK)
SENT = 4000

BOTH = [pytest.param("ebpf", marks=needs_clang), pytest.param("netem", marks=needs_netem)]


def fault(**words: object) -> Fault:
    (made,) = worded(words).faults
    return made


def target(end: End, port: int = 0, far: End | None = None) -> Target:
    there = (far.path, f"wire{port}") if far else (None, "")
    return Target(LINK, end.name, end.path, f"wire{port}", end.ifindex(port), (), (), *there)


@contextmanager
def broken(
    tmp_path: Path, *faults: Fault, mechanism: str | None = None, seed: int = 7
) -> Iterator[tuple[End, End, Injector]]:
    """A pair whose end a has faults on its way out; afterwards the kernel is as before and the link is whole."""
    with veth_pair() as (a, b), injector_of(tmp_path) as injector:
        before = a.kernel_state(), b.kernel_state()
        for each in faults:
            (record,) = injector.set(target(a, far=b), each, mechanism, seed)
            assert mechanism in (None, record.mechanism)
        yield a, b, injector
        injector.clear_all()
        assert injector.clear(LINK) == ()
        assert (a.kernel_state(), b.kernel_state()) == before
        arrived = b.received()
        a.send([PLAIN] * 20)
        assert b.received() - arrived == 20


def lost(a: End, b: End, frame: bytes, count: int = 50) -> int:
    """How many of `count` do not arrive."""
    before = b.received()
    a.send([frame] * count)
    return count - (b.received() - before)


def captured(a: End, b: End, frames: list[bytes]) -> list[bytes]:
    """What arrives of a few frames."""
    with b.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        a.send(frames)
        listening.settimeout(0.3)
        found = []
        try:
            while True:
                found.append(listening.recv(20_000))
        except TimeoutError:
            return found


def within(hits: int, of: int, rate: float) -> bool:
    """Inside the exact binomial bounds, with two false alarms in a million: netem's chance takes no seed."""
    low, high = binom.ppf([1e-6, 1 - 1e-6], of, rate)
    return bool(low <= hits <= high)


def chances(seed: int, count: int) -> np.ndarray:
    """What the eBPF program draws for its first packets: splitmix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@needs_clang
def test_the_seed_fixes_which_packets_are_dropped(tmp_path):
    wanted = chances(7, SENT).astype(np.uint32) < round(0.05 * 2**32)
    frames = [PLAIN[:14] + number.to_bytes(4, "big") + bytes(60) for number in range(SENT)]
    with broken(tmp_path, fault(drop="5%"), mechanism="ebpf") as (a, b, injector):
        with b.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
            a.send(frames)
            arrived = {int.from_bytes(listening.recv(200)[14:18], "big") for _ in range(SENT - int(wanted.sum()))}
        assert injector.status()[0].seed == 7
    assert set(range(SENT)) - arrived == set(np.flatnonzero(wanted))


@pytest.mark.parametrize("mechanism", BOTH)
def test_bursts_have_their_rate_and_their_length(tmp_path, mechanism):
    asked = fault(gemodel="p=2%,r=20%,bad=100%,good=0%")
    with broken(tmp_path, asked, mechanism=mechanism) as (a, b, injector):
        gone = lost(a, b, PLAIN, 3 * SENT)
        (status,) = injector.status()
        assert status.tally.dropped == gone
        assert status.in_force.kind == "burst-drop"
    # Runs are geometric: the variance of the count is (1 + rho) / (1 - rho) times the binomial's, rho = 1 - p - r.
    rate, spread = 1 / 11, (3 * SENT * (1 / 11) * (10 / 11) * (1.78 / 0.22)) ** 0.5
    assert abs(gone - 3 * SENT * rate) < 3.3 * spread


@needs_clang
def test_one_in_n_is_exact(tmp_path):
    with broken(tmp_path, fault(one_in=7)) as (a, b, injector):
        assert lost(a, b, PLAIN, 700) == 100
        assert lost(a, b, PLAIN, 6) == 0
        assert lost(a, b, PLAIN, 1) == 1
        assert injector.status()[0].tally.seen == 707


SELECTIONS = [
    ({"only_control": True}, [SACK, NACK], [WRITE, PLAIN]),
    ({"only_qp": hex(DQPN)}, [WRITE, SACK], [OTHER_QP, PLAIN]),
    ({"only_ev": hex(ev(5))}, [WRITE], [OTHER_EV, PLAIN]),
    ({"only_ev": f"{ev(4):#x}/0xfffffffe"}, [WRITE], [OTHER_EV]),
    ({"only_size": f"{len(WRITE)}-"}, [WRITE, WRITE + bytes(9)], [PLAIN, WRITE[:-1]]),
    ({"only_size": "-113"}, [PLAIN[:113], PLAIN[:60]], [PLAIN, WRITE]),
    ({"only_to": f"h{DST}"}, [WRITE, OTHER_EV], [PLAIN]),
    ({"only_to": "h5"}, [], [WRITE, PLAIN]),
    ({"only_first": True}, [WRITE], [AGAIN, SACK, PLAIN]),
    ({"only_dscp": int(Dscp.NO_TRIM)}, [WRITE], [WRITE[:14] + b"\x6b" + WRITE[15:], PLAIN]),
    ({"only_qp": DQPN, "only_ev": ev(6)}, [OTHER_EV], [WRITE, OTHER_QP]),
]


@needs_clang
@pytest.mark.parametrize(("words", "hit", "spared"), SELECTIONS, ids=lambda value: str(value)[:40])
def test_only_the_selected_packets_are_dropped(tmp_path, words, hit, spared):
    with broken(tmp_path, fault(drop="100%", **words)) as (a, b, injector):
        assert [lost(a, b, frame) for frame in hit] == [50] * len(hit)
        assert [lost(a, b, frame) for frame in spared] == [0] * len(spared)
        tally = injector.status()[0].tally
    assert (tally.seen, tally.dropped, tally.passed) == (50 * len(hit), 50 * len(hit), 50 * len(hit + spared))


@needs_clang
def test_a_rate_counts_only_selected_packets(tmp_path):
    with broken(tmp_path, fault(drop="10%", only_control=True)) as (a, b, _):
        assert within(lost(a, b, SACK, SENT), SENT, 0.1)
        assert lost(a, b, WRITE, 200) == 0


def message(first_psn: int, packets: int, msn: int) -> list[bytes]:
    """All writes of one message, in order."""
    if packets == 1:
        return [write_frames([first_psn], opcode=Opcode.WRITE_ONLY, msn=msn, message_packets=1)[0]]
    kinds = [Opcode.WRITE_FIRST, *[Opcode.WRITE_MIDDLE] * (packets - 2), Opcode.WRITE_LAST]
    return [
        write_frames([first_psn + at], opcode=kind, msn=msn, message_packets=packets)[0]
        for at, kind in enumerate(kinds)
    ]


@needs_clang
def test_the_last_packets_of_a_message(tmp_path):
    first, second = message(100, 8, 0), message(108, 8, 1)
    with broken(tmp_path, fault(drop="100%", only_last=3)) as (a, b, _):
        assert captured(a, b, first) == first[:5]
        # The first packet of this one took another path: where it ends follows from the other.
        assert captured(a, b, second[3:]) == second[3:5]
        assert captured(a, b, message(124, 1, 2)) == []


@needs_clang
def test_a_black_hole_swallows_one_host(tmp_path):
    with broken(tmp_path, fault(black_hole=f"h{DST}")) as (a, b, injector):
        assert [lost(a, b, frame) for frame in (WRITE, SACK, PLAIN)] == [50, 50, 0]
        assert injector.status()[0].tally.dropped_writes == 50


@needs_clang
def test_a_hung_switch_forwards_nothing_and_still_speaks(tmp_path):
    with broken(tmp_path, fault(hang=True)) as (a, b, _):
        assert [lost(a, b, frame) for frame in (WRITE, SACK, PLAIN)] == [50, 50, 0]


@needs_clang
def test_corruption_turns_one_bit_behind_the_outer_header(tmp_path):
    with broken(tmp_path, fault(corrupt="100%"), mechanism="ebpf") as (a, b, injector):
        arrived = captured(a, b, [WRITE] * 200)
        assert injector.status()[0].tally.hit == 200
        (cleared,) = injector.clear_all()
        assert (cleared.seen, cleared.hit, cleared.dropped) == (200, 200, 0)
    turned = [int.from_bytes(frame, "big") ^ int.from_bytes(WRITE, "big") for frame in arrived]
    assert len(arrived) == 200
    assert {bits.bit_count() for bits in turned} == {1}
    assert all(frame[:54] == WRITE[:54] for frame in arrived)
    assert len(set(turned)) > 100


@pytest.mark.parametrize("mechanism", BOTH)
def test_corruption_has_its_rate(tmp_path, mechanism):
    """netem turns bits of linear memory only: addresses and types too, so these frames are counted by content."""
    with broken(tmp_path, fault(corrupt="20%"), mechanism=mechanism) as (a, b, _):
        arrived = captured(a, b, [WRITE] * 500)
    assert len(arrived) == 500
    assert within(sum(frame != WRITE for frame in arrived), 500, 0.2)


@pytest.mark.parametrize("mechanism", BOTH)
def test_duplicates_come_beside_the_originals(tmp_path, mechanism):
    with broken(tmp_path, fault(duplicate="10%"), mechanism=mechanism) as (a, b, _):
        assert within(-lost(a, b, WRITE, SENT), SENT, 0.1)


@needs_clang
def test_faults_of_one_port_compose_in_the_order_they_were_set(tmp_path):
    """The copy passes what comes after the duplicate, and nothing before it."""
    with broken(tmp_path, fault(one_in=2), fault(duplicate="100%"), mechanism="ebpf") as (a, b, injector):
        assert lost(a, b, PLAIN, 100) == 0
        assert [(status.name, status.tally.seen) for status in injector.status()] == [
            ("one-in", 100),
            ("duplicate", 50),
        ]
    with broken(tmp_path, fault(duplicate="100%"), fault(one_in=2), mechanism="ebpf") as (a, b, injector):
        assert lost(a, b, PLAIN, 100) == 0
        assert injector.status()[1].tally.seen == 200


@needs_clang
def test_a_port_whose_faults_change_for_ever_does_not_run_out_of_places(tmp_path, monkeypatch):
    """One always stands while the other goes: the number behind it grows, up to the last that a filter can have."""
    monkeypatch.setattr("faults.mechanisms.ebpf.MOST_PRIORITY", PRIORITY + 3)
    first, second = fault(one_in=2), fault(duplicate="100%")
    with broken(tmp_path, first, mechanism="ebpf") as (a, b, injector):
        for turn in range(8):
            injector.set(target(a, far=b), (second, first)[turn % 2], "ebpf", 7)
            injector.clear(LINK, (first, second)[turn % 2].name)
            assert [status.in_force for status in injector.status()] == [(second, first)[turn % 2]]
            with Rtnl.inside(a.name, a.path) as rtnl:
                (program,) = attached_programs(rtnl, a.ifindex(), Direction.EGRESS)
            assert program.priority <= PRIORITY + 3
        injector.set(target(a, far=b), second, "ebpf", 7)
        assert lost(a, b, PLAIN, 100) == 0, "the copies of what is left pass the first"
        assert [status.tally.seen for status in injector.status()] == [100, 50]


@needs_clang
def test_one_of_several_faults_is_cleared_and_the_others_stay(tmp_path):
    with broken(tmp_path, fault(drop="100%", only_control=True), fault(drop="100%", only_qp=DQPN)) as (a, b, injector):
        injector.clear(LINK, "drop of control packets")
        assert [lost(a, b, frame) for frame in (SACK, WRITE, OTHER_QP)] == [50, 50, 0]
        injector.clear(LINK, "drop of qp 0x4001")
        assert [lost(a, b, frame) for frame in (SACK, WRITE)] == [0, 0]


def seconds_of_arrival(a: End, b: End, frames: int, gap_s: float = 0.002) -> list[float]:
    """Seconds from sending to arrival, frame by frame, for numbered frames; lost ones are left out."""
    taken = {}
    with a.socket() as sending, b.socket() as listening:
        listening.setblocking(False)
        sent = {}
        for number in range(frames):
            sent[number] = time.monotonic()
            sending.send(PLAIN[:14] + number.to_bytes(4, "big") + bytes(60))
            time.sleep(gap_s)
            taken |= _drained(listening, sent)
        listening.settimeout(2)
        try:
            while len(taken) < frames:
                number = int.from_bytes(listening.recv(200)[14:18], "big")
                taken[number] = time.monotonic() - sent[number]
        except TimeoutError:
            pass
    return [taken[number] for number in sorted(taken)]


def _drained(listening: socket.socket, sent: dict[int, float]) -> dict[int, float]:
    taken = {}
    try:
        while True:
            number = int.from_bytes(listening.recv(200)[14:18], "big")
            taken[number] = time.monotonic() - sent[number]
    except BlockingIOError:
        return taken


@needs_netem
class TestNetem:
    def test_a_delay_is_at_least_what_was_asked_and_the_others_are_not_delayed(self, tmp_path):
        with broken(tmp_path, fault(delay="30ms")) as (a, b, injector):
            times = seconds_of_arrival(a, b, 40)
            assert len(times) == 40
            assert min(times) >= 0.030
            back = float(np.median(seconds_of_arrival(b, a, 40)))
            assert back < min(times), "the other way takes what this machine takes by itself"
            assert float(np.median(times)) < 0.040 + 2 * back
            assert injector.status()[0].tally.dropped == 0

    def test_reordering_lets_some_overtake(self, tmp_path):
        frames = [PLAIN[:14] + number.to_bytes(4, "big") + bytes(60) for number in range(400)]
        with broken(tmp_path, fault(reorder="10%", ahead="20ms")) as (a, b, _):
            numbers = [int.from_bytes(frame[14:18], "big") for frame in captured(a, b, frames)]
        assert sorted(numbers) == list(range(400))
        early = sum(number > min(numbers[at:]) for at, number in enumerate(numbers))
        assert within(early, 400, 0.1) or early > 0.05 * 400

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)], ids=str)
    def test_loss_delay_and_rate_compose_and_count_apart(self, tmp_path, order):
        faults = fault(drop="10%"), fault(delay="5ms"), fault(rate="100Mbit")
        with broken(tmp_path, *(faults[at] for at in order)) as (a, b, injector):
            arrived = 1000 - lost_later(a, b, PLAIN, 1000)
            by_name = {status.name: status for status in injector.status()}
            assert within(1000 - arrived, 1000, 0.1)
            assert by_name["drop"].tally.dropped == 1000 - arrived
            assert by_name["rate"].tally.seen == arrived
            assert by_name["rate"].tally.dropped == by_name["delay"].tally.dropped == 0
            injector.clear(LINK, "drop")
            assert lost_later(a, b, PLAIN, 100) == 0
            assert [cleared.dropped for cleared in injector.clear(LINK, "delay")] == [0], "these were the loss's"
            assert [status.in_force for status in injector.status()] == [faults[2]]
            assert lost_later(a, b, PLAIN, 100) == 0

    def test_clearing_a_delay_loses_nothing_that_waits(self, tmp_path):
        with broken(tmp_path, fault(delay="200ms")) as (a, b, injector):
            before = b.received()
            a.send([PLAIN] * 100)
            injector.clear_all()
            assert b.received() - before == 100

    def test_a_second_loss_is_left_to_ebpf(self, tmp_path):
        with broken(tmp_path, fault(drop="1%"), fault(gemodel="p=1%,r=10%")) as (_, _, injector):
            assert [status.mechanism for status in injector.status()] == ["netem", "ebpf"]


def lost_later(a: End, b: End, frame: bytes, count: int) -> int:
    """As `lost`, for a port that holds packets back for a while."""
    before = b.received()
    a.send([frame] * count)
    until = time.monotonic() + 10
    while b.received() - before < count and time.monotonic() < until:
        time.sleep(0.01)
    return count - (b.received() - before)


def flood(a: End, frames: list[bytes]) -> int:
    """Send without waiting for room in the socket; how many were refused."""
    refused = 0
    with a.socket() as sending:
        sending.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
        for frame in frames:
            try:
                sending.send(frame)
            except OSError:
                refused += 1
    return refused


def test_a_rate_limit_slows_one_direction_down(tmp_path):
    big = PLAIN[:14] + bytes(986)
    with broken(tmp_path, fault(rate="8Mbit", queue=1 << 20)) as (a, b, injector):
        for _ in range(3):  # a machine that stands still is no slow port
            began, before = time.monotonic(), b.received()
            flood(a, [big] * 500)  # 500 kB in 0.5 s at 1 MB/s, less the burst
            while b.received() - before < 500 and time.monotonic() < began + 5:
                time.sleep(0.002)
            if (took := time.monotonic() - began) < 1.0:
                break
        assert 0.45 < took < 1.0
        (status,) = injector.status()
        assert (status.mechanism, status.tally.dropped) == (By.TBF, 0)
        assert status.tally.overlimits > 0
        assert lost(b, a, PLAIN, 100) == 0


def test_a_limit_whose_burst_somebody_changed_is_not_in_force(tmp_path):
    with broken(tmp_path, fault(rate="1Gbit")) as (a, _, injector), Rtnl.inside(a.name, a.path) as rtnl:
        held, _ = read_tbf(rtnl, a.ifindex())
        assert injector.status()[0].in_force == fault(rate="1Gbit")
        set_tbf(rtnl, a.ifindex(), replace(held, burst_bytes=4 * held.burst_bytes))
        assert injector.status()[0].in_force is None


@pytest.mark.parametrize("rate", ["8kbit", "81Mbit", "34Gbit", "1000Gbit"])
def test_every_rate_reads_back(tmp_path, rate):
    with broken(tmp_path, fault(rate=rate)) as (_, _, injector):
        assert injector.status()[0].in_force == fault(rate=rate)


def test_a_queue_that_overflows_is_counted(tmp_path):
    big = PLAIN[:14] + bytes(986)
    with broken(tmp_path, fault(rate="1Mbit", queue=65536)) as (a, b, injector):
        refused = flood(a, [big] * 300)
        (cleared,) = injector.clear(LINK)
        assert cleared.seen == 300
        assert cleared.dropped == 300 - b.received()
        assert cleared.dropped == refused  # a sender on this machine is told that its queue is full
        assert 150 < cleared.dropped < 250


def test_a_shut_port_carries_nothing_either_way_and_both_directions_are_counted(tmp_path):
    with broken(tmp_path, fault(down=True)) as (a, b, injector):
        with Rtnl.inside(a.name, a.path) as rtnl:
            assert shutdown.is_shut(rtnl, a.ifindex())
        before = a.received()
        b.send([PLAIN] * 30)
        assert a.received() == before
        (cleared,) = injector.clear(LINK)
        assert cleared.dropped_reverse in (30, 0)  # Linux 6.1 counts nowhere what is sent without a carrier


def test_a_port_opens_with_the_last_of_its_faults(tmp_path):
    faults = fault(down=True), fault(flap="period=1s")
    with broken(tmp_path, *faults) as (a, _, injector), Rtnl.inside(a.name, a.path) as rtnl:
        injector.clear(LINK, "down")
        assert shutdown.is_shut(rtnl, a.ifindex())
        injector.clear(LINK, "flap")
        assert not shutdown.is_shut(rtnl, a.ifindex())


@needs_clang
def test_a_fault_costs_the_other_links_nothing(tmp_path):
    """Setting and clearing beside traffic: only what is asked for is lost."""
    with veth_pair(links=2) as (a, b), injector_of(tmp_path) as injector:
        for _ in range(5):
            a.send([PLAIN] * 100, port=1)
            injector.set(target(a, 0), fault(drop="100%"))
            a.send([PLAIN] * 100, port=1)
            a.send([PLAIN] * 10, port=0)
            injector.clear(LINK)
        assert (b.received(0), b.received(1)) == (0, 1000)


def test_rates_down_to_one_in_a_million_are_made(tmp_path):
    with broken(tmp_path, fault(drop="0.0001%")) as (_, _, injector):
        (status,) = injector.status()
        assert abs(status.in_force.rate - Fraction(1, 10**6)) < Fraction(1, 2**31)


DIRECTED = [
    ({"drop": "100%"}, "ebpf"),
    ({"gemodel": "p=100%,r=0.001%"}, "ebpf"),
    ({"one_in": 1}, "ebpf"),
    ({"black_hole": f"h{DST}"}, "ebpf"),
    ({"hang": True}, "ebpf"),
    ({"corrupt": "100%"}, "ebpf"),
    ({"duplicate": "100%"}, "ebpf"),
    ({"drop": "100%", "only_control": True}, "ebpf"),
    ({"drop": "100%", "only_last": 1}, "ebpf"),
    ({"rate": "1Mbit"}, "tbf"),
    ({"drop": "100%"}, "netem"),
    ({"gemodel": "p=100%,r=0.001%"}, "netem"),
    ({"corrupt": "100%"}, "netem"),
    ({"duplicate": "100%"}, "netem"),
    ({"delay": "300ms"}, "netem"),
    ({"reorder": "1%", "ahead": "300ms"}, "netem"),
]


@needs_clang
@pytest.mark.parametrize(("words", "mechanism"), DIRECTED, ids=lambda value: str(value)[:40])
def test_the_other_direction_is_untouched(tmp_path, words, mechanism):
    """Every frame comes, as it was sent, once, and at once."""
    if mechanism == "netem" and not HAS_NETEM:
        pytest.skip(WITHOUT_NETEM)
    frames = [WRITE, SACK, PLAIN, *message(100, 8, 0)]
    with broken(tmp_path, fault(**words), mechanism=mechanism) as (a, b, injector):
        assert captured(b, a, frames) == frames
        assert injector.status()[0].tally.seen == 0


@needs_clang
def test_bursts_are_exactly_those_of_the_model(tmp_path):
    """All four probabilities, and the loss judged before the state changes: the very packets that the seed says."""
    p, r, bad, good = (round(share * 2**32) for share in (0.05, 0.2, 0.7, 0.02))
    drawn, lost_ones, is_bad = chances(7, SENT), set(), False
    for number, draw in enumerate(drawn.tolist()):
        first, second = draw & 0xFFFFFFFF, draw >> 32
        if first < (bad if is_bad else good):
            lost_ones.add(number)
        if second < (r if is_bad else p):
            is_bad = not is_bad
    frames = [PLAIN[:14] + number.to_bytes(4, "big") + bytes(60) for number in range(SENT)]
    asked = fault(gemodel="p=5%,r=20%,bad=70%,good=2%")
    with broken(tmp_path, asked, mechanism="ebpf") as (a, b, injector):
        arrived = {int.from_bytes(frame[14:18], "big") for frame in captured(a, b, frames)}
        assert injector.status()[0].tally.hit == len(lost_ones)
    assert set(range(SENT)) - arrived == lost_ones


@needs_clang
def test_every_selection_has_its_rate_within_the_bounds(tmp_path):
    """10 % of what is selected, whatever selects it, and nothing of the rest."""
    for words, hit, spared in SELECTIONS:
        if not hit:
            continue
        with broken(tmp_path, fault(drop="10%", **words)) as (a, b, injector):
            assert within(lost(a, b, hit[0], SENT // 2), SENT // 2, 0.1), words
            assert lost(a, b, spared[0], 200) == 0, words
            assert injector.status()[0].tally.seen == SENT // 2, words


COMPOSED = [{"drop": "100%", "only_control": True}, {"one_in": 2, "only_qp": hex(DQPN + 1)}, {"rate": "800Mbit"}]


@needs_clang
@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3], ids=str)
def test_faults_on_one_port_compose_in_every_order(tmp_path, order):
    """Set in eight of the 24 orders, each cleared in another. After each step the rest works."""
    kinds = [*COMPOSED, {"down": True}]
    with veth_pair() as (a, b), injector_of(tmp_path) as injector:
        before = a.kernel_state(), b.kernel_state()
        for at in order:
            injector.set(target(a, far=b), fault(**kinds[at]), None, 7)
        assert len(injector.status()) == 4
        assert all(status.in_force is not None for status in injector.status())
        up = set(range(4))
        for at in reversed(order[2:] + order[:2]):
            injector.clear(LINK, fault(**kinds[at]).name)
            up.discard(at)
            if 3 not in up:
                expected = {0: 50 if 0 in up else 0, 1: 25 if 1 in up else 0}
                assert lost(a, b, SACK) == expected[0]
                assert lost(a, b, OTHER_QP) == expected[1]
                assert lost(a, b, PLAIN) == 0
        assert (a.kernel_state(), b.kernel_state()) == before
    assert outstanding(tmp_path / "faults.jsonl") == ()
