"""Counters of a requester: totals, and packets per EV. Plain numbers, copied on request."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class EvCounters:
    """Packets per EV row since the start, (e,) each."""

    tx_first: NDArray[np.int64]
    tx_rtx: NDArray[np.int64]
    acked: NDArray[np.int64]
    """Acknowledged packets, counted on the EV of their last transmission."""
    lost: NDArray[np.int64]
    """Packets that later arrivals proved lost."""
    timed_out: NDArray[np.int64]
    """Packets that had no answer for a whole timeout."""
    trimmed: NDArray[np.int64]
    """Packets NACKed as trimmed, at the last hop too."""
    probes: NDArray[np.int64]
    """Reliability probes sent."""

    @classmethod
    def zeros(cls, ev_count: int) -> "EvCounters":
        """Make counters of `ev_count` EVs, all zero."""
        return cls(*(np.zeros(ev_count, np.int64) for _ in fields(cls)))

    def copy(self) -> "EvCounters":
        """Copy the counters."""
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
    """Packets sent again after a timeout."""
    nacked: int = 0
    """Packets sent again because the responder refused them."""
    nacks_stale: int = 0
    """NACKs of packets that had been sent again, or had arrived, by then."""
    nacks_rejected: int = 0
    """NACKs that refuse packets which were never sent."""
    sacks: int = 0
    sacks_stale: int = 0
    """SACKs written before one already read: they count for what arrived, not for what is missing."""
    sacks_rejected: int = 0
    """SACKs that acknowledge packets never sent, or count more bytes than were sent."""
    acks: int = 0
    """Transport ACKs received."""
    acks_rejected: int = 0
    """Transport ACKs that acknowledge packets never sent, or refuse packets that are not outstanding."""
    probes: int = 0
    """Reliability probes sent."""
    probes_answered: int = 0
    first_tx_ns: int | None = None
    last_completed_ns: int | None = None
