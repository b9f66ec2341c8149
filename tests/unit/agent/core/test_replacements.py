"""A controller puts another value in a row while a flow uses it: over the fabric in memory, whole frames and all."""

import numpy as np

from agent.core.ev.controlled_profile import Replacements
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.state import EvState
from agent.core.events import Event, EvReplaced, EvStatesChanged
from agent.io.memory_fabric import PathRule
from agent.wire.array.template import FlowTemplate
from agent.wire.ev import EvCodec
from tests.unit.agent.conformance.agents import DATA, PAPER, states_of, step_for
from tests.unit.agent.io.memory_lab import Flow, Lab, build


def put(lab: Lab, flow: Flow, row: int, ev: int, state: EvState = EvState.GOOD) -> None:
    """As the host does: the way its packets are to begin, then the value."""
    hosts, end = lab.engine.hosts, flow.source
    one = FlowTemplate.for_peer(
        hosts[0].address, hosts[1].address, flow.target.qpn, np.array([ev], np.uint32), codec=EvCodec()
    )
    hosts[0].channels[end.qpn].coming[row] = one
    end.qp.replace_ev(row, ev, state, lab.fabric.now_ns)


def other_spine(flow: Flow, row: int, spine: int) -> int:
    """The value of the same plane over another spine."""
    evs = flow.source.profile.evs
    return int(evs[row]) & ~0xFF | spine


def test_data_moves_to_the_new_path_and_not_one_packet_is_sent_again():
    watched = (PathRule(plane=0, spine=1, source=0, opcodes=DATA), PathRule(plane=0, spine=2, source=0, opcodes=DATA))
    lab = build(rules=watched)
    flow = lab.flow(0, 1, 4000 * 256, ev=PAPER)
    step_for(lab, 300_000)
    assert not flow.is_complete()
    ev = other_spine(flow, 1, 2)
    put(lab, flow, 1, ev)
    step_for(lab, 500_000)
    over_old = lab.fabric.counts[0].seen
    assert int(flow.source.profile.evs[1]) == ev
    lab.run(flow)
    assert flow.is_right()
    over = [count.seen for count in lab.fabric.counts]
    assert over[0] == over_old, "the old path carries nothing more"
    counters = flow.source.qp.ev_counters()
    assert over[1] == counters.tx_first[1] + counters.tx_first[2] - over_old
    assert flow.source.qp.progress().requester.packets_rtx == 0
    events = [item.event for item in lab.events if isinstance(item.event, EvReplaced | EvStatesChanged)]
    assert [type(event) for event in events] == [EvStatesChanged, EvReplaced, EvStatesChanged]


def test_a_path_that_died_is_replaced_once_its_packets_are_accounted_for():
    lab = build(rules=(PathRule(plane=0, spine=1, source=0, loss=1.0),))
    flow = lab.flow(0, 1, 2000 * 256, ev=PAPER)
    step_for(lab, 60_000)
    put(lab, flow, 1, other_spine(flow, 1, 3))
    assert states_of(flow)[1] is EvState.DENIED
    lab.run(flow)
    step_for(lab, 10_000_000)
    assert flow.is_right()
    assert states_of(flow)[1] is EvState.GOOD


def test_a_row_to_be_replaced_stays_out_of_use_whatever_else_a_controller_says():
    lab = build()
    flow = lab.flow(0, 1, 4000 * 256, ev=PAPER)
    step_for(lab, 100_000)
    qp, rows = flow.source.qp, np.array([1, 2])
    put(lab, flow, 1, other_spine(flow, 1, 3))
    qp.allow(rows, 0)
    qp.set_evs(rows, EvState.ASSUMED_BAD, lab.fabric.now_ns)
    assert states_of(flow)[1:3] == [EvState.DENIED, EvState.ASSUMED_BAD]
    step_for(lab, 300_000)
    assert states_of(flow)[1] is EvState.ASSUMED_BAD, "what it was set to last"


def test_events_not_asked_for_are_not_reported():
    lab = build()
    flow = lab.flow(0, 1, 256, ev=PAPER)
    qp = flow.source.qp
    qp.report_evs(frozenset({EvState.ASSUMED_BAD}))
    for state in (EvState.ASSUMED_BAD, EvState.GOOD, EvState.DENIED):
        qp.set_evs(np.array([0]), state, 0)
    changes = [event for event in qp.drain_events() if isinstance(event, EvStatesChanged)]
    assert [event.state for event in changes] == [EvState.ASSUMED_BAD]


class _Set:
    def __init__(self) -> None:
        self.told: list[tuple[list[int], EvState]] = []

    def set_states(self, rows, state, now_ns):
        self.told.append((rows.tolist(), state))


def test_a_value_waits_for_its_row_only():
    busy = {0, 1}
    profile = EvProfile(np.array([10, 11, 12], np.uint32), np.zeros(3, np.uint8))
    ev_set = _Set()
    events: list[Event] = []
    coming = Replacements(profile, ev_set, busy.__contains__, events.append)  # type: ignore[arg-type]
    coming.add(0, 20, EvState.GOOD, 0)
    coming.add(1, 21, EvState.GOOD, 0)
    coming.settle(1)
    assert events == []
    busy.discard(1)
    coming.settle(2)
    assert events == [EvReplaced(2, 1, 11, 21)]
    assert (profile.evs.tolist(), coming.drain_replaced(), len(coming)) == ([10, 21, 12], [1], 1)
    assert coming.others(np.array([0, 1])).tolist() == [1]
    assert ev_set.told[-1] == ([1], EvState.GOOD)
