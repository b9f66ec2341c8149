"""Counters of a queue pair: totals, packets per EV, and progress at one moment. Plain numbers, copied on request."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from agent.core.events import QpState
from agent.core.send.rtt import RoundTrip


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


@dataclass(slots=True)
class ResponderCounters:
    """Totals since the start, in packets unless stated."""

    received: int = 0
    """New packets placed in memory: each PSN once."""
    received_bytes: int = 0
    """Payload bytes of these packets."""
    duplicates: int = 0
    out_of_window: int = 0
    trimmed: int = 0
    access_errors: int = 0
    invalid: int = 0
    """Packets that are not segments of a message as MRC requires."""
    ce_marked: int = 0
    sacks: int = 0
    nacks: int = 0
    acks: int = 0
    """Transport ACKs and NAKs sent."""
    messages: int = 0
    """Complete messages."""
    immediates: int = 0
    """Immediates delivered to the completion queue."""
    probes: int = 0
    """Reliability probes answered."""


@dataclass(frozen=True, slots=True)
class PlaneShare:
    """The part of a flow's first transmissions that goes to one plane, known before they are sent."""

    plane: int
    packets: int
    last_psn: int
    """24-bit PSN of the last packet of this part."""


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a queue pair at one moment; `rtt`, `requester` and `responder` are copies."""

    state: QpState
    posted_messages: int
    completed_messages: int
    posted_bytes: int
    acked_bytes: int
    """Bytes below the cumulative point."""
    backlog_pkts: int
    """Packets posted and not sent, or lost and not sent again."""
    in_flight_pkts: int
    silent_evs: tuple[int, ...]
    """Our EV values over which nothing comes back while others answer."""
    held_pkts: int
    """Packets received above the cumulative point."""
    window_psns: int
    """PSNs that may be sent, from the oldest unacknowledged one on."""
    cwnd_bytes: int | None
    """Congestion window, nominal bytes; None while congestion control is off, as below."""
    cwnd_in_flight_bytes: int | None
    """Bytes that congestion control counts as in flight, for all queue pairs that share it."""
    rtt: RoundTrip
    cack_psn: int
    """24-bit PSN up to which everything has been received."""
    requester: RequesterCounters
    responder: ResponderCounters
