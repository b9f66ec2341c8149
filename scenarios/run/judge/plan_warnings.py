"""Warnings about a plan: which links SprayCheck cannot judge, which checks must fail, and what would help. Pure.

Warns, never refuses: a run that ends with undecided links can be what the user wants.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from agent.spraycheck.accuse.conclusions import LinkConclusion, LinkVerdict
from agent.spraycheck.paths import FabricLink
from agent.wire.detect_records import DoubtKind
from faults.quantities import parse_rate
from results.text import count_text, share_text
from scenarios.file.plan import Plan
from scenarios.file.transport_checks import cautions_of, leaving_cautions_of, measuring_cautions_of
from scenarios.run.judge.detector_demands import measured_pairs, needed_for
from scenarios.run.judge.planned_losses import (
    fabric_drops,
    fault_warnings,
    hits_all_flows,
    is_between_switches,
    loses_data,
    outage_warnings,
    timely_flows,
)
from scenarios.run.judge.prediction import Prediction, fabric_link, packets_by_pair, predict
from testbed.model.node_names import DirectedLink, NodeId, Role

MOST_LINKS_SHOWN = 3
"""Most links with a sentence of their own (our choice); the others are counted."""

LEAVES_FOR_STRIDES = 4
"""Least number of leaves for which strides 1 and 3 lead to different leaves."""


@dataclass(frozen=True)
class Power:
    """The packets that a plan's flows send per path, and those that a sure verdict needs."""

    packets_a_path: int
    """Packets per path of the smallest measured flow; 0 when none crosses a spine."""
    min_rate: str
    needed: int | None
    """Packets for a sure verdict at `min_rate`: per path, or with `declared` per link; None: more than a flow has."""
    for_faults: tuple[tuple[Fraction, int | None], ...]
    """The same for each other drop rate of the scenario's faults on fabric links."""


def power_of(plan: Plan) -> Power:
    """Return how many packets the flows of a plan send per path, and how many are needed."""
    paths = plan.fabric.spec.planes * plan.fabric.spec.spines
    measured = [packets // paths for sizes in packets_by_pair(plan, plan.flows).values() for packets in sizes]
    asked = parse_rate(plan.scenario.detector.min_rate)
    rates = dict.fromkeys(rate for _, _, rate in fabric_drops(plan) if rate != asked)
    return Power(
        min(measured, default=0),
        plan.scenario.detector.min_rate,
        needed_for(plan, float(asked)),
        tuple((rate, needed_for(plan, float(rate))) for rate in rates),
    )


def too_few_for(plan: Plan) -> Iterator[str]:
    """Yield drop rates, as text, for which this plan's flows have too few packets."""
    if any(_weak_links(plan)):
        yield plan.scenario.detector.min_rate
    yield from dict.fromkeys(share_text(float(rate)) for _, rate, _ in _missed_links(plan))


def failures_of(plan: Plan) -> Iterator[str]:
    """Yield why a check of this plan's run must fail on any machine, one sentence each."""
    if plan.scenario.expect.detection != "judged":
        return
    yield from _undecided_failures(plan)
    yield from _naming_failures(plan)
    yield from _localisation_failures(plan)


def warnings_of(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """Yield all warnings about a plan, one sentence each, `failures_of` first.

    `missing` are mechanisms of faults that this machine does not have.
    """
    yield from failures_of(plan)
    yield from cautions_on(plan, missing)


def cautions_on(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """Yield the warnings that do not mean that a check must fail."""
    transport, spec = plan.scenario.transport, plan.fabric.spec
    if plan.scenario.expect.detection == "judged":
        yield from _measuring_warnings(plan)
        if plan.scenario.judged_by == "uniform":
            yield from measuring_cautions_of(transport, spec.planes, spec.spines)
        elif plan.faults:
            yield from leaving_cautions_of(transport, spec.planes, spec.spines)
    yield from _window_warnings(plan)
    yield from cautions_of(transport, spec.planes, spec.spines)
    yield from outage_warnings(plan, missing)


def _window_warnings(plan: Plan) -> Iterator[str]:
    if plan.window_pkts < plan.scenario.transport.window_pkts:
        yield (
            f"transport.window_pkts {plan.scenario.transport.window_pkts} is more than {_narrow_place(plan)} with "
            f"so many queue pairs to one host; {plan.window_pkts} are used"
        )


def _narrow_place(plan: Plan) -> str:
    by_scapy = plan.scenario.transport.scapy_hosts(plan.fabric.host_count)
    return "a host handles by Scapy in half of ack_timeout_ms" if by_scapy else "the rings of a port hold"


def _measuring_warnings(plan: Plan) -> Iterator[str]:
    if not measured_pairs(plan) and (plan.flows or not plan.collectives):
        yield "no flow crosses a spine: SprayCheck judges nothing"
    yield from _rate_warnings(plan)
    yield from _switch_warnings(plan)
    yield from fault_warnings(plan)
    yield from _expectation_warnings(plan)


def _rates(plan: Plan) -> dict[FabricLink, float]:
    """Return the drop rate of each link whose faults take packets of all flows alike."""
    kept: dict[FabricLink, float] = {}
    for way, fault, rate in fabric_drops(plan):
        if hits_all_flows(fault):
            link = fabric_link(way)
            kept[link] = kept.get(link, 1.0) * (1 - float(rate))
    return {link: round(1 - share, 12) for link, share in kept.items()}


def _predicted(plan: Plan) -> Prediction | None:
    """Predict the conclusions from flows that may meet the faults."""
    return predict(plan, timely_flows(plan), _rates(plan))


def _weak_links(plan: Plan) -> list[LinkConclusion]:
    """Return links without a fault that too few packets cross."""
    rates = _rates(plan)
    predicted = predict(plan, plan.flows, rates)
    links = predicted.links.values() if predicted else ()
    return [each for each in links if each.link not in rates and _is_weak(each)]


def _is_weak(link: LinkConclusion) -> bool:
    kinds = DoubtKind.FEW_PACKETS, DoubtKind.NOT_COUNTED
    return link.verdict is LinkVerdict.UNDECIDED and link.doubt is not None and link.doubt.kind in kinds


def _undecided_failures(plan: Plan) -> Iterator[str]:
    weak, spec = _weak_links(plan), plan.fabric.spec
    if not weak:
        return
    rate, needed = plan.scenario.detector.min_rate, power_of(plan).needed
    least = min(weak, key=lambda each: -1 if each.sent is None else each.sent)
    more_links = f" and {count_text(len(weak) - 1, 'more link')}" if len(weak) > 1 else ""
    names = f"{least.link}{more_links}"
    smallest = min(packets for sizes in packets_by_pair(plan, plan.flows).values() for packets in sizes)
    has = f"{count_text(smallest // (spec.planes * spec.spines), 'packet')} per path"
    if needed is None:
        yield f"{names}: {has}, and no flow can be long enough to detect a drop of {rate}: undecided, and the run fails"
        return
    more = needed * spec.planes * spec.spines
    if least.sent is not None:
        paths = spec.planes * spec.spines
        more = paths * ceil(smallest * needed / max(1, least.sent) / paths)
        has = f"{count_text(least.sent, 'packet')} over it in sum"
    yield (
        f"{names}: {has}, but a drop of {rate} (detector.min_rate) needs {needed:,}: undecided, and the run fails; "
        f"send {more:,} packets per flow, or ask for a larger min_rate"
    )


def _missed_links(plan: Plan) -> Iterator[tuple[FabricLink, float, LinkConclusion]]:
    """Yield links whose faults cause too few losses, with their drop rates and their predicted conclusions."""
    predicted = _predicted(plan)
    if predicted is None:
        return
    for link, rate in sorted(_rates(plan).items()):
        said = predicted.links.get(link)
        if said is None or said.verdict is LinkVerdict.FAILED or said.alternatives or _is_hidden(predicted, link):
            continue
        if said.verdict is LinkVerdict.HEALTHY or _is_weak(said):
            yield link, rate, said


def _is_hidden(predicted: Prediction, link: FabricLink) -> bool:
    """Return whether every path over a link also crosses another link with a fault."""
    others = [{*path.links} - {link} for path in predicted.paths if link in path.links]
    return all(not each.isdisjoint(predicted.found.links) for each in others)


def _rate_warnings(plan: Plan) -> Iterator[str]:
    """Warn of faults that too few packets may miss, unless `_undecided_failures` covers their rate."""
    weak, warned = bool(_weak_links(plan)), set[float]()
    for link, rate, said in _missed_links(plan):
        needed = needed_for(plan, rate)
        is_asked = rate == float(parse_rate(plan.scenario.detector.min_rate))
        if rate in warned or (weak and is_asked):
            continue
        warned.add(rate)
        wants = "more than a flow can have" if needed is None else f"{needed:,} packets"
        has = f" and gets {said.sent:,} in sum" if said.sent is not None else " per path"
        yield f"{link}: the fault's drop of {share_text(rate)} needs {wants}{has}: it may be missed"


def _switch_warnings(plan: Plan) -> Iterator[str]:
    """Warn of faults on all links of a switch: they leave no healthy path that would clear some of them."""
    losing = (planned for planned in plan.faults if any(map(loses_data, planned.worded.faults)))
    hit = {way for planned in losing for way in planned.chosen.ways if is_between_switches(way)}
    spec, pairs = plan.fabric.spec, {*packets_by_pair(plan, timely_flows(plan))}
    for switch in (*plan.fabric.leaves(), *plan.fabric.spines()):
        links = spec.spines if switch.role is Role.LEAF else spec.leaves
        ways = ({way for way in hit if way.sender == switch}, {way for way in hit if way.receiver == switch})
        whole = set[DirectedLink]().union(*(each for each in ways if len(each) == links > 1))
        if whole and _meets(switch, whole, pairs):
            yield from _whole_switch_text(plan, switch, whole)


def _meets(switch: NodeId, whole: Collection[DirectedLink], pairs: Collection[tuple[int, int]]) -> bool:
    """Return whether a measured flow crosses one of these links of a switch."""
    if switch.role is Role.SPINE:
        return bool(pairs)
    leaving, index = any(way.sender == switch for way in whole), switch.index
    arriving = any(way.receiver == switch for way in whole)
    return any((leaving and index == source) or (arriving and index == target) for source, target in pairs)


def _whole_switch_text(plan: Plan, switch: NodeId, whole: set[DirectedLink]) -> Iterator[str]:
    """State which links SprayCheck can hardly distinguish, if any."""
    predicted = all(hits_all_flows(fault) for way, fault, _ in fabric_drops(plan) if way in whole)
    drops = whole <= {way for way, _, _ in fabric_drops(plan)} and predicted
    if switch.role is Role.SPINE and drops and not any(_open_links(plan)):
        return
    if switch.role is Role.LEAF and drops and plan.scenario.judged_by == "declared":
        yield f"{switch}: the faults are on all of its links one way, so SprayCheck can accuse them only together"
        return
    yield (
        f"{switch}: the faults are on all of its links, so SprayCheck cannot determine which of them fail, and the "
        "check of the named links will hardly hold; write expect.detection: recorded"
    )


def _localisation_failures(plan: Plan) -> Iterator[str]:
    """Yield links that stay undecided, or are named wrongly, however long flows are; not those of a whole switch."""
    if any(_switch_warnings(plan)) or any(not hits_all_flows(fault) for _, fault, _ in fabric_drops(plan)):
        return
    predicted = _predicted(plan)
    if predicted is None:
        return
    faulty = {*_rates(plan)}
    wanted = faulty if plan.detected is None else faulty & {fabric_link(way) for way in plan.detected}
    yield from _open_texts(plan, predicted, sorted(_open_links(plan) & wanted))
    crossed = {link for path in predicted.paths for link in path.links}
    for link in sorted(wanted & crossed - {*predicted.found.links}.union(*predicted.found.candidates)):
        if _is_hidden(predicted, link):
            yield (
                f"{link} will be missed: every measured path over it fails by another link, too; add a flow over it "
                "and over no other link with a fault"
            )
    for link in sorted({*predicted.found.links} - faulty):
        yield (
            f"{link} will be named, which drops nothing: every measured path over it fails by another link; add a flow "
            "over it and over no link with a fault"
        )


def _open_links(plan: Plan) -> set[FabricLink]:
    """Return links with a fault that SprayCheck cannot distinguish from other links."""
    predicted = _predicted(plan)
    return set() if predicted is None else {*_rates(plan)}.intersection(*[{*()}.union(*predicted.found.candidates)])


def _open_texts(plan: Plan, predicted: Prediction, links: Sequence[FabricLink]) -> Iterator[str]:
    for link in links[:MOST_LINKS_SHOWN]:
        pairs = sorted({(path.src_leaf, path.dst_leaf) for path in predicted.paths if link in path.links})
        (source, target), *more = pairs
        cause = "no flow decides" if more else f"only flows from leaf{source} to leaf{target} cross it"
        others = " and ".join(map(str, predicted.links[link].alternatives))
        yield (
            f"{link}: {cause}, so it stays open whether it fails or {others} does (`ambiguous`), and then the "
            f"check of the named links fails; {_help(plan, predicted, link)}"
        )
    if len(links) > MOST_LINKS_SHOWN:
        yield f"{len(links) - MOST_LINKS_SHOWN} more links with faults stay open likewise"


def _help(plan: Plan, predicted: Prediction, link: FabricLink) -> str:
    deciding, fabric = predicted.deciding(link), plan.fabric
    if deciding is None:
        return "no other flow of this fabric can decide: ask for more leaves, or write expect.detection: recorded"
    flow = f"h{fabric.host_at(deciding.path.src_leaf, 0)} to h{fabric.host_at(deciding.path.dst_leaf, 0)}"
    has_strides = fabric.spec.leaves >= LEAVES_FOR_STRIDES and fabric.spec.hosts_per_leaf == 1
    return f"write {'strides: [1, 3], or ' if has_strides else ''}one more flow, as from {flow}"


def _naming_failures(plan: Plan) -> Iterator[str]:
    """Yield links that must be named and will not be."""
    dropping = {str(way) for way, _, _ in fabric_drops(plan)}
    for link in sorted({str(way) for way in plan.detected or ()} - dropping):
        yield f"expect.detected names {link}, on which the scenario drops nothing that SprayCheck sees: the run fails"
    wanted = dropping if plan.detected is None else dropping & {*map(str, plan.detected)}
    if wanted and not measured_pairs(plan):
        links = ", ".join(sorted(wanted))
        yield f"SprayCheck measures no flow between leaves, so {links} will not be named and the run fails"


def _expectation_warnings(plan: Plan) -> Iterator[str]:
    if plan.detected is None:
        return
    expected = {str(way) for way in plan.detected}
    dropping = {str(way) for way, _, _ in fabric_drops(plan)}
    for link in sorted(dropping - expected):
        yield f"expect.detected does not name {link}, on which the scenario drops packets"
