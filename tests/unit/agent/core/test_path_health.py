"""Which planes lose far more than the others, and what a queue pair does about them."""

import numpy as np
import pytest
from msgspec.structs import replace

from agent.core.config import LossPolicy, LossRule
from agent.core.congestion.interface import NoControl
from agent.core.counters import EvCounters
from agent.core.ev.profile_sources import EvProfile
from agent.core.events import PlaneLossy, PlaneTried
from agent.core.send.path_health import LossyPlane, PlaneLosses
from agent.io.memory_fabric import PathRule
from tests.unit.agent.conformance.agents import DATA, PAPER
from tests.unit.agent.io.memory_lab import build

PLANES = np.repeat(np.arange(2, dtype=np.uint8), 4)


def judged(lost, acked=1000, now_ns=5):
    counters = EvCounters.zeros(8)
    planes = PlaneLosses(EvProfile(np.arange(8, dtype=np.uint32), PLANES), counters)
    counters.acked += acked
    counters.lost += np.array(lost)
    return planes.judge(now_ns)


@pytest.mark.parametrize(
    ("lost", "planes"),
    [
        ([0, 0, 0, 0, 8, 9, 8, 9], [1]),
        ([0, 0, 0, 0, 40, 0, 0, 0], []),
        ([0, 0, 0, 0, 20, 20, 0, 0], []),
        ([0, 0, 0, 0, 2, 2, 2, 2], []),
        ([3, 3, 3, 3, 10, 10, 10, 10], []),
        ([2, 2, 2, 2, 10, 10, 10, 10], [1]),
    ],
    ids=["a plane", "a path", "half of it", "few", "three times as many", "five times as many"],
)
def test_a_plane_is_lossy_by_all_its_paths_and_beside_the_others(lost, planes):
    assert [each.plane for each in judged(lost)] == planes


def test_shares_below_half_a_percent_are_none():
    assert judged([0, 0, 0, 0, 8, 8, 8, 8], acked=2000) == []


def test_what_is_reported_was_counted():
    assert judged([1, 0, 0, 0, 10, 11, 12, 13]) == [LossyPlane(1, 46, 4046, 1, 4001)]


class Ports(NoControl):
    """Remembers of how many ports it was told."""

    def __init__(self):
        self.up = []

    def on_ports(self, ports_up):
        self.up.append(ports_up)


def _flow(leaves, seed=1, control=None):
    lab = build(planes=4, rules=(PathRule(plane=2, source=0, opcodes=DATA, loss=0.05),), seed=seed)
    ev = replace(PAPER, leave_lossy_planes=leaves, plane_retry_ns=2_000_000)
    flow = lab.flow(0, 1, 20_000 * 256, window_pkts=256, ev=ev, loss_rule=LossRule.BOTH, control=control)
    lab.run(flow)
    assert flow.is_right()
    planes = flow.source.profile.planes
    sent = np.bincount(planes, weights=flow.source.qp.ev_counters().tx_first).astype(int)
    return sent, [item.event for item in lab.events if isinstance(item.event, PlaneLossy | PlaneTried)]


def test_a_lossy_host_link_is_reported_and_used_on_unless_it_is_to_be_left():
    sent, events = _flow(leaves=False)
    assert events
    assert {(event.plane, event.left) for event in events} == {(2, False)}
    assert sent[2] > 4000


def test_a_lossy_host_link_is_left_by_setting_and_tried_again():
    sent, events = _flow(leaves=True)
    assert isinstance(events[0], PlaneLossy)
    assert events[0].left
    assert any(isinstance(event, PlaneTried) for event in events)
    assert sent[2] < 3000
    others = sent[[0, 1, 3]]
    assert others.max() - others.min() <= 0.02 * others.max()


def test_congestion_control_follows_a_plane_that_is_left_and_tried_again():
    controls = []

    def control():
        controls.append(Ports())
        return controls[-1]

    _, events = _flow(leaves=True, control=control)
    wanted = [
        4 if isinstance(event, PlaneTried) else 3 for event in events if isinstance(event, PlaneTried) or event.left
    ]
    assert wanted[:2] == [3, 4]
    assert controls[0].up == wanted


def test_the_last_plane_is_never_left_and_off_leaves_none():
    lab = build(planes=1, rules=(PathRule(source=0, opcodes=DATA, loss=0.05),))
    flow = lab.flow(0, 1, 4000 * 256, ev=replace(PAPER, leave_lossy_planes=True))
    lab.run(flow)
    assert flow.is_right()
    lab = build(planes=2, rules=(PathRule(plane=1, source=0, opcodes=DATA, loss=0.05),))
    ev = replace(PAPER, loss_policy=LossPolicy.OFF, leave_lossy_planes=True)
    flow = lab.flow(0, 1, 6000 * 256, ev=ev)
    lab.run(flow)
    events = [item.event for item in lab.events if isinstance(item.event, PlaneLossy)]
    assert events
    assert not any(event.left for event in events)
