"""How far a queue pair is, and how far its packets will spread: frozen records for whoever asks."""

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
    """24-bit PSN of the last of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A queue pair at one moment; `rtt`, `requester` and `responder` are copies."""

    state: QpState
    posted_messages: int
    completed_messages: int
    posted_bytes: int
    acked_bytes: int
    """Below the cumulative point."""
    backlog_pkts: int
    """Posted and not sent, or lost and not sent again."""
    in_flight_pkts: int
    silent_evs: tuple[int, ...]
    """EV values of ours over which nothing comes back while others answer."""
    held_pkts: int
    """Received above the cumulative point."""
    window_psns: int
    """PSNs from the oldest unacknowledged one on that may be sent."""
    cwnd_bytes: int | None
    """The congestion window, nominal bytes; None while congestion control is off, as below."""
    cwnd_in_flight_bytes: int | None
    """What it counts as in flight, those of all queue pairs that share it."""
    rtt: RoundTrip
    cack_psn: int
    """24-bit PSN up to which all has been received."""
    requester: RequesterCounters
    responder: ResponderCounters
