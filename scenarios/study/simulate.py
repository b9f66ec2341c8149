"""Simulates one point of a study: the sender's own spray schedule, binomial losses, and the leaves' own detector.

Only the network is modelled: which link drops, and that a packet is lost with a link's rate. The code that runs on a
fabric decides each packet's path, tests, added sums and accusations; scores come from the records that it would write.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.base.moment import Moment
from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.detect_log import conclusion_records, detect_records, localize_record
from agent.spraycheck.leaf.flow_reports import FlowReport, MeasuredFlow, declared_report, uniform_report
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.verdicts import STRAY_RATE, Expectation, Requirements, count_tests
from results.detect_log import Said
from scenarios.study.model import Point, failed_links
from scenarios.study.score import Row, row_of
from testbed.model.node_names import DirectedLink, NodeId

Counts = NDArray[np.int64]
_BLOCKS_APART = 1 << 20
"""Largest distance of a flow's start from the start of a schedule; our choice."""

_EPOCH, _MOMENT = 1, Moment(0, 0)


@dataclass(frozen=True)
class _Flow:
    """Packets of one flow on its paths."""

    source: int
    target: int
    sent: NDArray[np.int64]
    """(planes, spines)"""


@dataclass(frozen=True)
class _Counted:
    """Counts of one flow in one plane, by path, `(spines,)` each."""

    sent: Counts
    at_leaf: Counts
    """Packets that reached the source leaf."""
    arrived: Counts


def simulate(point: Point) -> Row:
    """Run one point on the model and score it."""
    links, asked = failed_links(point), asked_of(point)
    reports = list(_reports(point, links, asked))
    monitor, said = Monitor(asked), Said(point.expectation)
    accusations = monitor.observe(reports, {}, _MOMENT.mono_ns)
    for concluded in monitor.conclusions():
        said.take_all(conclusion_records(concluded, _MOMENT))
    said.take_all(record for report in reports for record in detect_records(report, _MOMENT))
    said.take_all(localize_record(each, _MOMENT) for each in accusations)
    return row_of(point, "simulated", links, said)


def _reports(point: Point, links: tuple[DirectedLink, ...], asked: Requirements) -> Iterator[FlowReport]:
    """Return the leaves' reports, flow by flow and plane by plane."""
    rng = np.random.default_rng(point.cell_seed)
    for flow in _flows(point, rng):
        for plane, sent in enumerate(flow.sent):
            at_leaf = rng.binomial(sent, 1 - _host_loss(point, flow, plane, links))
            arrived = rng.binomial(at_leaf, 1 - _fabric_loss(point, flow, plane, links))
            about = _measured(flow, plane)
            yield _JUDGES[point.expectation](point, about, _Counted(sent, at_leaf, arrived), asked)


def _measured(flow: _Flow, plane: int) -> MeasuredFlow:
    """Describe a flow: a host has the number of its leaf; the QP number distinguishes the flows of a leaf."""
    ends = flow.source, flow.target
    return MeasuredFlow(plane, *ends, *ends, (flow.target << 12) + flow.source, _EPOCH, int(flow.sent[plane].sum()))


def asked_of(point: Point) -> Requirements:
    """Return the detector's settings; the tests of the run share the false-positive rate, as on a fabric."""
    tests = count_tests(point.leaves * len(point.strides), point.planes, point.spines)
    return Requirements(point.asked_rate, point.miss, point.false_alarm, run_alarm=point.false_alarm, run_tests=tests)


def sent_by_path(
    policy: SprayPolicy, planes: int, spines: int, packets: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw first transmissions on each path of a flow of `packets`, (planes, spines), from anywhere in a schedule.

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
    """Return the loss rate between the leaves, (spines,); healthy links together lose the most that is allowed."""
    kept = np.full(point.spines, 1 - STRAY_RATE)
    source, target = NodeId.leaf(plane, flow.source), NodeId.leaf(plane, flow.target)
    for link in links:
        if link.sender == source and link.plane == plane:
            kept[link.receiver.index] *= 1 - point.rate
        if link.receiver == target and link.plane == plane and link.sender.plane is not None:
            kept[link.sender.index] *= 1 - point.rate
    return 1 - kept


def _by_share(point: Point, about: MeasuredFlow, counted: _Counted, asked: Requirements) -> FlowReport:
    """Judge by the expectation `uniform`: the destination leaf knows N, k and what arrived."""
    shape = FlowShape(point.spray.code, about.packets, point.spines)
    return uniform_report(about, shape, counted.arrived, asked)


def _by_declaration(_: Point, about: MeasuredFlow, counted: _Counted, asked: Requirements) -> FlowReport:
    """Judge by the expectation `declared`: it knows what was sent on each path, and the source leaf how much
    reached it.
    """
    return declared_report(about, counted.sent, counted.arrived, asked, int(counted.at_leaf.sum()))


_JUDGES = {Expectation.UNIFORM: _by_share, Expectation.DECLARED: _by_declaration}
