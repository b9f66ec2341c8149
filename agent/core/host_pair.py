"""Packets between two hosts outside queue pairs: EV probes and Port Status Updates. MRC 5.2 to 5.4.

An EV probe tests whether one path works; an update says which ports work, sent on planes in turn: ours until they are
answered, the peer's in their order. Updates have their own request ids, so that the newer of two is known however many
probes came between (our choice). Knows the rows of an EV profile towards the peer, but no queue pairs and no sockets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.reverse_evs import ReverseEvs
from agent.core.timeouts import OutstandingProbe, OutstandingProbes
from agent.wire.array.control_columns import (
    EndpointRequestBatch,
    EndpointRequestColumns,
    EndpointResponseBatch,
    EndpointResponseColumns,
)
from agent.wire.constants import ENDPOINT_QPN, TX_TIMESTAMP_TICK_NS, EndpointOp

_ID_MASK = 0xFFFF
_HALF = 0x8000
"""Distance from which an id ahead of another counts as older."""
_LEAST_COPIES = 3
"""Copies of an update that are sent even if it is answered."""


class PeerPorts:
    """The state of the other host's ports, as it reported them."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self.mask: int | None = None
        """Newest port mask received, bit N = port N; None before the first."""
        self.updates = 0
        """Updates received."""
        self.old = 0
        """Updates that came after a newer one, or twice: they change nothing."""

    def hear(self, cols: EndpointRequestColumns) -> bool:
        """Process (n,) updates; True if they change the mask."""
        before = self.mask
        # One iteration per update: they come when ports change.
        for number, mask in zip(cols.request_id.tolist(), cols.port_status_mask.tolist(), strict=True):
            self.updates += 1
            if self._newest is not None and not 0 < (number - self._newest & _ID_MASK) < _HALF:
                self.old += 1
            else:
                self._newest, self.mask = number, mask
        return self.mask != before


class PortUpdates:
    """Updates about our own ports: three copies an interval apart, then more until one is answered."""

    def __init__(self, interval_ns: int, most: int) -> None:
        """Stop after `most` copies without an answer: the peer is then considered gone."""
        self._interval_ns = interval_ns
        self._most = most
        self._next_id = 0
        self._ids: set[int] = set()
        """Request ids of the copies sent."""
        self._copies = 0
        self.mask = 0
        """Port mask that the copies carry, bit N = port N."""
        self.is_known = True
        """True once the peer has answered; before the first update it assumes that all ports are up."""
        self.due_ns: int | None = None
        """Time at which the next copy is sent; None if there is none."""
        self.sent = 0

    def tell(self, mask: int, now_ns: int) -> None:
        """Announce this mask from now on."""
        self.mask, self._ids, self._copies, self.is_known, self.due_ns = mask, set(), 0, False, now_ns

    def next_copy(self, now_ns: int) -> int:
        """Count one copy as sent; return its request id."""
        self._next_id = (self._next_id + 1) & _ID_MASK
        self._ids.add(self._next_id)
        self._copies += 1
        self.sent += 1
        is_over = self._copies >= _LEAST_COPIES and (self.is_known or self._copies >= self._most)
        self.due_ns = None if is_over else now_ns + self._interval_ns
        return self._next_id

    def answered(self, number: int) -> bool:
        """Process an answer; False if it does not answer the current mask."""
        if number not in self._ids:
            return False
        self.is_known = True
        if self._copies >= _LEAST_COPIES:
            self.due_ns = None
        return True


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Timings of the packets between two hosts; our choices."""

    probe_timeout_ns: int = 10_000_000
    """An EV probe without an answer for this long has failed; longer in a plane whose last answers took longer."""

    update_interval_ns: int = 1_000_000
    """Time between two copies of a Port Status Update; about one base round trip."""

    most_updates: int = 64
    """After this many copies without an answer, no more are sent and the peer counts as gone; SACKs may still report
    our ports."""


@dataclass(frozen=True, slots=True)
class EvProbeAnswer:
    """Result of an EV probe."""

    qpn: int
    """Number of the queue pair that asked; ENDPOINT_QPN: a controller."""
    row: int
    rtt_ns: int | None
    """Measured round trip; None: no answer in time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request of the peer that waits for our answer."""

    ops: NDArray[np.uint8]
    request_ids: NDArray[np.uint16]
    tx_timestamps: NDArray[np.uint16]


class Endpoint:
    """The end of this host towards one other host."""

    def __init__(self, profile: EvProfile, settings: EndpointSettings | None = None) -> None:
        self._settings = settings or EndpointSettings()
        self._reverse = ReverseEvs(profile)
        self._next_id = 0
        self._plane_of = profile.planes.tolist()
        self._probes_out = OutstandingProbes(self._settings.probe_timeout_ns)
        self._wanted: list[tuple[int, int]] = []
        self._answers: list[EvProbeAnswer] = []
        self._waiting: list[_Waiting] = []
        self._up = np.ones(256, np.bool_)
        """State of our ports by plane, as the peer should know it; the peer assumes that all are up until an update
        arrives."""
        self._updates = PortUpdates(self._settings.update_interval_ns, self._settings.most_updates)
        self.peer_ports = PeerPorts()
        self.probes_sent = 0
        self.probes_answered = 0
        self.unasked = 0
        """Answers to probes or updates that were never sent, or given up long ago."""

    def probe(self, row: int, qpn: int) -> None:
        """Probe an EV row, for a queue pair or (ENDPOINT_QPN) a controller."""
        self._wanted.append((row, qpn))

    def tell_ports(self, mask: int, up: NDArray[np.bool_], now_ns: int) -> None:
        """Announce that our ports changed to `mask`, bit N = port N; `up` (256,) is the same by plane."""
        self._up = up.copy()
        self._reverse.on_planes(self._up)
        self._updates.tell(mask, now_ns)

    def greet(self, mask: int, up: NDArray[np.bool_], now_ns: int) -> None:
        """Announce our ports, `up` (256,) by plane, to the peer of a queue pair that joins, if it may not know them."""
        if self._updates.due_ns is None and not (self._updates.is_known and np.array_equal(up, self._up)):
            self.tell_ports(mask, up, now_ns)

    @property
    def updates_sent(self) -> int:
        """Count the copies of Port Status Updates sent."""
        return self._updates.sent

    @property
    def owes_answers(self) -> bool:
        """Report whether requests of the peer wait for an answer."""
        return bool(self._waiting)

    def follow(self, live: NDArray[np.bool_], rows: list[int]) -> None:
        """Send answers only in `live` planes (256,), on these rows: a host that only sends does not probe by itself."""
        self._reverse.on_planes(self._up & live)
        for row in rows:
            self._reverse.prefer(row)

    def receive_requests(self, cols: EndpointRequestColumns) -> bool:
        """Note (n,) requests to answer; True if the peer's ports changed."""
        self._waiting.append(_Waiting(cols.op.copy(), cols.request_id.copy(), cols.tx_timestamp.copy()))
        return self.peer_ports.hear(cols.take(cols.op == EndpointOp.PORT_STATUS_UPDATE.value))

    def receive_responses(self, cols: EndpointResponseColumns, now_ns: int) -> None:
        """Match (n,) answers to requests; answers to no request are counted and ignored."""
        # One iteration per answer: there is about one per round trip.
        for op, number in zip(cols.op.tolist(), cols.request_id.tolist(), strict=True):
            is_update = op == EndpointOp.PORT_STATUS_UPDATE
            was_asked = self._updates.answered(number) if is_update else self._answered(number, now_ns)
            self.unasked += not was_asked

    def _answered(self, number: int, now_ns: int) -> bool:
        """Match the answer to an EV probe; False if it was never sent, or long ago."""
        answered = self._probes_out.answered(number, now_ns)
        if answered is None:
            return False
        asked, _ = answered
        self.probes_answered += 1
        if asked.tag != ENDPOINT_QPN:  # a controller also probes denied paths, which nothing else may use
            self._reverse.learn(asked.row)
        self._answers.append(EvProbeAnswer(asked.tag, asked.row, now_ns - asked.sent_ns))
        return True

    def batches(self, now_ns: int) -> list[EndpointRequestBatch | EndpointResponseBatch]:
        """Build the answers, probes and updates that are due."""
        found: list[EndpointRequestBatch | EndpointResponseBatch] = []
        if self._waiting:
            found.append(self._responses())
        if self._wanted:
            found.append(self._probes(now_ns))
        if self._updates.due_ns is not None and now_ns >= self._updates.due_ns:
            found.append(self._update(now_ns))
        return found

    def drain_answers(self, now_ns: int) -> list[EvProbeAnswer]:
        """Return answers since the last call, and probes that timed out."""
        if not self._probes_out and not self._answers:
            return []
        for late in self._probes_out.overdue(now_ns):
            if late.tag != ENDPOINT_QPN:
                self._reverse.doubt(late.row)
            self._answers.append(EvProbeAnswer(late.tag, late.row, None))
        answers, self._answers = self._answers, []
        return answers

    def next_deadline_ns(self) -> int | None:
        """Earliest time at which `batches` or `drain_answers` has something although nothing arrives."""
        due = (self._probes_out.deadline_ns, self._updates.due_ns)
        return min((time for time in due if time is not None), default=None)

    def _responses(self) -> EndpointResponseBatch:
        waiting, self._waiting = self._waiting, []
        ids = np.concatenate([part.request_ids for part in waiting])
        self._reverse.turn()
        return EndpointResponseBatch(
            op=np.concatenate([part.ops for part in waiting]),
            request_id=ids,
            tx_timestamp=np.concatenate([part.tx_timestamps for part in waiting]),
            ev_index=np.full(len(ids), self._reverse.row, np.uint16),
        )

    def _probes(self, now_ns: int) -> EndpointRequestBatch:
        wanted, self._wanted = self._wanted, []
        ids = [self._take_id() for _ in wanted]
        for number, (row, qpn) in zip(ids, wanted, strict=True):
            self._probes_out.sent(number, OutstandingProbe(row, now_ns, qpn, self._plane_of[row]))
        self.probes_sent += len(ids)
        return self._requests(EndpointOp.EV_PROBE, ids, [row for row, _ in wanted], 0, now_ns)

    def _update(self, now_ns: int) -> EndpointRequestBatch:
        number = self._updates.next_copy(now_ns)
        self._reverse.turn()
        return self._requests(EndpointOp.PORT_STATUS_UPDATE, [number], [self._reverse.row], self._updates.mask, now_ns)

    def _take_id(self) -> int:
        self._next_id = (self._next_id + 1) & _ID_MASK
        return self._next_id

    @staticmethod
    def _requests(op: EndpointOp, ids: list[int], rows: list[int], mask: int, now_ns: int) -> EndpointRequestBatch:
        count = len(ids)
        return EndpointRequestBatch(
            op=np.full(count, op, np.uint8),
            request_id=np.array(ids, np.uint16),
            port_status_mask=np.full(count, mask, np.uint32),
            tx_timestamp=np.full(count, (now_ns // TX_TIMESTAMP_TICK_NS) & 0xFFFF, np.uint16),
            ev_index=np.array(rows, np.uint16),
        )
