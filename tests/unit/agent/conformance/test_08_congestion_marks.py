"""CE on one path: SKIP of that EV only."""

import numpy as np

from agent.core.ev.state import EvState
from agent.io.memory_fabric import PathRule
from tests.unit.agent.conformance.agents import DATA, PAPER, mark_congestion, retired, states_of, step_for
from tests.unit.agent.io.memory_lab import STEP_NS, build


def test_a_marked_path_is_used_less_and_no_other_suffers():
    lab = build(rules=(PathRule(source=0, spine=3, plane=0, opcodes=DATA, alter=mark_congestion),))
    flow = lab.flow(0, 1, 4000 * 256, ev=PAPER, window_pkts=64)
    lab.run(flow)
    counters, skips = flow.source.qp.ev_counters(), flow.source.qp._requester.ev_set.skips
    assert flow.is_right()
    assert skips.nonzero()[0].tolist() == [3]
    assert counters.tx_first[3] < 0.9 * np.median(counters.tx_first)
    assert not retired(lab)
    assert flow.source.qp.progress().requester.packets_rtx == 0


def test_no_other_ev_is_ever_in_skip():
    lab = build(rules=(PathRule(source=0, spine=3, plane=0, opcodes=DATA, alter=mark_congestion),))
    flow = lab.flow(0, 1, 1000 * 256, ev=PAPER, window_pkts=64)
    seen: set[int] = set()
    while not flow.is_complete():
        step_for(lab, STEP_NS)
        seen |= {row for row, state in enumerate(states_of(flow)) if state is EvState.SKIP}
    assert seen == {3}


def test_oblivious_spraying_ignores_marks():
    lab = build(rules=(PathRule(source=0, spine=3, plane=0, opcodes=DATA, alter=mark_congestion),))
    flow = lab.flow(0, 1, 800 * 256)
    lab.run(flow)
    assert np.ptp(flow.source.qp.ev_counters().tx_first) == 0
