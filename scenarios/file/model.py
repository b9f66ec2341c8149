"""A scenario as data: what fabric, what traffic, which faults, what is expected of the detectors.

Says which values are allowed by themselves; whether they fit together is the business of `scenarios.file.plan`.
Links and rates stay text here: a wildcard means something only on a fabric, and a rate is kept as written.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from agent.wire.usid import MAX_INDEX, MAX_PLANES
from scenarios.file.transport import Transport
from scenarios.file.values import BitRate, Bytes, Duration, OffIsAWord, Part, Rate
from scenarios.file.written import written


def _text(value: Any) -> str:
    """Words and numbers as text; `{period: 2s, count: 3}` as `period=2s,count=3`."""
    if isinstance(value, dict):
        return ",".join(f"{key}={_text(each)}" for key, each in value.items())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{written(value)} is of the wrong kind; write a word, a number or a quantity with its unit")
    return str(value).strip()


Events = Annotated[Literal["off", "default", "detail"], OffIsAWord]
_IS_TEXT = BeforeValidator(_text)


def _written(kind: str, *types: str) -> WithJsonSchema:
    """Schema of values that `faults.wording` reads; `kind` is what `scenarios.file.keys_table` says of them."""
    return WithJsonSchema({"type": ["string", *types], "format": kind})


Text = Annotated[str, _IS_TEXT, _written("text", "number")]
Settings = Annotated[str, _IS_TEXT, _written("settings", "object")]
Time = Annotated[str, _IS_TEXT, _written("time", "number")]
Count = Annotated[str, _IS_TEXT, _written("count", "number")]
Rated = Annotated[str, _IS_TEXT, _written("bit-rate")]
HostName = Annotated[str, _IS_TEXT, _written("host", "number")]
Target = Annotated[str, Field(min_length=1)]
Link = Annotated[
    str,
    Field(
        min_length=1,
        description="A link such as p0:leaf3>spine5, p0:leaf3-spine5, p*:leaf3>spine*.",
        json_schema_extra={"format": "link"},
    ),
]
LONGEST_S = 86_400
"""A day: no run is longer (our choice)."""
MOST_BYTES = 1 << 40
"""A TiB of records or captures: more than a laptop keeps (our choice)."""

HostPair = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Topology(Part):
    """The fabric's counts."""

    planes: int = Field(default=2, ge=1, le=MAX_PLANES)
    """Independent leaf/spine fabrics; a host has a port in each."""
    leaves: int = Field(default=8, ge=1, le=MAX_INDEX)
    """Leaves of one plane."""
    spines: int = Field(default=8, ge=1, le=MAX_INDEX)
    """Spines of one plane."""
    hosts_per_leaf: int = Field(default=1, ge=1, le=MAX_INDEX)
    """Hosts on every leaf; host h sits on leaf h // hosts_per_leaf."""

    @property
    def host_count(self) -> int:
        """Hosts in all."""
        return self.leaves * self.hosts_per_leaf

    def __str__(self) -> str:
        """As `8x8x2, 1 host a leaf`."""
        hosts = "1 host" if self.hosts_per_leaf == 1 else f"{self.hosts_per_leaf} hosts"
        return f"{self.leaves}x{self.spines}x{self.planes}, {hosts} a leaf"


class Workload(Part):
    """One kind of traffic: writes (`strides` or `pairs`, `packets` or `bytes`), or rounds of a collective (`bytes`)."""

    type: Literal["write", "all-reduce", "all-to-all", "sendrecv", "incast"] | None = None
    """`write`: data is placed in the receiver's memory and verified there; or a collective of float32 numbers, checked
    ([workloads.md](workloads.md)). Left out: what the group does, or `write`."""
    group: Literal["tp", "dp", "pp", "ep"] | None = None
    """Groups of a training job: `tp` and `dp` all-reduce, `pp` sendrecv, `ep` all-to-all; they also say which hosts
    are together."""
    group_size: int | None = Field(default=None, ge=2)
    """Hosts of a group; left out, all are one."""
    hosts: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=2)
    """Hosts that take part in a collective, by rank; left out, all."""
    iterations: int | None = Field(default=None, ge=1, le=100_000)
    """Rounds of a collective, of which one more is checked; left out, 10."""
    qps: int = Field(default=1, ge=1, le=64)
    """Queue pairs: flows of each pair of writes, or between two hosts of a collective."""
    strides: tuple[int, ...] | None = Field(default=None, min_length=1)
    """Every host h writes to host h + stride, counted around; one flow a host and stride."""
    pairs: tuple[HostPair, ...] | None = Field(default=None, min_length=1)
    """Or: a list of [source host, destination host], each one flow."""
    packets: int | None = Field(default=None, ge=1)
    """Full packets a flow; with `bytes`, too, at most 16777216 (PSNs have 24 bits)."""
    bytes: Bytes | None = None
    """Or: payload bytes a flow; of a collective, the memory of a host (of incast, of the receiver)."""
    message_bytes: Bytes | None = None
    """Payload bytes of one Write; left out, a flow is one Write."""
    at: Duration = "0"
    """Writes begin so long after traffic has."""
    rate: BitRate | None = None
    """Payload bits a second that each flow of writes sends on average, resent packets included; left out, as fast as
    its windows allow. A flow that takes over 5 % and 0.25 s longer makes the run `overloaded`, or is a warning where a
    fault or congestion control may have held it back."""


class FaultEntry(Part):
    """One order of faults: a target, one kind or several that compose, and when. The words are those of `fault set`."""

    link: Link | None = None
    """What it is put on: `p0:leaf3>spine5` (one direction), `p0:leaf3-spine5` (both), `p*:leaf3>spine*` (many), also
    links to hosts: `p0:h2>leaf2`."""
    target: Target | None = None
    """Or, instead of `link`: a link, a node (`p0-spine2`), a port (`h3:plane1`), a plane (`p1`), `any fabric link`."""
    mechanism: Literal["auto", "netem", "ebpf", "tbf", "link"] = "auto"
    """What makes it; a mechanism chosen for the run wins."""
    drop: Rate | None = None
    """Share of packets dropped."""
    gemodel: Settings | None = None
    """Drops in bursts (Gilbert-Elliott): `p=1%,r=10%`, also `bad=` and `good=`."""
    one_in: Count | None = None
    """Every Nth packet is dropped."""
    black_hole: HostName | None = None
    """Everything to this host is dropped."""
    hang: Literal[True] | None = None
    """A switch stays up and forwards nothing."""
    corrupt: Rate | None = None
    """Share of packets of which one bit is turned."""
    duplicate: Rate | None = None
    """Share of packets sent twice."""
    reorder: Rate | None = None
    """Share of packets that overtake others; with `ahead`."""
    delay: Time | None = None
    """Every packet comes later: `10ms`; with `jitter` and `distribution`."""
    rate: Rated | None = None
    """A slow link: `10Mbit`; with `queue`."""
    down: Literal[True] | None = None
    """The port is shut."""
    flap: Settings | None = None
    """Shut and opened: `period=2s`, also `duty=`, `count=`, `jitter=`."""
    reboot: Time | None = None
    """A switch is down for so long."""
    crash: Literal[True] | None = None
    """A switch shuts all its ports."""
    only_control: Literal[True] | None = None
    """Only SACKs, NACKs and transport ACKs."""
    only_qp: Text | None = None
    """Only packets to the queue pair of this number."""
    only_ev: Text | None = None
    """Only packets with this entropy value, `EV/MASK` for some of its bits."""
    only_dscp: Text | None = None
    """Only packets of this class: a number, or a name such as `CONTROL`."""
    only_size: Text | None = None
    """Only frames of these lengths: `100-300`."""
    only_to: HostName | None = None
    """Only packets to this host."""
    only_first: Literal[True] | None = None
    """Only writes that are not retransmissions."""
    only_last: Count | None = None
    """Only the last so many packets of a message."""
    jitter: Time | None = None
    """Spread of the delay."""
    distribution: Text | None = None
    """Of the delay: `uniform`, `normal`, `pareto`, `paretonormal`."""
    ahead: Time | None = None
    """What reordered packets skip."""
    queue: Text | None = None
    """Bytes that wait at a rate limit; left out, 50 ms worth."""
    at: Time | None = None
    """So long after the first packet; left out, in force from before the first packet."""
    for_: Time | None = Field(default=None, alias="for")
    """Cleared after so long; left out, after the last packet."""
    every: Time | None = None
    """Set again each time so long has passed."""
    times: Count | None = None
    """How often with `every`."""
    until: Text | None = None
    """`detected`: cleared when a detector names its link."""
    on: Text | None = None
    """What `at` counts from: `traffic` or `detected`."""

    @property
    def where(self) -> str:
        """What it is put on."""
        return self.target or self.link or ""

    @property
    def words(self) -> dict[str, str | bool]:
        """The order in words; `at` alone counts from the first packet."""
        given = self.model_dump(by_alias=True, exclude_none=True, exclude={"link", "target", "mechanism"})
        words = {name.replace("_", "-"): value for name, value in given.items()}
        return words | ({"on": "traffic"} if "at" in words and "on" not in words else {})


class Detector(Part):
    """What is asked of SprayCheck."""

    min_rate: Rate = "1%"
    """Smallest drop rate that must not be missed: with fewer packets than that needs, a verdict is `insufficient`."""
    expectation: Literal["uniform", "declared"] | None = None
    """What decides which links are named: `uniform`: every path is to bring the same, as in the paper; `declared`: what
    the sender says it sent over it. Both are judged and recorded. Left out: `uniform`, but `declared` when
    `transport.ev.loss_policy` is not `off` or `transport.ev.profile` leaves paths out, since then paths get unequal
    parts."""
    select: Literal["all", "one"] = "all"
    """Which announced flows are measured: all, or as in the paper one at a time from every leaf, destinations taking
    turns. With `one` the others get no verdict."""
    reset_s: float = Field(default=60, gt=0, le=3600)
    """With `one`: after so long it is forgotten to which destinations there are flows and which have had their turn."""
    priority_rate: BitRate | None = None
    """Hold every uplink of a leaf to this rate (`100Mbit`) and let measured packets go first. A port without a rate has
    no queue in which anything could go first."""
    act: bool = False
    """Close the loop: a link that is named becomes denied, and no queue pair uses it until `spraylab deny clear`."""
    lift_after: int | None = Field(default=None, ge=1, le=1_000_000)
    """With `act`: probe links that are denied, and allow one again after so many probes in a row that were answered.
    A link that drops p passes n probes with probability (1 - p)^n: 688 let 1 % pass once in a thousand times."""
    counter_bits: Literal[16, 32] = 32
    """Width of the leaves' counters. 16 as in the paper: less is counted, and nothing is judged as `declared`."""
    processes: Literal["shared", "per-leaf"] = "shared"
    """`per-leaf`: every leaf has a SprayCheck process of its own inside its namespace, which reads that leaf's counters
    and no others; one more names links by what they report. `shared`: one process for all. The verdicts are the same
    ([what it costs](performance.md#a-process-for-every-host-and-leaf))."""


class Expectation(Part):
    """What makes the run a success."""

    detected: tuple[Link, ...] | None = None
    """Links SprayCheck must name and no other; `[]`: none. Left out: those between switches that lost data by a fault
    during the run, whoever set it; links between hosts and leaves are left out; those up from a host are named
    apart, by `declared` only."""
    within_s: float | None = Field(default=None, gt=0, le=LONGEST_S)
    """Seconds from the first packet until all of them are named."""
    retransmissions_within: Rate = "5%"
    """How far retransmissions may differ from the data packets that the injector dropped; 3 packets always."""
    detection: Literal["judged", "recorded"] = "judged"
    """`recorded`: what SprayCheck says is written down and decides nothing, where another question is asked."""
    retired: tuple[Link, ...] | None = None
    """Links between switches over each of which, as far as flows use it, the agents must retire some entropy value, and
    none that crosses none of them; `[]`: none at all."""
    lost_per_path: int | None = Field(default=None, ge=0)
    """Most packets that a flow may lose on any one path."""
    goodput: BitRate | None = None
    """Least payload rate of every flow, measured from `goodput_after_s` until it has sent all. It is this machine's
    rate unless links are shaped to less (`faults[].rate`)."""
    goodput_after_s: float = Field(default=0, ge=0, le=LONGEST_S)
    """Seconds from the first packet until `goodput` is measured."""


class Limits(Part):
    """How much of a run is kept. What had to go is told: in the summary, in the report, beside each capture."""

    events: Bytes = Field(default=256 << 20, ge=1 << 16, le=MOST_BYTES)
    """Most bytes of what the agents report, equal shares for all engine workers; the latest is kept."""
    captures: Bytes = Field(default=1 << 30, ge=1 << 16, le=MOST_BYTES)
    """Most bytes of all capture files together, in equal shares; a file that has its share ends."""
    snaplen: int = Field(default=256, ge=64, le=65535)
    """Bytes of each packet that captures hold; 256: all headers of a write and the first bytes of its data."""


class Scenario(Part):
    """One experiment."""

    version: Literal[1]
    """Version of this format."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """Lower-case letters, digits and dashes; part of the run folder's name."""
    description: str = ""
    """One line for people."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Fixes payloads, spraying, targets chosen by chance and, where the mechanism can be seeded, which packets of a
    port a fault takes."""
    topology: Topology = Topology()
    """The fabric."""
    transport: Transport = Transport()
    """How MRC sends."""
    workloads: tuple[Workload, ...] = Field(min_length=1)
    """The traffic; all of it at the same time, unless `at` says otherwise."""
    faults: tuple[FaultEntry, ...] = ()
    """In force from before the first packet until after the last, unless they say otherwise. Words and targets are
    those of [faults.md](faults.md)."""
    detector: Detector = Detector()
    """What is asked of SprayCheck."""
    capture: tuple[Link, ...] = ()
    """Links recorded at both ends."""
    events: Events = "default"
    """How much `agent.jsonl` tells: nothing but the counters at the end, what changes, or also what passes ([what that
    costs](results-schema.md#agentjsonl))."""
    limits: Limits = Limits()
    """How much of it is kept."""
    expect: Expectation = Expectation()
    """What makes the run a success."""

    @property
    def judged_by(self) -> Literal["uniform", "declared"]:
        """The expectation that decides."""
        ev = self.transport.ev
        uneven = (ev.loss_policy != "off" or not ev.profile.is_all) and self.detector.counter_bits == 32
        return self.detector.expectation or ("declared" if uneven else "uniform")
