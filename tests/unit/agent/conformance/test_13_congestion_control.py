"""NSCC inside a queue pair: the window bounds what is in flight, trims make it adapt; quadrants: core/test_nscc.py."""

import pytest

from agent.core.config import QpConfig
from agent.core.congestion.config import NsccConfig
from agent.core.congestion.interface import NOMINAL_HEADER_BYTES
from agent.core.congestion.nscc import Nscc, Reaction
from agent.core.errors import ConfigError
from tests.unit.agent.core.qp_pair import QpPair, Weather

PMTU = 16
MTU = PMTU + NOMINAL_HEADER_BYTES
CONFIG = QpConfig(pmtu=PMTU, ack_timeout_ns=5_000_000, window_pkts=512)
NSCC = NsccConfig(base_rtt_ns=100_000, base_rtt_floor_ns=40_000, port_bps=50_000_000, trimming=True)


def run(seed, **weather):
    controls = []

    def new():
        controls.append(Nscc(NSCC, MTU, 2))
        return controls[-1]

    pair = QpPair(seed, CONFIG, writes=Weather(**weather), control=new)
    pair.post(0, 16_000, 500)
    peak = 0
    while pair.step():
        peak = max(peak, pair.ends[0].qp.progress().in_flight_pkts)
        assert pair.now_ns < 5 * 10**9
    pair.check_delivered()
    return controls[0], peak


@pytest.mark.parametrize("seed", range(5))
def test_no_more_is_in_flight_than_the_window_allows(seed):
    control, peak = run(seed)
    assert peak * MTU <= Nscc(NSCC, MTU, 2).max_cwnd_bytes
    assert peak > 5
    assert control.in_flight_bytes == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "weather",
    [
        {"loss": 0.1},
        {"trim": 0.1},
        {"duplication": 0.1},
        {"loss": 0.05, "trim": 0.05, "marked_evs": frozenset({1, 2})},
    ],
    ids=str,
)
def test_the_account_is_even_when_all_has_arrived(seed, weather):
    control, _ = run(seed, **weather)
    assert control.in_flight_bytes == 0
    assert control.cwnd_bytes >= MTU


def test_trims_lower_the_window():
    calm, _ = run(1)
    trimmed, _ = run(1, trim=0.5)
    assert trimmed.cwnd_bytes < calm.cwnd_bytes
    assert sum(trimmed.reactions.values()) > 0


def test_one_window_may_serve_several_queue_pairs():
    shared = Nscc(NSCC, MTU, 2)
    pairs = [QpPair(seed, CONFIG, control=lambda: shared) for seed in (1, 2)]
    for pair in pairs:
        pair.post(0, 8000, 500)
    sent = [pair.ends[0].qp.transmit(256, pair.now_ns) for pair in pairs]
    # The second finds the window full; one packet is let through, or nothing would ever open it.
    assert [len(batch) for batch in sent] == [shared.max_cwnd_bytes // MTU, 1]
    pairs[0].ends[0].qp.fail(pairs[0].now_ns)
    assert shared.in_flight_bytes == MTU


def test_a_slow_responder_brakes_the_requester_and_lets_go():
    """rcv_cwnd_pen in every SACK holds the window down; restore_cwnd gives it back."""
    control = Nscc(NSCC, MTU, 2)
    pair = QpPair(3, CONFIG, control=lambda: control)
    pair.post(0, 16_000, 500)
    one, two = (end.qp for end in pair.ends)
    windows = []
    for penalty in (0, 127, 0):
        two.brake(penalty)
        least = 1 << 40
        until_ns = pair.now_ns + 1_000_000
        while pair.now_ns < until_ns:
            assert pair.step()
            least = min(least, one.progress().cwnd_bytes)
        windows.append(least)
    assert windows[1] < windows[0] / 4
    assert one.progress().cwnd_bytes > windows[1] * 2
    while pair.step():
        pass
    pair.check_delivered()
    assert control.reactions[Reaction.PENALTY] > 0


@pytest.mark.parametrize("penalty", [-1, 128])
def test_a_penalty_has_seven_bits(penalty):
    with pytest.raises(ConfigError, match=r"must be 0\.\.127"):
        QpPair(1, CONFIG).ends[0].qp.brake(penalty)
