"""What `spraylab watch` reads of a lab at one moment, and what it shows of it. Values only.

Every number is measured, but for `LinkView.loss`, which is estimated (`scenarios.watch.links`).
"""

from dataclasses import dataclass

import msgspec

from results.files.event_log import Fields
from scenarios.lab.protocol import LabStatus


class QpReading(msgspec.Struct, frozen=True):
    """A queue pair, as its worker tells (other fields are left aside)."""

    host: int
    qpn: int
    peer: int
    state: str
    posted_bytes: int
    acked_bytes: int
    packets_rtx: int
    peer_qpn: int | None = None
    total_bytes: int | None = None
    """Payload bytes posted when its program ends; None when time decides."""
    only_barriers: bool = False
    """It carries barriers of a collective or of `perf` and no data."""


class EvReading(msgspec.Struct, frozen=True):
    """An entropy value of a queue pair, as its worker tells (other fields are left aside)."""

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
    """A lab at one moment."""

    mono_ns: int
    ts: str
    status: LabStatus
    running: bool
    """Whether a run or a program uses the lab."""
    qps: tuple[QpReading, ...] = ()
    evs: tuple[EvReading, ...] = ()
    records: tuple[Fields, ...] = ()
    """Of detect.jsonl, those that came since the last reading."""
    silent: tuple[str, ...] = ()
    """Engine workers that did not answer."""


@dataclass(frozen=True)
class LinkView:
    """One direction of a link between switches that packets have crossed, that has a fault or that is accused."""

    link: str
    plane: int
    leaf: int
    spine: int
    up: bool
    sent: int
    """Data packets sent in this run over paths across it, as senders count."""
    loss: float | None
    """Estimated: the least share that any of those paths lost, as senders count; None when nothing was sent."""
    faults: int
    """In force on it."""
    named: bool
    """By SprayCheck, in this run, so far."""


@dataclass(frozen=True)
class FlowView:
    """A queue pair that sends data."""

    source: str
    destination: str
    qpn: int
    """At the source, by which `inspect` and `agent.jsonl` know it."""
    state: str
    posted_bytes: int
    acked_bytes: int
    resent: int
    goodput_bps: float | None
    """Payload acknowledged since the last reading; None at the first one."""
    destination_qpn: int | None = None
    """At the destination, by which packets, verdicts, report and summary know it."""
    total_bytes: int | None = None
    """All that it will send, also what is not posted yet; None when time decides."""


@dataclass(frozen=True)
class HostEvs:
    """Entropy values of a host's sending queue pairs by state, and those paths that are not GOOD."""

    host: str
    states: dict[str, int]
    not_good: tuple[str, ...]
    """As `p0:spine5 ASSUMED_BAD`, each once."""


@dataclass(frozen=True)
class FaultView:
    """A fault that was asked for and what the kernel says of it."""

    link: str
    kind: str
    requested: str
    in_force: str
    """`nothing` or `removed` when the kernel does not hold it."""
    seen: int
    dropped: int
    by: str


@dataclass(frozen=True)
class PlannedView:
    """What a timeline will do next."""

    link: str
    kind: str
    requested: str
    act: str
    """`set` or `clear`."""
    at: str | None
    """By the clock; None while it waits for an event only."""
    event: str | None


@dataclass(frozen=True)
class Detection:
    """A change in what is accused or denied."""

    ts: str
    node: str
    text: str


@dataclass(frozen=True)
class View:
    """Everything that is shown. Of the latest run: links, verdicts, detections; of this moment: the rest."""

    lab: str
    ts: str
    started: str
    run: int
    """0 before the first."""
    running: bool
    planes: int
    leaves: int
    spines: int
    hosts: int
    seconds: float | None
    """Between the last two readings: what goodput is an average over."""
    links: tuple[LinkView, ...]
    flows: tuple[FlowView, ...]
    evs: tuple[HostEvs, ...]
    faults: tuple[FaultView, ...]
    verdicts: dict[str, int]
    """On links, by the expectation that decides: how many are `failed`, `healthy`, `undecided`."""
    paths: dict[str, int]
    """On paths: how many are `failed`, `healthy`, `insufficient`."""
    detections: tuple[Detection, ...]
    """Oldest first."""
    troubles: tuple[str, ...]
    """Processes of the lab that have died or do not answer."""
    planned: tuple[PlannedView, ...] = ()
    """Of faults that are not in force now and will be."""
    barriers: int = 0
    """Queue pairs that carry only barriers; they are no flows."""
    sampled: bool = True
    """Whether anything that the latest run sent was read; False when it ended before the view began."""
