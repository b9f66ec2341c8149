"""Frozen records of a queue pair's progress, and of how its packets will spread over planes."""

from dataclasses import dataclass

from agent.core.counters import RequesterCounters
from agent.core.events import QpState
from agent.core.receive.responder import ResponderCounters
from agent.core.send.smoothed_rtt import RoundTrip


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
