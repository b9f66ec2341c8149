"""Predicts what SprayCheck will conclude of each link, by running its own monitor on the planned counts. Pure.

Paths over links with faults lose as few packets as they do with the probability of a miss, all others lose none. So a
link that stays undecided here needs other flows, or more packets.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor

import numpy as np

from agent.core.config import SprayPolicy
from agent.spraycheck.accuse.conclusions import LinkConclusion
from agent.spraycheck.accuse.explanations import DecidingFlow
from agent.spraycheck.accuse.localization import Localization
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.leaf.flow_reports import Counts, FlowReport, MeasuredFlow, declared_report, uniform_report
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.binomial import quantile
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.uniform import plan_test
from agent.spraycheck.statistics.verdicts import Requirements
from agent.wire.constants import SprayPolicyCode
from scenarios.file.plan import Flow, Plan
from scenarios.run.judge.detector_demands import EndLeaves, announced_sendings, asked_of
from testbed.model.node_names import DirectedLink, Role

MOST_PATHS = 20_000
"""Most verdicts on paths for a prediction (our choice): more would take more than some seconds."""

MOST_SMALL_FLOWS = 64
"""Most flows of a pair of leaves that are added up here: more than a sum of equal flows has (docs/detector.md)."""


@dataclass(frozen=True)
class Prediction:
    """The predicted conclusions, in one plane for each set of faults that a plane has."""

    links: Mapping[FabricLink, LinkConclusion]
    found: Localization
    paths: tuple[FabricPath, ...]
    """The paths of measured flows."""

    def deciding(self, link: FabricLink) -> DecidingFlow | None:
        """Return the flow that would decide whether an undecided link failed."""
        suspects = {link, *self.links[link].alternatives}
        return next((each for each in self.found.deciding if not suspects.isdisjoint(each.path.links)), None)


def fabric_link(way: DirectedLink) -> FabricLink:
    """Convert a direction between switches to SprayCheck's numbers."""
    up = way.sender.role is Role.LEAF
    leaf, spine = (way.sender, way.receiver) if up else (way.receiver, way.sender)
    return FabricLink(way.plane, leaf.index, spine.index, up)


def packets_by_pair(plan: Plan, flows: Iterable[Flow]) -> dict[EndLeaves, list[int]]:
    """Return the packets of each of these writes and of all announced queue pairs of collectives, by leaves."""
    leaf_of, pmtu = plan.fabric.leaf_of, plan.scenario.transport.pmtu
    sent = [(flow.source, flow.destination, max(1, flow.payload_bytes // pmtu)) for flow in flows]
    sent += [(each.source, each.destination, each.packets) for each in announced_sendings(plan)]
    found: dict[EndLeaves, list[int]] = defaultdict(list)
    for source, destination, packets in sent:
        pair = leaf_of(source), leaf_of(destination)
        if pair[0] != pair[1]:
            found[pair].append(packets)
    return found


@dataclass(frozen=True)
class Measured:
    """The measurement to predict: fabric, transport, flows and drop rates."""

    planes: int
    leaves: int
    spines: int
    policy: SprayPolicyCode
    copies: int
    expectation: str
    asked: Requirements
    flows: tuple[tuple[EndLeaves, tuple[int, ...]], ...]
    """The packets of each flow, by leaves."""
    rates: tuple[tuple[FabricLink, float], ...]
    """The drop rate of each link with a fault."""

    def drop(self, path: FabricPath) -> float:
        """Return the share of packets that a path loses."""
        rates, kept = dict(self.rates), 1.0
        for link in path.links:
            kept *= 1 - rates.get(link, 0.0)
        return 1 - kept

    def shape(self, packets: int) -> FlowShape:
        """Return the shape of a flow that sends this many packets in one plane."""
        return FlowShape(self.policy, packets, self.spines, self.copies)


def predict(plan: Plan, flows: Collection[Flow], rates: Mapping[FabricLink, float]) -> Prediction | None:
    """Predict the conclusions from these writes and the plan's collectives while links drop at these `rates`.

    Returns None if that would take too long, or if no flow crosses a spine.
    """
    transport, spec = plan.scenario.transport, plan.fabric.spec
    sizes = {pair: tuple(packets) for pair, packets in packets_by_pair(plan, flows).items()}
    policy, expectation = SprayPolicy(transport.spray).code, plan.scenario.judged_by
    shape = spec.planes, spec.leaves, spec.spines, policy, transport.copies, expectation
    return _predict(Measured(*shape, asked_of(plan), tuple(sorted(sizes.items())), tuple(sorted(rates.items()))))


@lru_cache(8)  # several warnings need the same prediction
def _predict(measured: Measured) -> Prediction | None:
    planes, spines = _planes(measured), range(measured.spines)
    flows_of = {pair: _enough(measured, sizes) for pair, sizes in measured.flows}
    if not 0 < len(planes) * len(spines) * sum(map(len, flows_of.values())) <= MOST_PATHS:
        return None
    flows = [(plane, pair, sizes) for plane in planes for pair, sizes in flows_of.items()]
    monitor = Monitor(measured.asked, range(measured.leaves))
    accusations = monitor.observe([report for flow in flows for report in _reports(measured, *flow)], {}, 0)
    concluded = [link for each in monitor.conclusions() for link in each.links]
    if not accusations:
        return None
    links = {each.link: each for each in concluded if isinstance(each.link, FabricLink)}
    paths = (FabricPath(plane, pair[0], spine, pair[1]) for plane, pair, _ in flows for spine in spines)
    return Prediction(links, accusations[-1].localization, tuple(paths))


def _planes(measured: Measured) -> list[int]:
    """Return planes with faults, and one without, which stands for all others without."""
    faulty = sorted({link.plane for link, _ in measured.rates})
    whole = next((plane for plane in range(measured.planes) if plane not in faulty), None)
    return [*faulty, *([] if whole is None else [whole])]


def _enough(measured: Measured, sizes: Sequence[int]) -> list[int]:
    """Return as many flows of a pair of leaves as its verdict takes; declared counts are added up.

    One flow that is long enough alone suffices; of smaller ones as many as a sum has.
    """
    if measured.expectation == "declared":
        return [sum(sizes)]
    packets = max(sizes) // measured.planes
    is_sure = packets > 0 and plan_test(measured.shape(packets), measured.asked).weakness is None
    return [max(sizes)] if is_sure else sorted(sizes, reverse=True)[:MOST_SMALL_FLOWS]


def _reports(measured: Measured, plane: int, pair: EndLeaves, sizes: Iterable[int]) -> Iterator[FlowReport]:
    """Yield what leaves report of flows between two leaves in one plane."""
    spines, asked = measured.spines, measured.asked
    drops = [measured.drop(FabricPath(plane, pair[0], spine, pair[1])) for spine in range(spines)]
    for number, size in enumerate(sizes):
        packets = size // measured.planes
        if packets < 1:
            continue
        flow = MeasuredFlow(plane, *pair, *pair, number, 1, packets)
        if measured.expectation == "declared":
            sent = _even(packets, spines)
            lost = [quantile(asked.miss, int(n), rate) for n, rate in zip(sent, drops, strict=True)]
            yield declared_report(flow, sent, sent - np.array(lost), asked, packets)
        else:
            shape = measured.shape(packets)
            yield uniform_report(flow, shape, _arrived(shape, drops, asked), asked)


def _even(packets: int, spines: int) -> Counts:
    base, more = divmod(packets, spines)
    return np.array([base + (spine < more) for spine in range(spines)])


def _arrived(shape: FlowShape, drops: Sequence[float], asked: Requirements) -> Counts:
    """Return counts of equal shares, those of lossy paths as high as they are with the probability of a miss."""
    if shape.policy is SprayPolicyCode.RANDOM:
        lossy = [quantile(1 - asked.miss, shape.packets, (1 - rate) / shape.paths) for rate in drops]
    else:
        most = floor(shape.expected + plan_test(shape, asked).calibration.end_effect_pkts)
        lossy = [most - quantile(asked.miss, most, rate) for rate in drops]
    parts = zip(_even(shape.packets, shape.paths), lossy, drops, strict=True)
    return np.array([count if rate else int(share) for share, count, rate in parts])
