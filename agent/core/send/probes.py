"""Reliability probes of one queue pair: which EVs are probed, which answers came, and which EVs they revive.

An EV assumed bad is probed at growing intervals until enough answers in a row show that it works (our choice). Other
EVs are probed on request (`ask`). Probes are rare, so each is an object. MRC 5.1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvConfig
from agent.core.ev.ev_set import EvSet
from agent.core.ev.state import EvState
from agent.core.timeouts import OutstandingProbe, OutstandingProbes
from agent.wire.array.control_columns import ProbeBatch
from agent.wire.constants import TX_TIMESTAMP_TICK_NS, EcnVerdict

_NEVER = 1 << 62
_JITTER = 0.2
_ID_MASK = 0xFFFF


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Result of an answered probe."""

    row: int
    order: int
    """Position of the probe in transmission order."""
    rtt_ns: int


class Prober:
    """Sends probes, matches answers and revives EVs.

    `order_now` gives a probe its position among the packets of its EV.
    """

    def __init__(
        self, config: EvConfig, ev_set: EvSet, order_now: Callable[[], int], qpn: int, rng: np.random.Generator
    ) -> None:
        count = len(ev_set.states)
        self._config = config
        self._set = ev_set
        self._order_now = order_now
        self._qpn = qpn
        self._rng = rng
        self._peer_qpn = 0
        self._next_id = 0
        self._probes_out = OutstandingProbes(config.probe_timeout_ns)
        self._wanted: list[int] = []
        self._next_ns = np.full(count, _NEVER, np.int64)
        self._interval_ns = np.full(count, config.probe_interval_ns, np.int64)
        self._successes = np.zeros(count, np.int64)
        self._first_success_ns = np.zeros(count, np.int64)
        self._seen = -1
        self.deadline_ns: int | None = None
        """Time at which `on_timer` has work to do; None if never."""

    def wait_at_least(self, patience_ns: int) -> None:
        """Set the shortest probe timeout, for places without a slower answer; never below the configured timeout."""
        self._probes_out.patience_ns = max(self._config.probe_timeout_ns, patience_ns)

    def expect(self, peer_qpn: int) -> None:
        """Set the peer's queue pair number."""
        self._peer_qpn = peer_qpn

    def ask(self, rows: NDArray[np.uint16]) -> None:
        """Probe these rows (m,) with the next batch."""
        self._wanted += rows.tolist()

    def is_on(self, row: int) -> bool:
        """Report whether a probe of an EV row is queued or outstanding."""
        return row in self._wanted or self._probes_out.is_on(row)

    def on_timer(self, now_ns: int) -> list[OutstandingProbe]:
        """Give up old probes and return them; queue probes of EVs whose time has come."""
        overdue = self._probes_out.overdue(now_ns)
        for late in overdue:
            self._fail(late.row)
        self._follow_states(now_ns)
        due = np.flatnonzero(self._next_ns <= now_ns)
        if len(due):
            self._wanted += due.tolist()
            jitter = 1 + _JITTER * (2 * self._rng.random(len(due)) - 1)
            self._next_ns[due] = now_ns + (self._interval_ns[due] * jitter).astype(np.int64)
        self._set_deadline()
        return overdue

    def batch(self, now_ns: int) -> ProbeBatch | None:
        """Build the queued probes, (p,)."""
        if not self._wanted:
            return None
        rows, self._wanted = self._wanted, []
        ids = [(self._next_id + number) & _ID_MASK for number in range(len(rows))]
        self._next_id = (self._next_id + len(rows)) & _ID_MASK
        # One iteration per probe.
        for number, row in zip(ids, rows, strict=True):
            self._probes_out.sent(number, OutstandingProbe(row, now_ns, self._order_now(), row))
        self._set_deadline()
        count = len(rows)
        return ProbeBatch(
            probe_id=np.array(ids, np.uint16),
            spdcid=np.full(count, self._qpn & 0xFFFF, np.uint16),
            dpdcid=np.full(count, self._peer_qpn & 0xFFFF, np.uint16),
            tx_timestamp=np.full(count, (now_ns // TX_TIMESTAMP_TICK_NS) & 0xFFFF, np.uint16),
            ev_index=np.array(rows, np.uint16),
        )

    def on_answers(self, ids: NDArray[np.int16], verdicts: NDArray[np.uint8], now_ns: int) -> list[ProbeAnswer]:
        """Process SACKs with `pr`: probe ids (a,) and the verdict each gives on its path; unknown ids are ignored.

        An answer that comes too late revives no EV.
        """
        found = []
        for number, verdict in zip(ids.view(np.uint16).tolist(), verdicts.tolist(), strict=True):
            answered = self._probes_out.answered(number, now_ns)
            if answered is not None:
                probe, in_time = answered
                found.append(ProbeAnswer(probe.row, probe.tag, now_ns - probe.sent_ns))
                if in_time:
                    self._succeed(probe.row, verdict == EcnVerdict.SKIP_ONCE, now_ns)
        if found:
            self._set_deadline()
        return found

    def follow(self, now_ns: int) -> None:
        """Plan probes for EVs that are bad now; call it after states may have changed."""
        if self._seen != self._set.version:
            self._follow_states(now_ns)
            self._set_deadline()

    def _follow_states(self, now_ns: int) -> None:
        self._seen = self._set.version
        bad = (self._set.states == EvState.ASSUMED_BAD) & self._set.row_up
        new = bad & (self._next_ns == _NEVER)
        self._next_ns[new] = now_ns + self._config.probe_interval_ns
        self._interval_ns[new] = self._config.probe_interval_ns
        self._successes[new] = 0
        self._next_ns[~bad] = _NEVER

    def _succeed(self, row: int, marked: bool, now_ns: int) -> None:
        if self._next_ns[row] == _NEVER:
            return
        config = self._config
        if not self._successes[row]:
            self._first_success_ns[row] = now_ns
            self._interval_ns[row] = config.probe_interval_ns
            self._next_ns[row] = min(int(self._next_ns[row]), now_ns + config.probe_interval_ns)
        self._successes[row] += 1
        lasted_ns = now_ns - int(self._first_success_ns[row])
        if self._successes[row] >= config.revive_after and lasted_ns >= config.revive_ns:
            self._set.revive(row, marked, now_ns)
            self._follow_states(now_ns)

    def _fail(self, row: int) -> None:
        self._successes[row] = 0
        self._interval_ns[row] = min(2 * int(self._interval_ns[row]), self._config.probe_max_interval_ns)

    def _set_deadline(self) -> None:
        due = int(self._next_ns.min())
        late_ns = self._probes_out.deadline_ns
        due = due if late_ns is None else min(due, late_ns)
        self.deadline_ns = due if due < _NEVER else None
