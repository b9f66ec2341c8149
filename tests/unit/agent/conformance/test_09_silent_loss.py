"""A single silent loss: ASSUMED_BAD, same-plane replacement, retransmission with rtx=1 on another EV."""

import numpy as np
import pytest
from msgspec.structs import replace

from agent.core.config import EvConfig, LossPolicy
from agent.core.ev.state import EvState
from agent.core.events import EvStatesChanged
from agent.io.memory_fabric import PathRule
from agent.wire.constants import BTH_RETRANSMISSION
from tests.unit.agent.conformance.agents import DATA, PAPER, Wiretap, retired, states_of
from tests.unit.agent.io.memory_lab import Flow, build


def test_one_loss_moves_the_traffic_to_the_spare_of_the_same_plane():
    """Paper 5.2.4: EV-A active, EV-B its spare in the same plane; EV-A loses its first packet."""
    tap = Wiretap()
    lab = build(rules=(PathRule(), PathRule(source=0, opcodes=DATA, alter=tap)))
    flow = lab.flow(0, 1, 2000 * 256, ev=replace(PAPER, active=4), window_pkts=8)
    planes, active = flow.source.profile.planes, flow.source.qp.ev_states()[1]
    ev_a = int(np.flatnonzero(active & (planes == 1))[0])
    lost_once = PathRule(source=0, plane=1, spine=ev_a % 4, opcodes=DATA, loss=1.0, end_ns=1)
    lab.fabric.rules = (lost_once, *lab.fabric.rules[1:])
    lab.run(flow)
    assert flow.is_right()
    dropped = lab.fabric.counts[0].dropped
    assert dropped == 2
    changes = [item.event for item in lab.events if isinstance(item.event, EvStatesChanged)]
    (event,) = [event for event in changes if event.state is EvState.ASSUMED_BAD]
    assert event.ev_indices == (ev_a,)
    assert event.sent == (int(flow.source.qp.ev_counters().tx_first[ev_a]),), "nothing is sent on it from then on"
    assert planes[event.replacement] == 1
    assert not active[event.replacement]
    writes = tap.decoded(lab.engine.hosts[1].address.address).writes
    again = (writes.flags & BTH_RETRANSMISSION) != 0
    assert again.sum() == dropped
    assert (writes.ev[again] != flow.source.profile.evs[ev_a]).all()


def test_a_lossy_path_is_left_at_once_and_stays_left():
    """20 % drop on one active EV of a plane with spares: it leaves, a spare takes over (paper 5.2.4)."""
    lab = build(planes=2, spines=4, rules=(PathRule(),), seed=5)
    flow = lab.flow(0, 1, 6000 * 256, ev=replace(PAPER, active=4, revive_after=64), window_pkts=64)
    lossy = int(np.flatnonzero(flow.source.qp.ev_states()[1])[0])
    plane, spine = divmod(lossy, 4)
    lab.fabric.rules = (PathRule(source=0, plane=plane, spine=spine, opcodes=DATA, loss=0.2),)
    lab.run(flow)
    assert flow.is_right()
    assert retired(lab) == [lossy]
    assert states_of(flow)[lossy] is EvState.ASSUMED_BAD
    assert 1 <= flow.source.qp.progress().requester.lost <= 8
    active = flow.source.qp.ev_states()[1]
    assert np.bincount(flow.source.profile.planes[active]).tolist() == [2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_a_retransmission_takes_another_ev_of_the_same_plane(seed):
    """Also while the EV that lost it stays in use, since many losses are tolerated."""
    tap = Wiretap()
    rules = (PathRule(source=0, opcodes=DATA, alter=tap), PathRule(source=0, opcodes=DATA, loss=0.05))
    lab = build(planes=2, spines=4, rules=rules, seed=seed)
    ev = replace(PAPER, loss_policy=LossPolicy.THRESHOLD, bad_after=1 << 20, plane_silent_after=1 << 20)
    flow = lab.flow(0, 1, 1500 * 256, ev=ev, window_pkts=64)
    lab.run(flow)
    writes = tap.decoded(lab.engine.hosts[1].address.address).writes
    last: dict[int, int] = {}
    moved = 0
    for psn, value in zip(writes.psn.tolist(), writes.ev.tolist(), strict=True):
        if psn in last:
            moved += 1
            assert value != last[psn]
            assert value >> 8 == last[psn] >> 8, "the plane is above the spine"
        last[psn] = value
    assert moved > 40


def test_planes_carry_equal_shares_whatever_is_retired():
    lab = build(planes=2, spines=4, rules=(PathRule(source=0, plane=0, spine=1, opcodes=DATA, loss=0.2),), seed=5)
    flow = lab.flow(0, 1, 6000 * 256, ev=replace(PAPER, active=4, revive_after=64), window_pkts=64)
    lab.run(flow)
    counters, planes = flow.source.qp.ev_counters(), flow.source.profile.planes
    shares = np.bincount(planes, weights=counters.tx_first)
    assert abs(shares[0] - shares[1]) <= 2


def _took_ns(*rules: PathRule, tail_probe_ns: int | None = 2_000_000, packets: int = 12_000) -> tuple[int, Flow]:
    """A flow under `loss_policy: off` and the exact loss rule, as measurements of gray failures are made."""
    ev = EvConfig(tail_probe_ns=tail_probe_ns, probe_timeout_ns=400_000)
    lab = build(planes=2, spines=8, rules=rules)
    flow = lab.flow(0, 1, packets * 256, window_pkts=256, ack_timeout_ns=8_000_000, ev=ev)
    lab.run(flow, until_ns=20_000_000_000)
    assert flow.is_right()
    return lab.fabric.now_ns, flow


@pytest.mark.parametrize("dead", [{"spine": 6}, {}], ids=["one path", "a plane"])
@pytest.mark.parametrize("tail_probe_ns", [2_000_000, None])
def test_a_path_that_swallows_all_costs_a_flow_less_than_its_healthy_time(dead, tail_probe_ns):
    healthy_ns, _ = _took_ns()
    took_ns, flow = _took_ns(PathRule(source=0, plane=0, loss=1.0, **dead), tail_probe_ns=tail_probe_ns)
    detection_ns = 0 if tail_probe_ns else 40_000_000
    assert took_ns <= 2 * healthy_ns + detection_ns
    evs, used = flow.source.qp.ev_counters(), flow.source.profile.planes == 0
    assert evs.tx_first.min() >= 0.99 * evs.tx_first.max(), "every EV is used whatever happens"
    assert evs.lost[~used].sum() == 0


def test_nothing_is_sent_twice_once_a_silent_path_is_heard_of_again():
    _, flow = _took_ns(PathRule(source=0, plane=0, spine=6, loss=1.0, end_ns=3_000_000), packets=40_000)
    assert flow.target.qp.progress().responder.duplicates <= 2 * 256 / 16


def test_a_slow_path_is_not_silent():
    _, flow = _took_ns(PathRule(source=0, plane=1, spine=2, delay_ns=300_000), packets=4000)
    assert flow.source.qp.progress().requester.packets_rtx == 0
