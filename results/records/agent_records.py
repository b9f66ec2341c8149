"""Defines the lines of agent.jsonl and counters.jsonl, and the documents beside them, as types; schemas are made
of them.

Readers import this; the writers (agents, the runner) do not, and tests check real runs against it. New fields may be
added without a new version, with a default for older files: readers ignore fields that they do not know.
"""

from typing import Any, Literal

from msgspec import Struct, defstruct
from msgspec.structs import fields

from agent.wire.constants import NackReason
from agent.wire.record_ranges import (
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
    """The fields that every record begins with."""

    ts: Name
    """RFC 3339, UTC, microseconds."""
    mono_ns: Nanoseconds
    """Time by the machine's monotonic clock."""
    v: Version = VERSION
    node: Name
    """Writer of the record."""
    run: Name = ""
    """Name of the run; absent in what is written while a run goes on."""
    seed: Seed = 0


class OfQueuePair(Record, frozen=True, kw_only=True):
    """A report of one queue pair of the host `node`."""

    qpn: QueuePair


class QpState(OfQueuePair, frozen=True, kw_only=True, tag="QP_STATE"):
    """The queue pair changed its state."""

    old: Name
    new: Name
    peer: Host | None = None
    """The host of the queue pair at the other end."""
    peer_qpn: QueuePair | None = None
    """Queue pair number there; null before it is known."""


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
    """Cause of the change."""
    evs: list[EvText]
    planes: list[Plane] = []
    """Planes of `evs`, in their order."""
    spines: list[Switch | None] = []
    """Spines of `evs`, in their order; null for a path between two hosts of one leaf."""
    sent: list[Count] = []
    """First transmissions on each of `evs` so far."""
    replaced_by: EvText | None = None
    replaced_by_plane: Plane | None = None
    replaced_by_spine: Switch | None = None


class EvReplaced(OfQueuePair, frozen=True, kw_only=True, tag="EV_REPLACED"):
    """A controller replaced one entropy value by another."""

    old: EvText
    new: EvText
    old_plane: Plane | None = None
    old_spine: Switch | None = None
    new_plane: Plane | None = None
    new_spine: Switch | None = None


class PlaneLossy(OfQueuePair, frozen=True, kw_only=True, tag="PLANE_LOSSY"):
    """A plane loses far more than the others, equally on all its paths, as when a host's own link fails."""

    plane: Plane
    lost: Count
    packets: Count
    """Packets lost and acknowledged since counting began, as in the others."""
    others_lost: Count
    others_packets: Count
    left: bool
    """Whether the queue pair stops using the plane for a while."""


class PlaneTried(OfQueuePair, frozen=True, kw_only=True, tag="PLANE_TRIED"):
    """A plane that was avoided because of its losses is used again."""

    plane: Plane


class OfPackets(OfQueuePair, frozen=True, kw_only=True):
    """Packets that must be sent again, summed over 50 ms."""

    packets: Count
    evs: dict[EvText, Count]
    """Lost packets per entropy value, `0xc0001005`."""
    planes: list[Plane] = []
    """Planes of the values in `evs`, in their order."""
    spines: list[Switch | None] = []
    """Spines of the values in `evs`, in their order; null for a path between two hosts of one leaf."""


class Loss(OfPackets, frozen=True, kw_only=True, tag="LOSS"):
    """Packets that later arrivals proved lost, or that were sent on a path over which nothing returns."""


class AckTimeout(OfPackets, frozen=True, kw_only=True, tag="ACK_TIMEOUT"):
    """Packets without an answer for a whole timeout."""


class MessageComplete(OfQueuePair, frozen=True, kw_only=True, tag="MESSAGE_COMPLETE"):
    """Messages are completely acknowledged."""

    first_wr_id: Count
    messages: Count
    bytes: Count


class QpError(OfQueuePair, frozen=True, kw_only=True, tag="QP_ERROR"):
    """The queue pair failed."""

    reason: Text
    flushed: Count
    """Messages that will never complete."""


class EvCounts(Struct, frozen=True):
    """Counters of one entropy value of a queue pair."""

    ev: EntropyValue
    plane: Plane
    spine: Switch | None
    """Spine of the path; null for a path between two hosts of one leaf."""
    state: Name
    active: bool
    """Whether it is in use, not a reserve that waits to replace another."""
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
    """Counters per path, at the end."""

    evs: list[EvCounts]
    peer: Host | None = None
    """The host of the queue pair at the other end."""
    peer_qpn: QueuePair | None = None
    """Queue pair number there, by which `summary.json` and `detect.jsonl` identify the flow."""


class EventsCut(Record, frozen=True, kw_only=True, tag="EVENTS_CUT"):
    """A worker's log exceeded its limit."""

    records: Count
    """Number of earlier records, the oldest, that were dropped."""


class ReorderingRecord(OfQueuePair, frozen=True, kw_only=True, tag="REORDERING"):
    """Order in which packets arrived, at the end."""

    in_order: Count
    late: Late
    """Packets by power of two of the reordering extent (RFC 4737)."""
    most: Count
    peer: Host | None = None
    """The host that sent them."""
    peer_qpn: QueuePair | None = None
    """Queue pair of that host."""


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
"""With `events: detail`: counters of each record since the last one of its kind, or current values."""
_OF_HOSTS: dict[str, tuple[str, ...]] = {
    "EV_PROBE_TX": ("peer", "packets", "answered"),
    "PORT_STATUS_TX": ("peer", "packets"),
    "PORT_STATUS_RX": ("peer", "packets"),
}
"""The same counters, of a pair of hosts."""


class ProbeTx(OfQueuePair, frozen=True, kw_only=True, tag="PROBE_TX"):
    """Reliability probes sent, and answers received, since the last such record."""

    packets: Count
    answered: Count
    evs: dict[EvText, Count]
    """Probes per entropy value, `0xc0001005`."""
    planes: list[Plane] = []
    """Planes of the values in `evs`, in their order."""
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
"""All kinds of lines in agent.jsonl."""


class OfDeniedLink(Record, frozen=True, kw_only=True):
    """An action of the lab's denylist on a link."""

    epoch: Count
    """Number of the latest run."""
    link: Name


class Denial(OfDeniedLink, frozen=True, kw_only=True, tag="DENY"):
    """No queue pair uses a link from now on."""

    by: Literal["hand", "spraycheck"]


class Allowance(OfDeniedLink, frozen=True, kw_only=True, tag="ALLOW"):
    """Queue pairs may use a link again."""

    by: Literal["hand", "probes"]
    """`probes`: enough consecutive probes were answered."""


class DenialRefused(OfDeniedLink, frozen=True, kw_only=True, tag="DENY_REFUSED"):
    """A link was named but not denied, because its leaf would have lost more than half of its links in that
    direction.
    """

    by: Literal["spraycheck"]


CONTROLLER_RECORDS: tuple[Any, ...] = (Denial, Allowance, DenialRefused)
"""All records that the lab's owner adds to detect.jsonl."""


class LoadRecord(Record, frozen=True, kw_only=True, tag="LOAD"):
    """Load of the machine, once per second."""

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
    """This, and all rates and shares, is null in the first sample."""
    sched_wait_worst: Amount | None = None
    timeouts: Count = 0
    rejected: list[Rejected] = []
    """Packets that agents rejected, since their start."""


class ProgressRecord(Record, frozen=True, kw_only=True, tag="PROGRESS"):
    """Progress of every flow; lists in the order of the summary's flows."""

    acked_bytes: list[Count]
    resent: list[Count]


FaultCount = defstruct(
    "FaultCount",
    [(each.name, each.type, *(() if each.required else (each.default,))) for each in fields(Injected)],
    bases=(Record,), frozen=True, kw_only=True, tag="FAULT_COUNT",
    namespace={"__doc__": "What a fault did during the run only, beside its FAULT_SET and FAULT_CLEAR."},
)  # fmt: skip
"""A line of truth.jsonl with the counters that the summary reports for the fault."""


class TopologyNode(Struct, frozen=True):
    """One node."""

    name: Name
    role: Name
    namespace: Name
    address: Name | None = None
    """Set for hosts only."""
    leaf: Switch | None = None
    slot: Switch | None = None
    plane: Plane | None = None
    """Set for switches only."""
    usid: Name | None = None


class TopologyEnd(Struct, frozen=True):
    """One end of a link."""

    node: Name
    interface: Name
    ifindex: Count
    mac: Name


class TopologyLink(Struct, frozen=True):
    """One link; the end nearer to the hosts comes first."""

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
