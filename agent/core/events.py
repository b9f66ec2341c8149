"""Events that the core reports: facts about a queue pair, each with the time it was noticed.

Facts about packets come in bulk: one event covers many packets or messages, so no packet costs an object.
"""

from dataclasses import dataclass
from enum import Enum

from agent.core.ev.state import EvSignal, EvState


class QpState(Enum):
    """States of a queue pair (MRC API)."""

    RESET = "RESET"
    INIT = "INIT"
    RTR = "RTR"
    RTS = "RTS"
    ERROR = "ERROR"


class QpErrorReason(Enum):
    """Reason why a queue pair failed."""

    RETRY_EXCEEDED = "retry counter exceeded"
    REMOTE_OPERATION_ERROR = "remote operation error"
    REMOTE_ACCESS_ERROR = "remote access error"
    REMOTE_INVALID_REQUEST = "remote invalid request"
    LOCAL_ACCESS_ERROR = "local access error"
    """The peer named memory that it may not write."""
    LOCAL_WIMM_OVERFLOW = "local write-with-immediate overflow"
    """The peer has more Write-with-Immediates in flight than agreed."""
    LOCAL_INVALID_REQUEST = "local invalid request"
    LOCAL_NO_RECEIVE = "no receive posted"
    """The peer's immediate found no posted receive; MRC has no RNR."""
    ASKED = "by request"


@dataclass(frozen=True, slots=True)
class QpStateChanged:
    """The queue pair moved from one state to the next."""

    now_ns: int
    old: QpState
    new: QpState
    peer_qpn: int | None = None
    """Number of the queue pair at the other end; None before it is known."""


@dataclass(frozen=True, slots=True)
class MessagesCompleted:
    """Messages `first_wr_id` .. `first_wr_id + count - 1` are completely acknowledged, in post order."""

    now_ns: int
    first_wr_id: int
    count: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class PacketsLost:
    """Losses shown by later arrivals, or on a silent path: `counts[i]` packets on EV row `ev_indices[i]`."""

    now_ns: int
    ev_indices: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PacketsTimedOut:
    """Packets had no answer for a whole timeout; counted as in `PacketsLost`.

    `retry` is the number of the retry used.
    """

    now_ns: int
    ev_indices: tuple[int, ...]
    counts: tuple[int, ...]
    retry: int


@dataclass(frozen=True, slots=True)
class QpFailed:
    """The queue pair went to ERROR; `flushed` posted messages will never complete."""

    now_ns: int
    reason: QpErrorReason
    flushed: int


@dataclass(frozen=True, slots=True)
class EvStatesChanged:
    """EV rows `ev_indices` went to `state`; `replacement` is the row that took the place of a single one, or -1."""

    now_ns: int
    ev_indices: tuple[int, ...]
    state: EvState
    signal: EvSignal
    replacement: int = -1
    sent: tuple[int, ...] = ()
    """First transmissions on each of these rows until then; the queue pair fills this in."""


@dataclass(frozen=True, slots=True)
class PacketsNacked:
    """The peer refused packets for `reason`; counted as in `PacketsLost`."""

    now_ns: int
    ev_indices: tuple[int, ...]
    counts: tuple[int, ...]
    reason: int
    """Code of the reason (NackReason)."""


@dataclass(frozen=True, slots=True)
class EvReplaced:
    """A controller put another value in a row of the EV profile."""

    now_ns: int
    ev_index: int
    old_ev: int
    new_ev: int


@dataclass(frozen=True, slots=True)
class PlaneLossy:
    """A plane loses far more than the others, on all its EVs; see `send/path_health.py`."""

    now_ns: int
    plane: int
    lost: int
    packets: int
    """Packets lost and acknowledged."""
    others_lost: int
    others_packets: int
    left: bool
    """The plane is not used for a while."""


@dataclass(frozen=True, slots=True)
class PlaneTried:
    """A plane that was avoided for its losses is used again."""

    now_ns: int
    plane: int


class PortOwner(Enum):
    """The side whose ports an event describes."""

    LOCAL = "local"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class PortsChanged:
    """Ports of one side went up or down: planes of the queue pair with a working port, and planes without."""

    now_ns: int
    owner: PortOwner
    up: tuple[int, ...]
    down: tuple[int, ...]


Event = (
    QpStateChanged
    | MessagesCompleted
    | PacketsLost
    | PacketsTimedOut
    | QpFailed
    | EvStatesChanged
    | EvReplaced
    | PacketsNacked
    | PortsChanged
    | PlaneLossy
    | PlaneTried
)
