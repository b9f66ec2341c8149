"""Defines what `spraylab watch` reads of a lab at one moment, and what it shows of it. Values only.

Every number is measured, except `LinkView.loss`, which is estimated (`scenarios.watch.link_loss`).
"""

from dataclasses import dataclass

import msgspec

from results.files.event_log import Fields
from scenarios.lab.protocol import LabStatus


class QpReading(msgspec.Struct, frozen=True):
    """A queue pair, as its worker reports it (other fields are ignored)."""

    host: int
    qpn: int
    peer: int
    state: str
    posted_bytes: int
    acked_bytes: int
    packets_rtx: int
    peer_qpn: int | None = None
    total_bytes: int | None = None
    """Payload bytes that its program will have posted at its end; None when time decides."""
    only_barriers: bool = False
    """Whether it carries only barriers of a collective or of `perf`."""


class EvReading(msgspec.Struct, frozen=True):
    """An entropy value of a queue pair, as its worker reports it (other fields are ignored)."""

    host: int
    qpn: int
    ev: int
    plane: int
    spine: int | None
    state: str
    tx_first: int
    tx_rtx: int
    lost: int
    timed_out: int


@dataclass(frozen=True)
class Reading:
    """The state of a lab at one moment."""

    mono_ns: int
    ts: str
    status: LabStatus
    running: bool
    """Whether a run or a program uses the lab."""
    qps: tuple[QpReading, ...] = ()
    evs: tuple[EvReading, ...] = ()
    records: tuple[Fields, ...] = ()
    """Records of detect.jsonl since the last reading."""
    silent: tuple[str, ...] = ()
    """Names of engine workers that did not answer."""


@dataclass(frozen=True)
class LinkView:
    """One direction of a link between switches that packets crossed, that has a fault or that is accused."""

    link: str
    plane: int
    leaf: int
    spine: int
    up: bool
    sent: int
    """Data packets sent in this run over paths across it, counted by senders."""
    loss: float | None
    """Estimated: the lowest loss rate of those paths, counted by senders; None when nothing was sent."""
    faults: int
    """Faults in force on it."""
    named: bool
    """Whether SprayCheck names it, in this run, so far."""


@dataclass(frozen=True)
class FlowView:
    """A queue pair that sends data."""

    source: str
    destination: str
    qpn: int
    """Queue pair at the source, by which `inspect` and `agent.jsonl` identify it."""
    state: str
    posted_bytes: int
    acked_bytes: int
    resent: int
    goodput_bps: float | None
    """Rate of payload acknowledged since the last reading; None at the first one."""
    destination_qpn: int | None = None
    """Queue pair at the destination, by which packets, verdicts, report and summary identify it."""
    total_bytes: int | None = None
    """Payload bytes that it will send, including those not posted yet; None when time decides."""


@dataclass(frozen=True)
class HostEvs:
    """Entropy values of a host's sending queue pairs by state, and those paths that are not GOOD."""

    host: str
    states: dict[str, int]
    not_good: tuple[str, ...]
    """Paths and states such as `p0:spine5 ASSUMED_BAD`, each once."""


@dataclass(frozen=True)
class FaultView:
    """A requested fault and the kernel's state of it."""

    link: str
    kind: str
    requested: str
    in_force: str
    """The kernel's state; `nothing` or `removed` when the kernel does not hold it."""
    seen: int
    dropped: int
    by: str


@dataclass(frozen=True)
class PlannedView:
    """The next step of a timeline."""

    link: str
    kind: str
    requested: str
    act: str
    """`set` or `clear`."""
    at: str | None
    """Clock time of the step; None while it waits only for an event."""
    event: str | None


@dataclass(frozen=True)
class Detection:
    """A change in what is accused or denied."""

    ts: str
    node: str
    text: str


@dataclass(frozen=True)
class View:
    """Everything that is shown. Links, verdicts and detections are of the latest run, the rest is current."""

    lab: str
    ts: str
    started: str
    run: int
    """Number of the latest run; 0 before the first."""
    running: bool
    planes: int
    leaves: int
    spines: int
    hosts: int
    seconds: float | None
    """Time between the last two readings, over which goodput is averaged."""
    links: tuple[LinkView, ...]
    flows: tuple[FlowView, ...]
    evs: tuple[HostEvs, ...]
    faults: tuple[FaultView, ...]
    verdicts: dict[str, int]
    """Number of links that are `failed`, `healthy`, `undecided`, by the expectation that decides."""
    paths: dict[str, int]
    """Number of paths that are `failed`, `healthy`, `insufficient`."""
    detections: tuple[Detection, ...]
    """Detections, oldest first."""
    troubles: tuple[str, ...]
    """Processes of the lab that have died or do not answer."""
    planned: tuple[PlannedView, ...] = ()
    """Timeline steps of faults that are not in force now and will be."""
    barriers: int = 0
    """Number of queue pairs that carry only barriers; they are no flows."""
    sampled: bool = True
    """Whether anything that the latest run sent was read; False when it ended before the view began."""
