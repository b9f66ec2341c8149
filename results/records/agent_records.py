"""The lines of agent.jsonl and counters.jsonl, and the documents beside them, as types: what their schemas are made of.

Who writes them (agents, the runner) does not import this; tests hold real runs against it. Who reads them does. Fields
may come on top without a new version, with a default for older files: a reader leaves aside what it does not know.
"""

from typing import Any, Literal

from msgspec import Struct, defstruct
from msgspec.structs import fields

from agent.wire.constants import NackReason
from agent.wire.ranges import (
    VERSION,
    Amount,
    Count,
    EntropyValue,
    EvText,
    Host,
    Late,
    Name,
    Nanoseconds,
    Plane,
    QueuePair,
    Seed,
    Switch,
    Text,
    Version,
)
from results.records.rejected import Rejected
from results.summary import Injected


class Record(Struct, frozen=True, kw_only=True, tag_field="event"):
    """What every record begins with."""

    ts: Name
    """RFC 3339, UTC, microseconds."""
    mono_ns: Nanoseconds
    """By the machine's monotonic clock."""
    v: Version = VERSION
    node: Name
    """Who says it."""
    run: Name = ""
    """Which run; not in what is written while a run goes on."""
    seed: Seed = 0


class OfQueuePair(Record, frozen=True, kw_only=True):
    """What one queue pair of the host `node` did."""

    qpn: QueuePair


class QpState(OfQueuePair, frozen=True, kw_only=True, tag="QP_STATE"):
    """It moved from one state to the next."""

    old: Name
    new: Name
    peer: Host | None = None
    """The host of the queue pair at the other end."""
    peer_qpn: QueuePair | None = None
    """Its number there; null before it is known."""


class Port(OfQueuePair, frozen=True, kw_only=True, tag="PORT"):
    """Ports went up or down."""

    side: Name
    """`local` or `peer`."""
    up: list[Plane]
    """Planes with a working port."""
    down: list[Plane]


class EvState(OfQueuePair, frozen=True, kw_only=True, tag="EV_STATE"):
    """Entropy values changed their state."""

    state: Name
    signal: Name
    """What moved it."""
    evs: list[EvText]
    planes: list[Plane] = []
    """Of `evs`, in their order."""
    spines: list[Switch | None] = []
    """The same; null for a path between two hosts of one leaf."""
    sent: list[Count] = []
    """First transmissions on each of `evs` until then."""
    replaced_by: EvText | None = None
    replaced_by_plane: Plane | None = None
    replaced_by_spine: Switch | None = None


class EvReplaced(OfQueuePair, frozen=True, kw_only=True, tag="EV_REPLACED"):
    """A controller put another entropy value in the place of one."""

    old: EvText
    new: EvText
    old_plane: Plane | None = None
    old_spine: Switch | None = None
    new_plane: Plane | None = None
    new_spine: Switch | None = None


class PlaneLossy(OfQueuePair, frozen=True, kw_only=True, tag="PLANE_LOSSY"):
    """A plane loses far more than the others, on all its paths alike, as a host's own link that is failing does."""

    plane: Plane
    lost: Count
    packets: Count
    """Lost and acknowledged, since counting began; as in the others."""
    others_lost: Count
    others_packets: Count
    left: bool
    """Whether the queue pair uses it no more for a while."""


class PlaneTried(OfQueuePair, frozen=True, kw_only=True, tag="PLANE_TRIED"):
    """A plane that was left for its losses is used again."""

    plane: Plane


class OfPackets(OfQueuePair, frozen=True, kw_only=True):
    """Packets that have to be sent again, summed over 50 ms."""

    packets: Count
    evs: dict[EvText, Count]
    """How many of them by entropy value, `0xc0001005`."""
    planes: list[Plane] = []
    """Of the values in `evs`, in their order."""
    spines: list[Switch | None] = []
    """The same; null for a path between two hosts of one leaf."""


class Loss(OfPackets, frozen=True, kw_only=True, tag="LOSS"):
    """Shown to be lost by later arrivals, or sent on a path from which nothing comes back."""


class AckTimeout(OfPackets, frozen=True, kw_only=True, tag="ACK_TIMEOUT"):
    """Without an answer for a whole timeout."""


class MessageComplete(OfQueuePair, frozen=True, kw_only=True, tag="MESSAGE_COMPLETE"):
    """Messages are wholly acknowledged."""

    first_wr_id: Count
    messages: Count
    bytes: Count


class QpError(OfQueuePair, frozen=True, kw_only=True, tag="QP_ERROR"):
    """It failed."""

    reason: Text
    flushed: Count
    """Messages that will never complete."""


class EvCounts(Struct, frozen=True):
    """What one queue pair counted of one entropy value."""

    ev: EntropyValue
    plane: Plane
    spine: Switch | None
    """Null for a path between two hosts of one leaf, which turns there."""
    state: Name
    active: bool
    """Whether it is one of those in use, not one that waits to take another's place."""
    reverse: bool
    """Whether it carries control packets."""
    tx_first: Count
    tx_rtx: Count
    acked: Count
    lost: Count
    timed_out: Count
    trimmed: Count
    probes: Count


class EvCounters(OfQueuePair, frozen=True, kw_only=True, tag="EV_COUNTERS"):
    """Path by path, at the end."""

    evs: list[EvCounts]
    peer: Host | None = None
    """The host of the queue pair at the other end."""
    peer_qpn: QueuePair | None = None
    """Its number there, by which `summary.json` and `detect.jsonl` know the flow."""


class EventsCut(Record, frozen=True, kw_only=True, tag="EVENTS_CUT"):
    """A worker's log had grown too long."""

    records: Count
    """Of those before this one, the oldest, that had to go."""


class ReorderingRecord(OfQueuePair, frozen=True, kw_only=True, tag="REORDERING"):
    """In what order packets arrived, at the end."""

    in_order: Count
    late: Late
    """By power of two of the reordering extent (RFC 4737)."""
    most: Count
    peer: Host | None = None
    """The host that sent them."""
    peer_qpn: QueuePair | None = None
    """Its queue pair."""


_ACTIVITY: dict[str, tuple[str, ...]] = {
    "WRITE_TX": ("packets", "resends"),
    "WRITE_RX": ("packets", "bytes", "duplicates", "out_of_window", "trimmed", "marked"),
    "SACK_TX": ("packets", "cack_psn", "held"),
    "SACK_RX": ("packets", "stale", "rejected", "in_flight", "backlog"),
    "NACK_TX": ("packets",),
    "NACK_RX": ("obeyed", "stale"),
    "ACK_TX": ("packets",),
    "ACK_RX": ("packets", "rejected"),
    "PROBE_RX": ("packets",),
    "RTT": ("samples", "smoothed_ns", "deviation_ns", "least_ns"),
    "CWND": ("cwnd_bytes", "in_flight_bytes"),
}
"""With `events: detail`: numbers of each record, summed since the last one of its kind, or as of now."""
_OF_HOSTS: dict[str, tuple[str, ...]] = {
    "EV_PROBE_TX": ("peer", "packets", "answered"),
    "PORT_STATUS_TX": ("peer", "packets"),
    "PORT_STATUS_RX": ("peer", "packets"),
}
"""The same, of a pair of hosts."""


class ProbeTx(OfQueuePair, frozen=True, kw_only=True, tag="PROBE_TX"):
    """Reliability probes sent since the last one of its kind, and answers that came."""

    packets: Count
    answered: Count
    evs: dict[EvText, Count]
    """How many of them by entropy value, `0xc0001005`."""
    planes: list[Plane] = []
    """Of the values in `evs`, in their order."""
    spines: list[Switch | None] = []


def _of_numbers(event: str, names: tuple[str, ...], base: type[Record]) -> Any:
    told: list[Any] = [(name, Count) for name in names]
    return defstruct(event, told, bases=(base,), frozen=True, kw_only=True, tag=event)


AGENT_RECORDS: tuple[Any, ...] = (
    QpState,
    Port,
    EvState,
    EvReplaced,
    PlaneLossy,
    PlaneTried,
    Loss,
    AckTimeout,
    *(defstruct(name, [], bases=(OfPackets,), frozen=True, kw_only=True, tag=name)
      for name in (f"NACK_{reason.name}" for reason in NackReason)),
    MessageComplete,
    QpError,
    EvCounters,
    ReorderingRecord,
    EventsCut,
    ProbeTx,
    *(_of_numbers(event, names, OfQueuePair) for event, names in _ACTIVITY.items()),
    *(_of_numbers(event, names, Record) for event, names in _OF_HOSTS.items()),
)  # fmt: skip
"""Every kind of line in agent.jsonl."""


class OfDeniedLink(Record, frozen=True, kw_only=True):
    """What the lab's denylist did about a link."""

    epoch: Count
    """Of the latest run."""
    link: Name


class Denial(OfDeniedLink, frozen=True, kw_only=True, tag="DENY"):
    """No queue pair uses a link from here on."""

    by: Literal["hand", "spraycheck"]


class Allowance(OfDeniedLink, frozen=True, kw_only=True, tag="ALLOW"):
    """They may use it again."""

    by: Literal["hand", "probes"]
    """`probes`: enough of them in a row were answered."""


class DenialRefused(OfDeniedLink, frozen=True, kw_only=True, tag="DENY_REFUSED"):
    """A link was named and not denied, since its leaf would have lost more than half of its links in that direction."""

    by: Literal["spraycheck"]


CONTROLLER_RECORDS: tuple[Any, ...] = (Denial, Allowance, DenialRefused)
"""What the lab's owner adds to detect.jsonl."""


class LoadRecord(Record, frozen=True, kw_only=True, tag="LOAD"):
    """How the machine fares, once a second."""

    packets_sent: Count
    packets_per_s: Amount | None
    outstanding_bytes: Count
    softnet_drops: Count
    ring_drops: Count
    tx_errors: Count
    overlimits: Count
    faults_dropped: Count
    cpu_busy_share: Amount | None
    sched_wait_share: Amount | None
    """Null in the first sample, as all rates and shares."""
    sched_wait_worst: Amount | None = None
    timeouts: Count = 0
    rejected: list[Rejected] = []
    """Packets that agents did not believe, since their start."""


class ProgressRecord(Record, frozen=True, kw_only=True, tag="PROGRESS"):
    """How far every flow is; lists in the order of the summary's flows."""

    acked_bytes: list[Count]
    resent: list[Count]


FaultCount = defstruct(
    "FaultCount",
    [(each.name, each.type, *(() if each.required else (each.default,))) for each in fields(Injected)],
    bases=(Record,), frozen=True, kw_only=True, tag="FAULT_COUNT",
    namespace={"__doc__": "What a fault did during the run only, beside its FAULT_SET and FAULT_CLEAR."},
)  # fmt: skip
"""A line of truth.jsonl with what the summary says of the fault."""


class TopologyNode(Struct, frozen=True):
    """One node."""

    name: Name
    role: Name
    namespace: Name
    address: Name | None = None
    """Of a host."""
    leaf: Switch | None = None
    slot: Switch | None = None
    plane: Plane | None = None
    """Of a switch."""
    usid: Name | None = None


class TopologyEnd(Struct, frozen=True):
    """One end of a link."""

    node: Name
    interface: Name
    ifindex: Count
    mac: Name


class TopologyLink(Struct, frozen=True):
    """One link, the end nearer to the hosts first."""

    name: Name
    plane: Plane
    ends: tuple[TopologyEnd, TopologyEnd]


class Topology(Struct, frozen=True):
    """The content of `topology.json`."""

    v: Version
    lab: Name
    planes: Count
    leaves: Count
    spines: Count
    hosts_per_leaf: Count
    mtu: Count
    host_stack: bool
    nodes: list[TopologyNode]
    links: list[TopologyLink]
