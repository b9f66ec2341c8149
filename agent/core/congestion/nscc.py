"""NSCC: a congestion window controlled by queueing delay and ECN marks (MRC chapter 8 after UET 3.6.13).

    ECN | delay < target             | delay >= target
    no  | proportional, fast increase | fair increase
    yes | nothing: load balancing acts | multiplicative decrease, once per base RTT

Trims and long delays fire quick_adapt: the window becomes what was achieved in the last period. All SACKs of a drain
come in one call; where some are marked and some not, each share of the bytes uses its own row of the table.
"""

from collections import Counter
from enum import Enum

from agent.core.congestion.config import NsccConfig, NsccNumbers, bdp_bytes, given
from agent.core.congestion.interface import Feedback, RttSamples
from agent.core.send.rtt import RttEstimator

_MAX_CWND_BDPS = 1.5
_NO_DELAY = 0.08
"""Share of the base RTT below which there is no queue: 1 us of 12 us (our choice)."""
_PENALTY_SHIFT = 7


class Reaction(Enum):
    """Effect of a call on the window."""

    PROPORTIONAL = "proportional_increase"
    FAST = "fast_increase"
    FAIR = "fair_increase"
    NONE = "none"
    """Marked, but with little delay."""
    DECREASE = "multiplicative_decrease"
    HELD = "decrease_held"
    """Marked and delayed, but less than a base RTT after the last decrease, or the average is still below target."""
    QUICK_ADAPT = "quick_adapt"
    IGNORED = "ignored"
    """Marked by the queue to which quick_adapt has already reacted."""
    PENALTY = "rcv_cwnd_pen"


class Nscc:
    """The window to one destination; a `CongestionControl`."""

    def __init__(self, config: NsccConfig, mtu_bytes: int, ports_up: int) -> None:
        """Start with `ports_up` ports that work at both ends; `mtu_bytes` is the nominal size of a full packet."""
        self._config = config
        self._mtu = mtu_bytes
        self.rtt = RttEstimator(config.base_rtt_ns, min(config.base_rtt_floor_ns, config.base_rtt_ns))
        self.reactions: Counter[Reaction] = Counter()
        self._in_flight = 0
        self._increase = 0.0
        """Increase collected since the last adjustment, bytes squared: it is divided by the window when applied."""
        self._received = 0
        self._last_adjust_ns: int | None = None
        self._last_decrease_ns: int | None = None
        self._undelayed = 0
        """Bytes received in a row without delay."""
        self._fast = False
        self._achieved = 0
        self._ignored = self._to_ignore = 0
        self._qa_triggered = False
        self._qa_end_ns: int | None = None
        self._saved_cwnd: float | None = None
        self._ports_up = max(1, ports_up)
        self._numbers = NsccNumbers.of(config, mtu_bytes, self._ports_up)
        self._max_cwnd = self._cwnd = self._largest()

    @property
    def cwnd_bytes(self) -> int:
        """Return the window: from one full packet to `max_cwnd_bytes`."""
        return int(self._cwnd)

    @property
    def max_cwnd_bytes(self) -> int:
        """Return the largest window: 1.5 BDP of the ports that work and the least round trip seen."""
        return int(self._max_cwnd)

    @property
    def in_flight_bytes(self) -> int:
        """Return bytes sent and not accounted for since; signed."""
        return self._in_flight

    def room_pkts(self) -> int:
        """Count the full packets that fit into the window."""
        return max(0, int(self._cwnd - self._in_flight) // self._mtu)

    def on_sent(self, nominal_bytes: int) -> None:
        """Count bytes in flight."""
        self._in_flight += nominal_bytes

    def on_sacks(self, feedback: Feedback, now_ns: int) -> None:
        """Process all SACKs of a drain (OnACK)."""
        before = self._in_flight
        self._count_received(feedback.newly_received_bytes)
        self._penalize(feedback, before)
        if feedback.rtt is None:
            return
        delay_ns = self._learn(feedback.rtt)
        if feedback.marked and self._ignores():
            feedback = _unmarked_share(feedback)
        if feedback.sacks and not self._quick_adapt(delay_ns, now_ns):
            self._steer(feedback, delay_ns, now_ns)

    def on_trimmed(self, nominal_bytes: int, pkts: int, now_ns: int) -> None:
        """Process trims (OnNACK): a trimmed packet met a full queue and counts as marked and delayed by a base RTT."""
        self._in_flight -= nominal_bytes
        self._ignored += nominal_bytes
        self.rtt.add_delay(self._config.base_rtt_ns, pkts)
        self._qa_triggered = True
        if not self._ignores() and not self._quick_adapt(self._config.base_rtt_ns, now_ns):
            self._set(self._cwnd - nominal_bytes)

    def on_lost(self, nominal_bytes: int) -> None:
        """Process inferred losses (OnInferredLoss)."""
        self._set(self._cwnd - nominal_bytes)
        self._in_flight -= nominal_bytes
        self._ignored += nominal_bytes

    def on_discarded(self, nominal_bytes: int) -> None:
        """Remove bytes from flight; the window stays."""
        self._in_flight -= nominal_bytes

    def on_ports(self, ports_up: int) -> None:
        """Use the rate of the ports that work; with none, that of one port, so that the window does not vanish."""
        self._ports_up = max(1, ports_up)
        self._numbers = NsccNumbers.of(self._config, self._mtu, self._ports_up)
        self._limit()

    def _largest(self) -> float:
        bdp = bdp_bytes(self._config, self.rtt.base_rtt_ns, self._ports_up)
        return max(self._mtu, given(self._config.max_cwnd_bytes, _MAX_CWND_BDPS * bdp))

    def _limit(self) -> None:
        self._max_cwnd = self._largest()
        self._set(self._cwnd)

    def _set(self, cwnd: float) -> None:
        self._cwnd = max(float(self._mtu), min(cwnd, self._max_cwnd))

    def _count_received(self, newly_received_bytes: int) -> None:
        self._in_flight -= newly_received_bytes
        self._ignored += newly_received_bytes
        self._received += newly_received_bytes
        self._achieved += newly_received_bytes

    def _learn(self, samples: RttSamples) -> float:
        """Return the mean delay of the samples, ns; a new least round trip reduces the largest window."""
        base_rtt_ns = self.rtt.base_rtt_ns
        delay_ns = self.rtt.add(samples)
        if self.rtt.base_rtt_ns < base_rtt_ns:
            self._limit()
        return delay_ns

    def _penalize(self, feedback: Feedback, in_flight: int) -> None:
        """Apply the responder's penalty (MRC chapter 8); `in_flight` is the amount before these SACKs.

        A window is full when less than one more packet would fit, so in-flight bytes count as one packet more.
        """
        if feedback.penalty:
            if self._saved_cwnd is None:
                self._saved_cwnd = self._cwnd
            self.reactions[Reaction.PENALTY] += 1
            taken = feedback.penalty * feedback.newly_received_bytes >> _PENALTY_SHIFT
            self._set(min(self._cwnd, in_flight + self._mtu) - taken)
        elif self._saved_cwnd is not None:
            if feedback.restore:
                self._set(self._saved_cwnd)
            self._saved_cwnd = None

    def _steer(self, feedback: Feedback, delay_ns: float, now_ns: int) -> None:
        """Apply the table in this module's docstring to the unmarked and then to the marked share."""
        delayed = delay_ns >= self._numbers.target_delay_ns
        fresh = _unmarked_share(feedback)
        if fresh.sacks and self._saved_cwnd is None:
            received = fresh.newly_received_bytes
            self._fair_increase(received) if delayed else self._proportional_increase(received, delay_ns)
        self._adjust(now_ns)
        if feedback.marked:
            self._decrease(now_ns) if delayed else self._note(Reaction.NONE)

    def _note(self, reaction: Reaction) -> None:
        self.reactions[reaction] += 1

    def _fair_increase(self, received: int) -> None:
        self._increase += self._numbers.fi_bytes * received
        self._note(Reaction.FAIR)

    def _proportional_increase(self, received: int, delay_ns: float) -> None:
        self._fast_increase(received, delay_ns)
        if not self._fast:
            self._increase += self._numbers.alpha * received * (self._numbers.target_delay_ns - delay_ns)
            self._note(Reaction.PROPORTIONAL)

    def _fast_increase(self, received: int, delay_ns: float) -> None:
        """Grow with the bytes received after a whole window without any queue, until there is one."""
        if delay_ns >= _NO_DELAY * self.rtt.base_rtt_ns:
            self._leave_fast_mode()
            return
        self._undelayed += received
        if self._fast or self._undelayed > self._cwnd:
            self._fast = True
            self._set(self._cwnd + received * self._numbers.fi_scale)
            self._note(Reaction.FAST)

    def _leave_fast_mode(self) -> None:
        self._fast = False
        self._undelayed = 0

    def _decrease(self, now_ns: int) -> None:
        self._leave_fast_mode()
        average, target = self.rtt.average_delay_ns, self._numbers.target_delay_ns
        rested = self._last_decrease_ns is None or now_ns - self._last_decrease_ns >= self.rtt.base_rtt_ns
        if not rested or average <= target:
            self._note(Reaction.HELD)
            return
        self._set(self._cwnd * max(1 - self._config.gamma * (average - target) / average, self._config.max_md_jump))
        self._last_decrease_ns = now_ns
        self._note(Reaction.DECREASE)

    def _adjust(self, now_ns: int) -> None:
        """Apply the collected increases if it is time (fulfill_adjustment).

        This comes before a decrease, because they were collected under the earlier window.
        """
        if self._last_adjust_ns is None:
            self._last_adjust_ns = now_ns
        period_over = now_ns - self._last_adjust_ns >= self._numbers.adjust_period_ns
        if not period_over and self._received <= self._numbers.adjust_bytes:
            return
        if self._saved_cwnd is None:
            eta = self._numbers.eta_bytes if period_over else 0.0
            self._set(self._cwnd + self._increase / self._cwnd + eta)
        if period_over:
            self._last_adjust_ns = now_ns
        self._increase = 0.0
        self._received = 0

    def _ignores(self) -> bool:
        """Report whether marks and trims still come from the queue to which the last quick adapt reacted."""
        ignores = not self._config.disable_qa and self._ignored < self._to_ignore
        if ignores:
            self._note(Reaction.IGNORED)
        return ignores

    def _quick_adapt(self, delay_ns: float, now_ns: int) -> bool:
        """Reduce the window to what was achieved, if that is little, after a period with a trim or a long delay."""
        if self._config.disable_qa or (self._qa_end_ns is not None and now_ns < self._qa_end_ns):
            return False
        asked = self._qa_triggered or delay_ns > self._numbers.qa_threshold_ns
        little = self._achieved < int(self._max_cwnd) >> self._config.qa_gate
        fires = self._qa_end_ns is not None and asked and little
        if fires:
            self._set(self._achieved)
            # Increases collected under the large window would have too much weight in the small one.
            self._increase = 0.0
            self._leave_fast_mode()
            self._to_ignore, self._ignored = self._in_flight, 0
            self._note(Reaction.QUICK_ADAPT)
        # A trim counts for the period in which it occurred. Our choice; UET's text leaves it open.
        self._qa_triggered = False
        self._achieved = 0
        self._qa_end_ns = now_ns + self.rtt.base_rtt_ns + int(self._numbers.target_delay_ns)
        return fires


def _unmarked_share(feedback: Feedback) -> Feedback:
    """Return the feedback without its marked SACKs and their share of the bytes."""
    if not feedback.marked:
        return feedback
    sacks = feedback.sacks - feedback.marked
    received = feedback.newly_received_bytes * sacks // feedback.sacks
    return feedback._replace(newly_received_bytes=received, sacks=sacks, marked=0)
