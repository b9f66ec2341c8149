"""What a requester counts: totals, and packets by EV. Plain numbers, copied out on request."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class EvCounters:
    """Packets by EV row since the start, (e,) each."""

    tx_first: NDArray[np.int64]
    tx_rtx: NDArray[np.int64]
    acked: NDArray[np.int64]
    """By the EV of the last transmission."""
    lost: NDArray[np.int64]
    """Proven lost by later arrivals."""
    timed_out: NDArray[np.int64]
    """No answer for a whole timeout."""
    trimmed: NDArray[np.int64]
    """NACKed as trimmed, at the last hop too."""
    probes: NDArray[np.int64]
    """Reliability probes sent."""

    @classmethod
    def zeros(cls, ev_count: int) -> "EvCounters":
        """All counters of `ev_count` EVs at zero."""
        return cls(*(np.zeros(ev_count, np.int64) for _ in fields(cls)))

    def copy(self) -> "EvCounters":
        """The counters as they stand."""
        return EvCounters(*(getattr(self, field.name).copy() for field in fields(self)))


@dataclass(slots=True)
class RequesterCounters:
    """Totals since the start."""

    packets_tx: int = 0
    """First transmissions."""
    packets_rtx: int = 0
    """Retransmissions."""
    lost: int = 0
    timed_out: int = 0
    """Packets sent again for want of an answer."""
    nacked: int = 0
    """Packets sent again because the responder refused them."""
    nacks_stale: int = 0
    """NACKs of packets that were sent again, or arrived, meanwhile."""
    nacks_rejected: int = 0
    """They refuse what was never sent."""
    sacks: int = 0
    sacks_stale: int = 0
    """Written before one already read: used for what arrived, not for what is missing."""
    sacks_rejected: int = 0
    """They acknowledge what was never sent, or count more bytes than were."""
    acks: int = 0
    """Transport ACKs."""
    acks_rejected: int = 0
    """They acknowledge what was never sent, or refuse what is not outstanding."""
    probes: int = 0
    """Reliability probes sent."""
    probes_answered: int = 0
    first_tx_ns: int | None = None
    last_completed_ns: int | None = None
