"""Defines a study as data: a grid of runs that measures how well the detector works, its points and their links.

Pure. A point is one run: it contains everything that decides its result, so that a finished one is never repeated.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Annotated, Literal
from zlib import crc32

import msgspec
from pydantic import Field

from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.uniform import MAX_PACKETS
from agent.spraycheck.statistics.verdicts import FALSE_ALARM, MISS, Expectation
from agent.wire.usid import MAX_INDEX, MAX_PLANES
from faults.quantities import parse_rate
from results.files.yaml_document import Place
from scenarios.file.plan import Complaint
from scenarios.file.values import OffIsAWord, Part, Rate
from scenarios.study.loss_policy import LossPolicy
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import DirectedLink, NodeId

_BY_WORD = Field(strict=False)
"""Field setting: a file has the words of an enum, not its members."""

Failure = Literal["none", "one", "same-spine", "same-leaf", "disjoint", "four-of-plane", "two-of-pair", "host-link"]
Count = Annotated[int, Field(ge=1, le=MAX_INDEX)]
Packets = Annotated[int, Field(ge=1, le=MAX_PACKETS)]


class Pair(Part):
    """A drop rate and the number of packets that must show it."""

    rate: Rate
    """Drop rate of each failed link, and the rate that the detector must find."""
    packets: Packets
    """Packets of a flow on each spine of each plane."""


class Study(Part):
    """A grid of runs. Every list is crossed with every other."""

    version: Literal[1]
    """Version of this format."""
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """Lower-case letters, digits and dashes; part of the folder's name."""
    description: str = ""
    """The question, in one sentence."""
    planes: int = Field(default=1, ge=1, le=MAX_PLANES)
    """Planes of the fabric; failures are in plane 0."""
    leaves: Count = 8
    """Leaves of a plane, each with one host."""
    spines: tuple[Count, ...] = Field(default=(8,), min_length=1)
    """Spines of a plane."""
    strides: tuple[int, ...] = Field(default=(1, 3), min_length=1)
    """Every host h sends one flow to host h + stride, modulo hosts, for each stride."""
    spray: tuple[Annotated[SprayPolicy, _BY_WORD], ...] = Field(default=(SprayPolicy.ROTATION,), min_length=1)
    """Order of entropy values."""
    expectation: tuple[Annotated[Expectation, _BY_WORD], ...] = Field(default=(Expectation.UNIFORM,), min_length=1)
    """Number that counts are compared with: an equal share, or what the sender declared."""
    loss_policy: tuple[Annotated[LossPolicy, OffIsAWord], ...] = Field(default=("off",), min_length=1)
    """Senders' reaction to a lost packet: none, or retire its path as in MRC's paper. A model supports only `off`."""
    rates: tuple[Rate, ...] = ()
    """Drop rates, crossed with `packets`."""
    packets: tuple[Packets, ...] = ()
    """Packets on each spine of each plane, crossed with `rates`."""
    pairs: tuple[Pair, ...] = ()
    """Rates with the packets of each, instead of `rates` and `packets`."""
    failures: tuple[Failure, ...] = Field(default=("one",), min_length=1)
    """Which links drop: one; two victims of one spine; two uplinks of one leaf; two that share nothing; four of a
    plane; two of the links between two leaves; a host's link."""
    seeds: int = Field(default=20, ge=0)
    """Runs of each point, seeded 1 to n; the seed chooses the links, too."""
    healthy_seeds: int = Field(default=20, ge=0)
    """Additional runs without a failure."""
    asked_rate: Rate | None = None
    """Smallest drop rate that the detector must not miss; left out, the rate of the point."""
    miss: float = Field(default=MISS, gt=0, lt=1)
    """Allowed probability of a miss, per path; only of a model: leaves of a fabric have their own."""
    false_alarm: float = Field(default=FALSE_ALARM, gt=0, lt=1)
    """Allowed probability of a false positive: per flow under `uniform`, per run under `declared`; only of a model."""


class Point(msgspec.Struct, frozen=True):
    """One run of a study, judged by one expectation."""

    spray: SprayPolicy
    expectation: Expectation
    planes: int
    leaves: int
    spines: int
    strides: tuple[int, ...]
    rate: float
    packets: int
    failure: Failure
    asked_rate: float
    miss: float
    false_alarm: float
    seed: int
    loss_policy: LossPolicy = "off"

    @property
    def key(self) -> str:
        """Key that identifies the point. `loss_policy` is left out when it is `off`, as before others existed."""
        values = {name: value for name, value in msgspec.structs.asdict(self).items() if value != "off"}
        return msgspec.json.encode(values).decode()

    @property
    def on_fabric(self) -> "Point":
        """Return the point as a fabric runs it: its leaves have their own allowed error rates."""
        return msgspec.structs.replace(self, miss=MISS, false_alarm=FALSE_ALARM)

    @property
    def cell_seed(self) -> tuple[int, int]:
        """Seed of failed links and of a model's draws: each run of a seed draws differently, and the same run
        always the same.

        A run on a fabric has `seed` itself: its senders spray alike in every cell.
        """
        return self.seed, crc32(msgspec.structs.replace(self.run, seed=0).key.encode())

    @property
    def run(self) -> "Point":
        """Key of the points that one run on a fabric can answer: its records hold every expectation."""
        return msgspec.structs.replace(self, expectation=Expectation.UNIFORM)

    @property
    def fabric(self) -> Fabric:
        """Fabric of the point."""
        return Fabric.of(FabricSpec(self.planes, self.leaves, self.spines, 1))


def points_of(study: Study) -> Iterator[Point]:
    """Yield every run, seed by seed, so that an interrupted study has some of everything."""
    pairs = [(pair.rate, pair.packets) for pair in study.pairs] or list(product(study.rates, study.packets))
    for seed in range(1, max(study.seeds, study.healthy_seeds) + 1):
        for spray, policy, spines, (rate, packets), failure, expectation in product(
            study.spray, study.loss_policy, study.spines, pairs, (*study.failures, "none"), study.expectation
        ):
            if seed <= (study.healthy_seeds if failure == "none" else study.seeds):
                fraction = float(parse_rate(rate))
                asked = fraction if study.asked_rate is None else float(parse_rate(study.asked_rate))
                yield Point(
                    spray, expectation, study.planes, study.leaves, spines, study.strides, fraction, packets, failure,
                    asked, study.miss, study.false_alarm, seed, policy,
                )  # fmt: skip


def without_effect(study: Study) -> Iterator[str]:
    """List settings of a study that have no effect on a fabric."""
    for name, theirs in (("miss", MISS), ("false_alarm", FALSE_ALARM)):
        if (asked := getattr(study, name)) != theirs:
            yield f"`{name}: {asked:g}` has no effect on a fabric: its leaves allow {theirs:g}; it is for --simulate"


def study_complaints(study: Study) -> Iterator[Complaint]:
    """List everything that does not fit together."""
    crossed = bool(study.rates) and bool(study.packets)
    if crossed == bool(study.pairs) or bool(study.rates) != bool(study.packets):
        yield Complaint((), "rates and packets do not fit", "give `rates` and `packets`, or `pairs`")
    yield from _idle_complaints(study)
    for at, stride in enumerate(study.strides):
        if stride % study.leaves == 0:
            yield Complaint(("strides", at), f"a stride of {stride} makes hosts write to themselves", "1 to leaves - 1")
    most = max([*study.packets, *(pair.packets for pair in study.pairs)], default=0) * max(study.spines) * study.planes
    if most > MAX_PACKETS:
        wrong = f"{most:,} packets over all planes are more than a flow may have"
        a_path = MAX_PACKETS // max(study.spines) // study.planes
        yield Complaint(("packets",), wrong, f"at most {MAX_PACKETS:,}, so {a_path:,} a path")
    if study.leaves < 4 and set(study.failures) - {"one", "none", "host-link"}:
        yield Complaint(("leaves",), f"{study.leaves} leaves cannot have such failures", "at least 4")
    if min(study.spines) < 2 and set(study.failures) & {"same-leaf", "disjoint", "two-of-pair"}:
        yield Complaint(("spines",), "one spine cannot have such failures", "at least 2")


def _idle_complaints(study: Study) -> Iterator[Complaint]:
    """List rates that drop nothing."""
    places: list[tuple[Place, str | None]] = [(("rates", at), rate) for at, rate in enumerate(study.rates)]
    places += [(("pairs", at, "rate"), pair.rate) for at, pair in enumerate(study.pairs)]
    for place, rate in (*places, (("asked_rate",), study.asked_rate)):
        if rate is not None and not parse_rate(rate):
            yield Complaint(
                place, f"{rate} drops nothing", "more than 0%, as 1%; runs without a failure are made anyway"
            )


def failed_links(point: Point) -> tuple[DirectedLink, ...]:
    """Choose links of plane 0 that drop, by the point's seed; links whose loss no leaf could see are not chosen."""
    draw = random.Random(repr(point.cell_seed))
    return tuple(sorted(_CHOICES[point.failure](point, draw), key=str))


def up(leaf: int, spine: int) -> DirectedLink:
    """Name the link from a leaf of plane 0 to a spine."""
    return DirectedLink(0, NodeId.leaf(0, leaf), NodeId.spine(0, spine))


def down(spine: int, leaf: int) -> DirectedLink:
    """Name the link from a spine of plane 0 to a leaf."""
    return DirectedLink(0, NodeId.spine(0, spine), NodeId.leaf(0, leaf))


def _any(point: Point, draw: random.Random) -> DirectedLink:
    leaf, spine = draw.randrange(point.leaves), draw.randrange(point.spines)
    return up(leaf, spine) if draw.random() < 0.5 else down(spine, leaf)


def _one(point: Point, draw: random.Random) -> list[DirectedLink]:
    return [_any(point, draw)]


def _same_spine(point: Point, draw: random.Random) -> list[DirectedLink]:
    """Choose two victims of one spine, which one source may see both (SprayCheck L2)."""
    spine = draw.randrange(point.spines)
    return [down(spine, leaf) for leaf in draw.sample(range(point.leaves), 2)]


def _same_leaf(point: Point, draw: random.Random) -> list[DirectedLink]:
    leaf = draw.randrange(point.leaves)
    return [up(leaf, spine) for spine in draw.sample(range(point.spines), 2)]


def _disjoint(point: Point, draw: random.Random) -> list[DirectedLink]:
    (one, other), (first, second) = draw.sample(range(point.leaves), 2), draw.sample(range(point.spines), 2)
    return [up(one, first), down(second, other)]


def _four_of_plane(point: Point, draw: random.Random) -> list[DirectedLink]:
    places = draw.sample(list(product(range(point.leaves), range(point.spines))), 4)
    return [up(leaf, spine) if draw.random() < 0.5 else down(spine, leaf) for leaf, spine in places]


def _two_of_pair(point: Point, draw: random.Random) -> list[DirectedLink]:
    """Choose two of the 2k links of the paths between two leaves that have a flow."""
    source = draw.randrange(point.leaves)
    target = (source + draw.choice(point.strides)) % point.leaves
    links = [link for spine in range(point.spines) for link in (up(source, spine), down(spine, target))]
    return draw.sample(links, 2)


def _host_link(point: Point, draw: random.Random) -> list[DirectedLink]:
    host = draw.randrange(point.leaves)
    return [DirectedLink(0, NodeId.host(host), NodeId.leaf(0, host))]


_CHOICES: Mapping[Failure, Callable[[Point, random.Random], list[DirectedLink]]] = {
    "none": lambda _point, _draw: [],
    "one": _one,
    "same-spine": _same_spine,
    "same-leaf": _same_leaf,
    "disjoint": _disjoint,
    "four-of-plane": _four_of_plane,
    "two-of-pair": _two_of_pair,
    "host-link": _host_link,
}
