"""A scenario as data: what fabric, what traffic, which faults, what is expected of the detectors.

Says which values are allowed by themselves; whether they fit together is the business of `scenarios.file.plan`.
Links and rates stay text here: a wildcard means something only on a fabric, and a rate is kept as written.
"""

from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from agent.host.programs.patterns import Pattern
from agent.wire.usid import MAX_INDEX, MAX_PLANES
from faults.grammar import Takes, Word
from faults.request import WORDS
from results.captures import tcpdump
from scenarios.file.transport import Transport
from scenarios.file.values import BitRate, Bytes, Duration, OffIsAWord, Part, Rate, written


def _text(value: Any) -> str:
    """Return words and numbers as text; `{period: 2s, count: 3}` as `period=2s,count=3`."""
    if isinstance(value, dict):
        return ",".join(f"{key}={_text(each)}" for key, each in value.items())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{written(value)} is of the wrong kind; write a word, a number or a quantity with its unit")
    return str(value).strip()


Events = Annotated[Literal["off", "default", "detail"], OffIsAWord]
_IS_TEXT = BeforeValidator(_text)


def _written(takes: Takes, *types: str) -> Any:
    """Return the type of values that `faults.request` reads; `scenarios.file.reference` explains the format."""
    return Annotated[str, _IS_TEXT, WithJsonSchema({"type": ["string", *types], "format": takes.value})]


_TYPES: dict[Takes, Any] = {
    Takes.FLAG: Literal[True],
    Takes.SHARE: Rate,
    Takes.BIT_RATE: _written(Takes.BIT_RATE),
    Takes.TIME: _written(Takes.TIME, "number"),
    Takes.COUNT: _written(Takes.COUNT, "number"),
    Takes.HOST: _written(Takes.HOST, "number"),
    Takes.SETTINGS: _written(Takes.SETTINGS, "object"),
    Takes.TEXT: _written(Takes.TEXT, "number"),
}
"""Of the values behind the words of faults."""


def _field_name(word: Word) -> str:
    """Return the name of the key: `for` is Python's own."""
    return f"{word.key}_" if iskeyword(word.key) else word.key


def _key_of(word: Word) -> tuple[Any, Any]:
    """Return the key of a scenario for a word of faults."""
    alias = word.key if iskeyword(word.key) else None
    return _TYPES[word.takes] | None, Field(default=None, alias=alias, description=word.meaning)


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

if TYPE_CHECKING:
    WorkloadType = str
else:
    WorkloadType = Literal[("write", *(pattern.value for pattern in Pattern))]

HostPair = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Topology(Part):
    """The fabric's counts."""

    planes: int = Field(default=2, ge=1, le=MAX_PLANES)
    """Independent leaf/spine fabrics; every host has a port in each."""
    leaves: int = Field(default=8, ge=1, le=MAX_INDEX)
    """Leaves per plane."""
    spines: int = Field(default=8, ge=1, le=MAX_INDEX)
    """Spines per plane."""
    hosts_per_leaf: int = Field(default=1, ge=1, le=MAX_INDEX)
    """Hosts per leaf; host h is on leaf h // hosts_per_leaf."""

    @property
    def host_count(self) -> int:
        """Return the number of hosts."""
        return self.leaves * self.hosts_per_leaf

    def __str__(self) -> str:
        """Return `8x8x2, 1 host a leaf`."""
        hosts = "1 host" if self.hosts_per_leaf == 1 else f"{self.hosts_per_leaf} hosts"
        return f"{self.leaves}x{self.spines}x{self.planes}, {hosts} a leaf"


class Workload(Part):
    """One kind of traffic: writes (`strides` or `pairs`, `packets` or `bytes`), or rounds of a collective (`bytes`)."""

    type: WorkloadType | None = None
    """`write`: writes to the receiver's memory, verified there; else a collective ([workloads](workloads.md)). Left
    out: the group's pattern, or `write`."""
    group: Literal["tp", "dp", "pp", "ep"] | None = None
    """Groups of a training job: `tp` and `dp` all-reduce, `pp` sendrecv, `ep` all-to-all; also fixes which hosts form a
    group."""
    group_size: int | None = Field(default=None, ge=2)
    """Hosts per group; left out, all hosts form one."""
    hosts: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=2)
    """Hosts of a collective, by rank; left out, all."""
    iterations: int | None = Field(default=None, ge=1, le=100_000)
    """Rounds of a collective; one more is checked. Left out, 10."""
    qps: int = Field(default=1, ge=1, le=64)
    """Queue pairs per pair of hosts; each is one flow."""
    strides: tuple[int, ...] | None = Field(default=None, min_length=1)
    """Every host h writes to host h + stride (modulo hosts): one flow per host and stride."""
    pairs: tuple[HostPair, ...] | None = Field(default=None, min_length=1)
    """Instead of `strides`: [source host, destination host], one flow each."""
    packets: int | None = Field(default=None, ge=1)
    """Full packets per flow, at most 16777216 (PSNs have 24 bits), also when `bytes` sets the volume."""
    bytes: Bytes | None = None
    """Instead of `packets`: payload bytes per flow; for a collective, memory per host (incast: of the receiver)."""
    message_bytes: Bytes | None = None
    """Payload bytes per Write; left out, a flow is one Write."""
    at: Duration = "0"
    """Delay of the first write after traffic starts."""
    rate: BitRate | None = None
    """Average payload rate of each flow of writes, with resends; left out, as fast as windows allow. A flow that takes
    over 5 % and 0.25 s longer makes the run `overloaded`; where a fault or congestion control may be the cause, the run
    only warns."""


class _Put(Part):
    """Keys that every request for faults has beside its words."""

    link: Link | None = None
    """Link: `p0:leaf3>spine5` (one direction), `p0:leaf3-spine5` (both), `p*:leaf3>spine*` (many), `p0:h2>leaf2` (a
    host's)."""
    target: Target | None = None
    """Instead of `link`: any target, also a node (`p0-spine2`), a port (`h3:plane1`), a plane (`p1`), `any fabric
    link`."""
    mechanism: Literal["auto", "netem", "ebpf", "tbf", "link"] = "auto"
    """Mechanism; `run --mechanism` overrides it."""


if TYPE_CHECKING:
    _Worded = _Put
else:
    _Worded = create_model("_Worded", __base__=_Put, **{_field_name(word): _key_of(word) for word in WORDS})


class FaultEntry(_Worded):
    """One target, one or more kinds, and when. The words are those of [`fault set`](faults.md)."""

    @property
    def where(self) -> str:
        """Return the target."""
        return self.target or self.link or ""

    @property
    def words(self) -> dict[str, str | bool]:
        """Return the fault as words; `at` alone counts from the first packet."""
        given = self.model_dump(by_alias=True, exclude_none=True, exclude={"link", "target", "mechanism"})
        words = {name.replace("_", "-"): value for name, value in given.items()}
        return words | ({"on": "traffic"} if "at" in words and "on" not in words else {})


class Detector(Part):
    """Requirements for SprayCheck: what it must find, and how it works."""

    min_rate: Rate = "1%"
    """Smallest drop rate to detect. A path with too few packets for it is `insufficient`."""
    expectation: Literal["uniform", "declared"] | None = None
    """Expectation that decides which links are named: `uniform`, equal counts per path, as in the paper; `declared`,
    the counts that senders declare. Both are recorded. Left out: `uniform`, but `declared` when
    `transport.ev.loss_policy` is not `off` or `transport.ev.profile` omits paths, since paths then get unequal
    shares."""
    select: Literal["all", "one"] = "all"
    """Announced flows to measure: all, or as in the paper one at a time per leaf, destinations in turn; other flows
    then get no verdict."""
    reset_s: float = Field(default=60, gt=0, le=3600)
    """With `select: one`: how long a leaf remembers available and measured destinations."""
    priority_rate: BitRate | None = None
    """Limit every uplink of a leaf to this rate and send measured packets first. A port without a rate has no queue for
    a priority."""
    act: bool = False
    """Deny every named link: no queue pair uses it until `spraylab deny clear`."""
    lift_after: int | None = Field(default=None, ge=1, le=1_000_000)
    """With `act`: probe denied links and allow one again after this many answers in a row. A link that drops p passes n
    probes with probability (1 - p)^n: 688 let 1 % pass once in a thousand times."""
    counter_bits: Literal[16, 32] = 32
    """Width of the leaves' counters. With 16, as in the paper, leaves count less and `declared` is not judged."""
    processes: Literal["shared", "per-leaf"] = "shared"
    """`per-leaf`: one SprayCheck process inside each leaf's namespace, plus one that names links. `shared`: one for
    all. Verdicts are the same ([cost](performance.md#a-process-for-every-host-and-leaf))."""


class Expectation(Part):
    """Conditions for a run to pass."""

    detected: tuple[Link, ...] | None = None
    """Links that SprayCheck must name, and no others; `[]`: none. Left out: the links between switches that lost data
    by a fault during the run, whoever set it. Links up from hosts are named separately, by `declared` only."""
    within_s: float | None = Field(default=None, gt=0, le=LONGEST_S)
    """Longest time from the first packet until all are named, in seconds."""
    retransmissions_within: Rate = "5%"
    """Allowed difference between retransmissions and the data packets that faults dropped; at least 3 packets."""
    detection: Literal["judged", "recorded"] = "judged"
    """`recorded`: SprayCheck's result is recorded and does not decide the run."""
    retired: tuple[Link, ...] | None = None
    """Links between switches: agents must retire an entropy value over each one that flows use, and none that crosses
    no such link; `[]`: none at all."""
    lost_per_path: int | None = Field(default=None, ge=0)
    """Most packets a flow may lose on one path."""
    goodput: BitRate | None = None
    """Least payload rate of every flow, from `goodput_after_s` to its end. Unless links are shaped (`faults[].rate`),
    it is this machine's rate."""
    goodput_after_s: float = Field(default=0, ge=0, le=LONGEST_S)
    """Start of the `goodput` measurement, in seconds after the first packet."""


class Limits(Part):
    """Limits of how much of a run is kept; the summary and the report say what was cut."""

    events: Bytes = Field(default=256 << 20, ge=1 << 16, le=MOST_BYTES)
    """Size limit of agents' events, in equal shares per engine worker; the latest are kept."""
    captures: Bytes = Field(default=tcpdump.MOST_BYTES, ge=tcpdump.LEAST_BYTES, le=MOST_BYTES)
    """Size limit of all captures together, in equal shares; a file ends when its share is full."""
    snaplen: int = Field(default=tcpdump.SNAPLEN_BYTES, ge=64, le=65535)
    """Captured bytes per packet; 256 hold all headers of a write and the first bytes of its data."""


class Scenario(Part):
    """An experiment."""

    version: Literal[1]
    """Version of this format."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """Lower-case letters, digits and dashes; part of the run folder's name."""
    description: str = ""
    """One line of text."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Fixes payloads, spraying, randomly chosen targets and, where the mechanism takes a seed, which packets of a port
    a fault hits."""
    topology: Topology = Topology()
    """The fabric."""
    transport: Transport = Transport()
    """How MRC sends."""
    workloads: tuple[Workload, ...] = Field(min_length=1)
    """Traffic; all at the same time, unless `at` says otherwise."""
    faults: tuple[FaultEntry, ...] = ()
    """Faults, in force from before the first packet until after the last unless timed."""
    detector: Detector = Detector()
    """What SprayCheck must find, and how it works."""
    capture: tuple[Link, ...] = ()
    """Links to capture, at both ends."""
    events: Events = "default"
    """Content of `agent.jsonl`: only final counters, also changes, or also traffic
    ([cost](results-schema.md#agentjsonl))."""
    limits: Limits = Limits()
    """How much of the run is kept."""
    expect: Expectation = Expectation()
    """What the run must show to pass."""

    @property
    def judged_by(self) -> Literal["uniform", "declared"]:
        """Return the expectation that decides."""
        ev = self.transport.ev
        uneven = (ev.loss_policy != "off" or not ev.profile.is_all) and self.detector.counter_bits == 32
        return self.detector.expectation or ("declared" if uneven else "uniform")
