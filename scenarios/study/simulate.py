"""One point of a study on a model: the sender's own spray schedule, binomial losses, and the leaves' own detector.

What is modelled is only the network: which link drops, and that a packet is lost with a link's rate. Which path each
packet takes, what is tested and what is accused is decided by the code that runs on a fabric.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agent.core.config import SprayPolicy
from agent.core.spray import SpraySchedule
from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.causes import SourceEvidence
from agent.spraycheck.declared import judge_declared, judge_entered, judge_source
from agent.spraycheck.detector import STRAY_RATE, Asked, PathVerdict, certain_losses, judge, plan_test
from agent.spraycheck.expectation import Expectation
from agent.spraycheck.localize import Evidence, localize
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.together import seen_together
from scenarios.study.model import Point, failed_links
from scenarios.study.score import Row, Said, Seen, row_of
from testbed.model.ids import DirectedLink, NodeId

Counts = NDArray[np.int64]
_BLOCKS_APART = 1 << 20
"""Flows begin anywhere in a schedule; our choice of how far from its start."""


@dataclass(frozen=True)
class _Flow:
    """What one flow puts on its paths."""

    source: int
    target: int
    sent: NDArray[np.int64]
    """(planes, spines)"""


@dataclass(frozen=True)
class _About:
    """A flow in one plane; a host has the number of its leaf."""

    plane: int
    source: int
    target: int

    @property
    def qpn(self) -> int:
        """Tells the flows of a leaf apart."""
        return (self.target << 12) + self.source


@dataclass
class _Found:
    """What the leaves of a run find out together."""

    evidence: list[Evidence] = field(default_factory=list)
    sources: list[SourceEvidence] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


def simulate(point: Point) -> Row:
    """Run one point on the model and score it."""
    rng = np.random.default_rng(point.cell_seed)
    links = failed_links(point)
    asked = asked_of(point)
    found = _Found()
    for flow in _flows(point, rng):
        for plane, sent in enumerate(flow.sent):
            at_leaf = rng.binomial(sent, 1 - _host_loss(point, flow, plane, links))
            arrived = rng.binomial(at_leaf, 1 - _fabric_loss(point, flow, plane, links))
            _JUDGES[point.expectation](
                found, point, _About(plane, flow.source, flow.target), (sent, at_leaf, arrived), asked
            )
    declared = point.expectation is Expectation.DECLARED
    said = localize(seen_together(found.evidence, asked) if declared else found.evidence, (), found.sources)
    conclusion = Said(
        said.finding,
        tuple(map(str, said.links)),
        tuple(tuple(map(str, each)) for each in said.candidates),
        tuple(map(str, said.common.causes)),
        tuple(tuple(map(str, each)) for each in said.common.candidates),
    )
    return row_of(point, "simulated", links, found.seen, conclusion)


def asked_of(point: Point) -> Asked:
    """What the detector is asked for; under `declared` the tests of this run share the false alarms."""
    flows = point.leaves * len(point.strides) * point.planes
    asked = Asked(point.asked_rate, point.miss, point.false_alarm, run_alarm=point.false_alarm)
    return replace(asked, run_tests=flows * (point.spines + 1))


def sent_by_path(
    policy: SprayPolicy, planes: int, spines: int, packets: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """First transmissions on each path of a flow of `packets`, (planes, spines), from anywhere in a schedule.

    Whole blocks of a rotation hold every EV equally often, so that only its ends are drawn. Random EVs are independent,
    so that their counts are multinomial in each plane's exact share.
    """
    plane_of = np.repeat(np.arange(planes, dtype=np.uint8), spines)
    schedule = SpraySchedule(policy, int(rng.integers(2**32)), plane_of)
    start = int(rng.integers(_BLOCKS_APART))
    if policy is SprayPolicy.RANDOM:
        shares = schedule.count_per_plane(start, packets)
        return np.array([rng.multinomial(shares[plane], np.full(spines, 1 / spines)) for plane in range(planes)])
    turn = planes * spines * 16 * 4096  # a multiple of the block, whatever the block is
    whole, rest = divmod(packets, turn)
    rows = schedule.run(start, rest)
    counts = np.bincount(rows, minlength=planes * spines) + whole * (turn // (planes * spines))
    return counts.reshape(planes, spines)


def _flows(point: Point, rng: np.random.Generator) -> list[_Flow]:
    packets = point.packets * point.spines * point.planes
    return [
        _Flow(host, (host + stride) % point.leaves, sent_by_path(point.spray, point.planes, point.spines, packets, rng))
        for stride in point.strides
        for host in range(point.leaves)
    ]


def _host_loss(point: Point, flow: _Flow, plane: int, links: tuple[DirectedLink, ...]) -> float:
    broken = DirectedLink(plane, NodeId.host(flow.source), NodeId.leaf(plane, flow.source)) in links
    return point.rate if broken else 0.0


def _fabric_loss(point: Point, flow: _Flow, plane: int, links: tuple[DirectedLink, ...]) -> NDArray[np.float64]:
    """Probability of loss between the leaves, (spines,); healthy links together lose the most that is allowed."""
    kept = np.full(point.spines, 1 - STRAY_RATE)
    source, target = NodeId.leaf(plane, flow.source), NodeId.leaf(plane, flow.target)
    for link in links:
        if link.sender == source and link.plane == plane:
            kept[link.receiver.index] *= 1 - point.rate
        if link.receiver == target and link.plane == plane and link.sender.plane is not None:
            kept[link.sender.index] *= 1 - point.rate
    return 1 - kept


def _by_share(found: _Found, point: Point, about: _About, counts: tuple[Counts, Counts, Counts], asked: Asked) -> None:
    """The expectation `uniform`: the destination leaf knows N, k and what arrived."""
    sent, _, arrived = counts
    test = plan_test(FlowShape(point.spray.code, int(sent.sum()), point.spines), asked)
    verdicts = judge(test, arrived)
    _take(
        found,
        about,
        verdicts,
        [certain_losses(test, each.count) for each in verdicts],
        [test.shape.expected] * len(sent),
    )


def _by_declaration(
    found: _Found, point: Point, about: _About, counts: tuple[Counts, Counts, Counts], asked: Asked
) -> None:
    """The expectation `declared`: it knows what was sent on each path, and the source leaf how much reached it."""
    sent, at_leaf, arrived = counts
    verdicts = judge_declared(sent, arrived, asked)
    losses = [(int(sent[each.path]), max(int(sent[each.path]) - each.count, 0)) for each in verdicts]
    _take(found, about, verdicts, losses, sent.tolist())
    source = judge_source(sent, arrived, asked)
    entered = judge_entered(int(sent.sum()), int(at_leaf.sum()), asked)
    found.sources.append(
        SourceEvidence(about.plane, about.source, about.source, about.target, about.qpn, source.verdict, entered)
    )


def _take(
    found: _Found,
    about: _About,
    verdicts: tuple[PathVerdict, ...],
    losses: Sequence[tuple[int, int]],
    expected: Sequence[float],
) -> None:
    for each, loss, share in zip(verdicts, losses, expected, strict=True):
        path = FabricPath(about.plane, about.source, each.path, about.target)
        found.evidence.append(Evidence(path, each.verdict, about.qpn, *loss))
        found.seen.append(
            Seen(
                *(path.plane, path.src_leaf, path.spine, path.dst_leaf),
                about.qpn,
                share,
                each.count,
                each.p_value,
                each.verdict,
            )
        )


_JUDGES = {Expectation.UNIFORM: _by_share, Expectation.DECLARED: _by_declaration}
