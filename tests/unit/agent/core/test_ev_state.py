import numpy as np
import pytest

from agent.core.ev.state import TRANSITIONS, EvSignal, EvState, after

G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED

EXPECTED = {
    # signal: what GOOD, SKIP, ASSUMED_BAD, DENIED become (MRC Figure 5, 9.3.1, 11.2.2)
    EvSignal.MARKED: (S, S, B, D),
    EvSignal.TRIMMED: (S, S, B, D),
    EvSignal.ALWAYS_SKIP: (B, B, B, D),
    EvSignal.LOST: (B, B, B, D),
    EvSignal.PASSED: (G, G, B, D),
    EvSignal.REVIVED: (G, S, G, D),
    EvSignal.REVIVED_MARKED: (G, S, S, D),
    EvSignal.DENY: (D, D, D, D),
    EvSignal.ALLOW: (G, S, B, G),
    EvSignal.SET_GOOD: (G, G, G, G),
    EvSignal.SET_BAD: (B, B, B, B),
}


@pytest.mark.parametrize("signal", list(EvSignal))
@pytest.mark.parametrize("state", list(EvState))
def test_every_state_answers_every_signal_as_specified(state, signal):
    assert after(np.array([state], np.uint8), signal).tolist() == [EXPECTED[signal][state]]


def test_a_denied_ev_returns_only_when_a_controller_says_so():
    assert TRANSITIONS[D] == {EvSignal.ALLOW: G, EvSignal.SET_GOOD: G, EvSignal.SET_BAD: B}


def test_many_states_move_at_once():
    assert after(np.array([G, S, B, D], np.uint8), EvSignal.LOST).tolist() == [B, B, B, D]
