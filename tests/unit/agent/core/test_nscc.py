"""NSCC with made-up signals, and in a loop with a queue that marks."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.core.congestion.config import NsccConfig, NsccNumbers
from agent.core.congestion.interface import NOMINAL_HEADER_BYTES, CongestionControl, Feedback, NoControl, RttSamples
from agent.core.congestion.nscc import Nscc, Reaction
from agent.core.errors import ConfigError

MTU = 4096
REFERENCE = NsccConfig(base_rtt_ns=12_000, base_rtt_floor_ns=0, port_bps=100_000_000_000, trimming=True)
"""UET's network: 100 Gbit/s and 12 us, BDP 150000 bytes."""
BASE, TARGET = 12_000, 9_000


def controller(cwnd: float | None = None, config: NsccConfig = REFERENCE, **options: int) -> Nscc:
    nscc = Nscc(config, **{"mtu_bytes": MTU, "ports_up": 1} | options)
    if cwnd is not None:
        nscc._cwnd = float(cwnd)
    return nscc


def sacks(
    received: int, delay_ns: float, *, sacks: int = 1, marked: int = 0, base: int = BASE, **more: int
) -> Feedback:
    return Feedback(received, sacks, marked, RttSamples(sacks, int(base + delay_ns), base + delay_ns), **more)


def test_the_numbers_are_uets_on_uets_network():
    """12.3: scaling_a 1, scaling_b 0.75 (target over 12 us)."""
    numbers = NsccNumbers.of(REFERENCE, MTU, 1)
    assert numbers.target_delay_ns == TARGET
    assert numbers.alpha == pytest.approx(4 * 0.75 * MTU / TARGET, rel=1e-3)
    assert numbers.fi_bytes == pytest.approx(5 * MTU, rel=1e-3)
    assert numbers.fi_scale == pytest.approx(0.25, rel=1e-3)
    assert numbers.eta_bytes == pytest.approx(0.15 * MTU, rel=1e-3)
    assert (numbers.qa_threshold_ns, numbers.adjust_bytes, numbers.adjust_period_ns) == (4 * TARGET, 8 * MTU, BASE)
    assert controller().cwnd_bytes == controller().max_cwnd_bytes == 225_000


def test_without_trimming_the_target_is_a_base_rtt():
    assert NsccNumbers.of(replace(REFERENCE, trimming=False), MTU, 1).target_delay_ns == BASE


def test_given_numbers_win():
    config = replace(REFERENCE, target_delay_ns=5, max_cwnd_bytes=9 * MTU, fi_bytes=1.0, adjust_bytes_threshold_bytes=7)
    numbers = NsccNumbers.of(config, MTU, 1)
    assert (numbers.target_delay_ns, numbers.fi_bytes, numbers.adjust_bytes) == (5, 1.0, 7)
    assert controller(config=config).cwnd_bytes == 9 * MTU


def test_all_problems_of_a_config_are_named():
    with pytest.raises(ConfigError) as error:
        NsccConfig(base_rtt_ns=0, gamma=2.0, qa_gate=-1)
    assert len(error.value.problems) == 3


# --- the four quadrants (12.1) ---------------------------------------------------------------------------------------


def test_unmarked_and_short_of_the_target_grows_in_proportion():
    """Per window received at delay d: 4 MTU * a * b * (1 - d / target), taking effect every 8 MTU."""
    nscc = controller(100_000)
    for _ in range(100):
        nscc.on_sacks(sacks(1000, TARGET / 2), now_ns=0)
    assert nscc.reactions == {Reaction.PROPORTIONAL: 100}
    grown = 4 * MTU * 0.75 / 2
    assert nscc.cwnd_bytes == pytest.approx(100_000 + grown * 99 / 100, abs=grown * 0.05)


def test_unmarked_and_at_the_target_grows_fairly():
    """5 MTU a window, however large the window."""
    for cwnd in (50_000, 100_000):
        nscc = controller(cwnd)
        for _ in range(cwnd // 1000):
            nscc.on_sacks(sacks(1000, TARGET), now_ns=0)
        assert set(nscc.reactions) == {Reaction.FAIR}
        assert nscc.cwnd_bytes - cwnd == pytest.approx(5 * MTU, rel=0.35)


def test_marked_and_short_of_the_target_changes_nothing():
    nscc = controller(100_000)
    for _ in range(100):
        nscc.on_sacks(sacks(1000, TARGET - 1, marked=1), now_ns=0)
    assert nscc.cwnd_bytes == 100_000
    assert nscc.reactions == {Reaction.NONE: 100}


def test_marked_and_over_the_target_decreases_by_the_average_delay():
    nscc = controller(100_000)
    nscc.rtt.average_delay_ns = 2.0 * TARGET
    nscc.on_sacks(sacks(1000, 2 * TARGET, marked=1), now_ns=0)
    assert nscc.cwnd_bytes == pytest.approx(100_000 * (1 - 0.8 * 0.5), rel=1e-3)
    assert nscc.reactions == {Reaction.DECREASE: 1}


def test_one_decrease_never_takes_more_than_half():
    nscc = controller(100_000)
    nscc.rtt.average_delay_ns = 50.0 * TARGET
    nscc.on_sacks(sacks(1000, 3 * TARGET, marked=1), now_ns=0)
    assert nscc.cwnd_bytes == 50_000


def test_a_decrease_needs_the_average_above_the_target_too():
    nscc = controller(100_000)
    nscc.on_sacks(sacks(1000, 2 * TARGET, marked=1), now_ns=0)
    assert nscc.cwnd_bytes == 100_000
    assert nscc.reactions == {Reaction.HELD: 1}


def test_decreases_are_a_base_rtt_apart():
    nscc = controller(200_000)
    nscc.rtt.average_delay_ns = 3.0 * TARGET
    windows = []
    for now_ns in (0, BASE // 2, BASE - 1, BASE, BASE + 1, 2 * BASE):
        nscc.on_sacks(sacks(1, 3 * TARGET, marked=1), now_ns)
        windows.append(nscc.reactions[Reaction.DECREASE])
    assert windows == [1, 1, 1, 2, 2, 3]


def test_marked_and_unmarked_sacks_of_one_drain_each_take_their_row():
    nscc = controller(100_000)
    nscc.rtt.average_delay_ns = 2.0 * TARGET
    nscc.on_sacks(sacks(4000, 2 * TARGET, sacks=4, marked=1), now_ns=0)
    assert nscc.reactions == {Reaction.FAIR: 1, Reaction.DECREASE: 1}
    assert nscc._increase == pytest.approx(5 * MTU * 3000, rel=1e-3)


# --- fast increase, adjustment ---------------------------------------------------------------------------------------


def test_a_window_without_any_delay_starts_fast_increase():
    nscc = controller(20_000)
    for _ in range(21):
        nscc.on_sacks(sacks(1000, 0), now_ns=0)
    assert nscc.reactions[Reaction.FAST] == 1
    before = nscc.cwnd_bytes
    nscc.on_sacks(sacks(8000, 0), now_ns=0)
    assert nscc.cwnd_bytes == pytest.approx(before + 2000, rel=1e-3)
    nscc.on_sacks(sacks(1000, 0.08 * BASE), now_ns=0)
    nscc.on_sacks(sacks(1000, 0), now_ns=0)
    assert nscc.reactions[Reaction.FAST] == 2
    assert nscc.reactions[Reaction.PROPORTIONAL] == 22


def test_the_window_grows_a_little_every_period_whatever_the_signals():
    nscc = controller(100_000)
    for now_ns in (0, BASE - 1, BASE, BASE + 1, 2 * BASE):
        nscc.on_sacks(sacks(0, TARGET - 1, marked=1), now_ns)
    assert nscc.cwnd_bytes == pytest.approx(100_000 + 2 * 0.15 * MTU, rel=1e-3)


def test_the_window_never_leaves_its_bounds():
    nscc = controller()
    for _ in range(50):
        nscc.on_sacks(sacks(100_000, 0), now_ns=0)
    assert nscc.cwnd_bytes == nscc.max_cwnd_bytes
    nscc.on_lost(10**9)
    assert nscc.cwnd_bytes == MTU


def test_without_a_valid_sample_only_bytes_are_counted():
    nscc = controller(50_000)
    nscc.on_sent(10_000)
    nscc.on_sacks(Feedback(8_000, 1, 1, None), now_ns=0)
    assert (nscc.cwnd_bytes, nscc.in_flight_bytes, dict(nscc.reactions)) == (50_000, 2_000, {})


# --- what is in flight -----------------------------------------------------------------------------------------------


def test_room_is_whole_packets():
    nscc = controller(3 * MTU)
    assert nscc.room_pkts() == 3
    nscc.on_sent(MTU + 1)
    assert nscc.room_pkts() == 1
    nscc.on_sent(3 * MTU)
    assert nscc.room_pkts() == 0
    nscc.on_discarded(4 * MTU + 1)
    assert (nscc.room_pkts(), nscc.in_flight_bytes) == (3, 0)


def test_an_inferred_loss_takes_its_size_from_the_window():
    nscc = controller(10 * MTU)
    nscc.on_sent(10 * MTU)
    nscc.on_lost(2 * MTU)
    assert (nscc.cwnd_bytes, nscc.in_flight_bytes, nscc.room_pkts()) == (8 * MTU, 8 * MTU, 0)


def test_in_flight_is_signed():
    """Given up, and then it arrived after all: the resend will be a duplicate, and the sum is right again."""
    nscc = controller(10 * MTU)
    nscc.on_sent(MTU)
    nscc.on_lost(MTU)
    nscc.on_sacks(sacks(MTU, 0), now_ns=0)
    assert nscc.in_flight_bytes == -MTU
    nscc.on_sent(MTU)
    assert nscc.in_flight_bytes == 0


# --- quick adapt -----------------------------------------------------------------------------------------------------


def after_one_period(nscc: Nscc, received: int) -> int:
    """Start a period, receive so much in it; when it ends."""
    nscc.on_sacks(sacks(0, TARGET / 2), now_ns=0)
    nscc.on_sacks(sacks(received, TARGET / 2), now_ns=1)
    return BASE + TARGET


def test_a_trim_falls_to_what_was_achieved():
    nscc = controller()
    nscc.on_sent(200_000)
    end = after_one_period(nscc, 20_000)
    nscc.on_trimmed(MTU, 1, end)
    assert nscc.reactions[Reaction.QUICK_ADAPT] == 1
    assert nscc.cwnd_bytes == 20_000
    assert nscc.in_flight_bytes == 180_000 - MTU


def test_marks_and_trims_of_the_old_window_are_ignored_then():
    nscc = controller()
    nscc.on_sent(200_000)
    end = after_one_period(nscc, 20_000)
    nscc.on_trimmed(MTU, 1, end)
    to_ignore = nscc.in_flight_bytes
    nscc.rtt.average_delay_ns = 3.0 * TARGET
    nscc.on_sacks(sacks(10_000, 3 * TARGET, marked=1), end + 1)
    nscc.on_trimmed(10 * MTU, 10, end + 2)
    assert nscc.cwnd_bytes == 20_000
    assert nscc.reactions[Reaction.IGNORED] == 2
    nscc.on_sacks(sacks(to_ignore - 10_000 - 10 * MTU, 3 * TARGET, marked=1), end + 3)
    assert nscc.cwnd_bytes < 20_000


def test_a_trim_before_the_period_ends_takes_its_size_and_is_remembered():
    nscc = controller()
    nscc.on_sent(200_000)
    end = after_one_period(nscc, 20_000)
    nscc.on_trimmed(2 * MTU, 2, end - 1)
    assert nscc.cwnd_bytes == nscc.max_cwnd_bytes - 2 * MTU
    nscc.on_sacks(sacks(1_000, TARGET / 2), end)
    assert nscc.cwnd_bytes == 21_000


def test_the_gate_spares_who_achieved_enough():
    """A period in which more than max_cwnd / 8 arrived is no incast."""
    nscc = controller()
    end = after_one_period(nscc, nscc.max_cwnd_bytes // 8 + 1)
    nscc.on_trimmed(MTU, 1, end)
    assert nscc.reactions[Reaction.QUICK_ADAPT] == 0
    assert nscc.cwnd_bytes == nscc.max_cwnd_bytes - MTU


def test_a_very_long_delay_fires_without_any_trim():
    nscc = controller()
    end = after_one_period(nscc, 10_000)
    nscc.on_sacks(sacks(0, 4 * TARGET + 1), end)
    assert nscc.cwnd_bytes == 10_000


def test_quick_adapt_can_be_disabled():
    nscc = controller(config=replace(REFERENCE, disable_qa=True))
    end = after_one_period(nscc, 10_000)
    nscc.on_trimmed(MTU, 1, end)
    assert nscc.cwnd_bytes == nscc.max_cwnd_bytes - MTU


# --- the responder's brake (12.4) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("penalty", "left"), [(64, 0.5), (127, 1 / 128)])
def test_a_penalty_through_one_round_trip(penalty, left):
    """64 halves the window, 127 leaves a packet."""
    nscc = controller(50 * MTU)
    nscc.on_sent(50 * MTU)
    for _ in range(50):
        nscc.on_sacks(sacks(MTU, 0, penalty=penalty), now_ns=0)
        nscc.on_sent(MTU * nscc.room_pkts())
    assert nscc.cwnd_bytes == pytest.approx(max(MTU, 50 * MTU * left), abs=MTU)


def test_nothing_grows_under_a_penalty_and_the_window_returns_if_told():
    nscc = controller(50 * MTU)
    nscc.on_sent(50 * MTU)
    for now_ns in (0, BASE, 2 * BASE):
        nscc.on_sacks(sacks(MTU, 0, penalty=64), now_ns)
    low = nscc.cwnd_bytes
    assert low < 50 * MTU
    assert set(nscc.reactions) == {Reaction.PENALTY}
    restored, kept = nscc, None
    restored.on_sacks(sacks(0, TARGET - 1, marked=1, restore=True), 2 * BASE)
    assert restored.cwnd_bytes == 50 * MTU
    kept = controller(50 * MTU)
    kept.on_sent(50 * MTU)
    kept.on_sacks(sacks(MTU, 0, penalty=64), 0)
    kept.on_sacks(sacks(0, TARGET - 1, marked=1), 1)
    assert kept.cwnd_bytes < 50 * MTU


# --- ports and round trips -------------------------------------------------------------------------------------------


def test_the_largest_window_follows_the_ports():
    nscc = controller(ports_up=4)
    assert nscc.cwnd_bytes == 4 * 225_000
    nscc.on_ports(1)
    assert nscc.cwnd_bytes == nscc.max_cwnd_bytes == 225_000
    nscc.on_ports(4)
    assert (nscc.cwnd_bytes, nscc.max_cwnd_bytes) == (225_000, 900_000)
    nscc.on_ports(0)
    assert nscc.max_cwnd_bytes == 225_000


def test_the_largest_window_follows_the_least_round_trip_down():
    nscc = controller()
    nscc.on_sacks(sacks(0, 0, base=BASE // 2), now_ns=0)
    assert nscc.max_cwnd_bytes == nscc.cwnd_bytes == 112_500
    nscc.on_sacks(sacks(0, 0, base=BASE), now_ns=0)
    assert nscc.max_cwnd_bytes == 112_500


SIGNAL = st.tuples(
    st.sampled_from(["sacks", "sacks", "sacks", "sacks", "trim", "loss", "send", "ports"]),
    st.integers(0, 100_000),
    st.integers(-8_000, 60_000),
    st.integers(0, 4),
    st.integers(0, 20_000),
    st.sampled_from([0, 0, 0, 64, 127]),
)


def give(nscc: Nscc, signal: tuple, now_ns: int, slower: int = 1) -> None:
    kind, size, delay, marked, _, penalty = signal
    if kind == "sacks":
        rtt = (BASE + delay) * slower
        nscc.on_sacks(
            Feedback(size, 4, marked, RttSamples(4, rtt, float(rtt)), penalty, size % 2 == 1), now_ns * slower
        )
    elif kind == "trim":
        nscc.on_trimmed(size, 1 + size // MTU, now_ns * slower)
    elif kind == "loss":
        nscc.on_lost(size)
    elif kind == "send":
        nscc.on_sent(size)
    else:
        nscc.on_ports(marked)


@given(st.lists(SIGNAL, max_size=60))
@settings(max_examples=200)
def test_the_window_stays_between_one_packet_and_the_largest(signals):
    nscc, now_ns = controller(ports_up=2), 0
    for signal in signals:
        now_ns += signal[4]
        give(nscc, signal, now_ns)
        assert MTU <= nscc.cwnd_bytes <= nscc.max_cwnd_bytes
        assert nscc.room_pkts() >= 0


@given(st.lists(SIGNAL, max_size=60), st.sampled_from([2, 80, 1000]))
@settings(max_examples=100)
def test_a_network_k_times_slower_behaves_the_same_k_times_slower(signals, slower):
    """With delays and clock K times longer and rates K times lower, every window is the same."""
    slow = replace(REFERENCE, base_rtt_ns=BASE * slower, port_bps=REFERENCE.port_bps // slower)
    ours, reference, now_ns = controller(config=slow, ports_up=2), controller(ports_up=2), 0
    for signal in signals:
        now_ns += signal[4]
        give(reference, signal, now_ns)
        give(ours, signal, now_ns, slower)
        assert ours._cwnd == pytest.approx(reference._cwnd, rel=1e-6)
    assert ours.reactions == reference.reactions


def test_control_off_limits_nothing():
    off: CongestionControl = NoControl()
    off.on_sent(10**12)
    off.on_sacks(Feedback(1, 1, 1, None), 0)
    off.on_trimmed(1, 1, 0)
    off.on_lost(1)
    off.on_discarded(1)
    off.on_ports(0)
    assert (off.cwnd_bytes, off.in_flight_bytes) == (0, 0)
    assert off.room_pkts() > 1 << 24


def test_nominal_size_is_udp_length_plus_forty():
    """A write of 166 bytes of payload: 8 + 12 + 4 + 4 + 16 + 166 + 4 in UDP."""
    assert NOMINAL_HEADER_BYTES + 166 == 214 + 40


# --- in a loop with a queue ------------------------------------------------------------------------------------------

SLOW_BASE_NS = 1_000_000
BDP_PKTS = 50


class MarkingQueue:
    """One link that sends a packet a tick behind a queue that marks between 0.2 and 0.8 BDP (UET), and NSCC senders.

    A packet's SACK returns a base RTT after it left the queue; up to four are read together.
    """

    def __init__(self, flows: list[Nscc], seed: int, starts: list[int] | None = None) -> None:
        self.flows, self.rng = flows, np.random.default_rng(seed)
        self.starts = starts or [0] * len(flows)
        self.tick_ns = SLOW_BASE_NS // BDP_PKTS
        self.queue: deque[tuple[int, int]] = deque()
        self.returning: deque[tuple[int, int, int, bool]] = deque()
        self.delays: list[float] = []
        self.served = [0] * len(flows)
        self.ticks = 0

    def run(self, round_trips: int) -> None:
        for _ in range(round_trips * BDP_PKTS):
            self.ticks += 1
            now = self.ticks * self.tick_ns
            self._read_sacks(now)
            for number in self.rng.permutation(len(self.flows)):
                flow = self.flows[number]
                for _ in range(flow.room_pkts() if self.ticks >= self.starts[number] else 0):
                    flow.on_sent(MTU)
                    self.queue.append((int(number), now))
            if self.queue:
                depth = len(self.queue) / BDP_PKTS
                number, sent = self.queue.popleft()
                self.served[number] += 1
                marked = bool(self.rng.random() < (depth - 0.2) / 0.6)
                self.returning.append((now + SLOW_BASE_NS, number, sent, marked))
            self.delays.append(len(self.queue) * self.tick_ns)

    def _read_sacks(self, now: int) -> None:
        if self.ticks % 4:
            return
        due: dict[int, list[tuple[int, bool]]] = {}
        while self.returning and self.returning[0][0] <= now:
            _, number, sent, marked = self.returning.popleft()
            due.setdefault(number, []).append((now - sent, marked))
        for number, answers in due.items():
            rtts = [rtt for rtt, _ in answers]
            samples = RttSamples(len(rtts), min(rtts), sum(rtts) / len(rtts))
            marked_count = sum(marked for _, marked in answers)
            self.flows[number].on_sacks(Feedback(MTU * len(rtts), len(rtts), marked_count, samples), now)


def slow_controllers(count: int) -> list[Nscc]:
    rate = BDP_PKTS * MTU * 8 * 10**9 // SLOW_BASE_NS
    config = NsccConfig(base_rtt_ns=SLOW_BASE_NS, base_rtt_floor_ns=0, port_bps=rate, trimming=True)
    return [controller(config=config) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("flows", [1, 2, 8])
def test_the_queue_settles_about_the_target_and_the_link_stays_full(flows, seed):
    loop = MarkingQueue(slow_controllers(flows), seed)
    loop.run(100)
    loop.delays.clear()
    served = sum(loop.served)
    loop.run(200)
    target = 0.75 * SLOW_BASE_NS
    assert 0.5 * target < np.mean(loop.delays) < 1.3 * target
    assert np.percentile(loop.delays, 99) < 2 * target
    assert sum(loop.served) - served > 0.98 * 200 * BDP_PKTS


@pytest.mark.parametrize("seed", range(3))
def test_a_late_flow_gets_its_share(seed):
    flows = slow_controllers(2)
    flows[1]._cwnd = float(MTU)
    loop = MarkingQueue(flows, seed, starts=[0, 50 * BDP_PKTS])
    loop.run(250)
    loop.served = [0, 0]
    loop.run(300)
    assert 0.8 < loop.served[1] / loop.served[0] < 1.25


def test_when_one_flow_leaves_the_other_takes_the_link():
    loop = MarkingQueue(slow_controllers(2), seed=1)
    loop.run(100)
    loop.starts[0] = 10**9
    loop.run(60)
    loop.served = [0, 0]
    loop.run(100)
    assert loop.served[1] > 0.97 * 100 * BDP_PKTS
