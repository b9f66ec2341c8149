"""Whether a scenario's flows show what is asked of SprayCheck. Pure: plans and statistics, no lab.

Warns, never refuses: a run that must end with links undecided can be what is wanted.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from agent.spraycheck.accuse.conclusions import LinkConclusion, LinkVerdict
from agent.spraycheck.paths import FabricLink
from agent.wire.detect_records import DoubtKind
from faults.kinds import Fault
from faults.quantities import parse_rate
from results.numbers_text import count_text, share_text
from scenarios.file.plan import Plan
from scenarios.file.transport_checks import cautions_of, leaving_cautions_of, measuring_cautions_of
from scenarios.run.judge.foresight import Foreseen, fabric_link, foresee, packets_by_pair
from scenarios.run.judge.measuring import measured_pairs
from scenarios.run.judge.packets_asked import needed_for
from scenarios.run.judge.planned_drops import dropping, fabric_drops, is_between_switches
from scenarios.run.outage_warnings import outage_warnings
from scenarios.run.under_way import timely_flows, under_way_warnings
from testbed.model.ids import DirectedLink, NodeId, Role

MOST_TOLD = 3
"""Links with a sentence of their own (our choice); the others are counted."""

LEAVES_FOR_STRIDES = 4
"""From so many on strides 1 and 3 lead to different leaves."""


@dataclass(frozen=True)
class Power:
    """What the flows of a plan send, and what verdicts take."""

    packets_a_path: int
    """Of the smallest measured flow; 0 when none crosses a spine."""
    min_rate: str
    needed: int | None
    """Packets for a sure verdict at `min_rate`: a path, or a link by what is declared; None: more than a flow has."""
    for_faults: tuple[tuple[Fraction, int | None], ...]
    """The same for each other drop rate of the scenario's faults on fabric links."""


def power_of(plan: Plan) -> Power:
    """What the flows of this plan can show."""
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
    """Drop rates, in words, that this plan's flows do not show."""
    if any(_weak_links(plan)):
        yield plan.scenario.detector.min_rate
    yield from dict.fromkeys(share_text(float(rate)) for _, rate, _ in _missed_links(plan))


def failures_of(plan: Plan) -> Iterator[str]:
    """Why a check of this plan's run must fail, whatever the machine, one sentence each."""
    if plan.scenario.expect.detection != "judged":
        return
    yield from _undecided_failures(plan)
    yield from _naming_failures(plan)
    yield from _localisation_failures(plan)


def warnings_of(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """What of this plan cannot come out as one might expect, one sentence each, `failures_of` first.

    `missing` are mechanisms of faults that this machine does not have.
    """
    yield from failures_of(plan)
    yield from cautions_on(plan, missing)


def cautions_on(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """The warnings of a plan that fail no check for sure."""
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
    yield from _host_link_warnings(plan)
    yield from _switch_warnings(plan)
    yield from under_way_warnings(plan)
    yield from _spared_warnings(plan)
    yield from _uncrossed_warnings(plan)
    yield from _expectation_warnings(plan)


def _rates(plan: Plan) -> dict[FabricLink, float]:
    """What each link drops, as far as it drops packets of all flows alike."""
    kept: dict[FabricLink, float] = {}
    for way, fault, rate in fabric_drops(plan):
        if _hits_all_flows(fault):
            link = fabric_link(way)
            kept[link] = kept.get(link, 1.0) * (1 - float(rate))
    return {link: round(1 - share, 12) for link, share in kept.items()}


def _foreseen(plan: Plan) -> Foreseen | None:
    """What would be concluded by flows that may meet the faults."""
    return foresee(plan, timely_flows(plan), _rates(plan))


def _weak_links(plan: Plan) -> list[LinkConclusion]:
    """Links without a fault that too few packets cross."""
    rates = _rates(plan)
    foreseen = foresee(plan, plan.flows, rates)
    links = foreseen.links.values() if foreseen else ()
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
    has = f"{count_text(smallest // (spec.planes * spec.spines), 'packet')} a path"
    if needed is None:
        yield f"{names}: {has}, and no flow can be long enough to tell a drop of {rate}: undecided, and the run fails"
        return
    more = needed * spec.planes * spec.spines
    if least.sent is not None:
        paths = spec.planes * spec.spines
        more = paths * ceil(smallest * needed / max(1, least.sent) / paths)
        has = f"{count_text(least.sent, 'packet')} over it in sum"
    yield (
        f"{names}: {has}, but a drop of {rate} (detector.min_rate) needs {needed:,}: undecided, and the run fails; "
        f"send {more:,} packets a flow, or ask for a larger min_rate"
    )


def _missed_links(plan: Plan) -> Iterator[tuple[FabricLink, float, LinkConclusion]]:
    """Links with a fault that too few losses show: what they drop, and what would be concluded of them."""
    foreseen = _foreseen(plan)
    if foreseen is None:
        return
    for link, rate in sorted(_rates(plan).items()):
        said = foreseen.links.get(link)
        if said is None or said.verdict is LinkVerdict.FAILED or said.alternatives or _is_hidden(foreseen, link):
            continue
        if said.verdict is LinkVerdict.HEALTHY or _is_weak(said):
            yield link, rate, said


def _is_hidden(foreseen: Foreseen, link: FabricLink) -> bool:
    """Whether every path over it fails by another link, too."""
    others = [{*path.links} - {link} for path in foreseen.paths if link in path.links]
    return all(not each.isdisjoint(foreseen.found.links) for each in others)


def _rate_warnings(plan: Plan) -> Iterator[str]:
    """Which faults so few packets may not show, other than those of the rate that all links need."""
    weak, told = bool(_weak_links(plan)), set[float]()
    for link, rate, said in _missed_links(plan):
        needed = needed_for(plan, rate)
        is_asked = rate == float(parse_rate(plan.scenario.detector.min_rate))
        if rate in told or (weak and is_asked):
            continue
        told.add(rate)
        wants = "more than a flow can have" if needed is None else f"{needed:,} packets"
        has = f" and gets {said.sent:,} in sum" if said.sent is not None else " a path"
        yield f"{link}: the fault's drop of {share_text(rate)} needs {wants}{has}: it may be missed"


def _host_link_warnings(plan: Plan) -> Iterator[str]:
    links = {str(way): None for way, fault in dropping(plan) if not is_between_switches(way)}
    if links:
        yield (
            f"{', '.join(links)}: paths of flows that lose on a host's link may be `insufficient`; SprayCheck names "
            "such a link by `declared` only, and only on the way up to the leaf"
        )


def _switch_warnings(plan: Plan) -> Iterator[str]:
    """Faults on all links of a switch leave no healthy path that would clear some of them."""
    losing = (order for order in plan.faults if any(map(_loses, order.worded.faults)))
    hit = {way for order in losing for way in order.chosen.ways if is_between_switches(way)}
    spec, pairs = plan.fabric.spec, {*packets_by_pair(plan, timely_flows(plan))}
    for switch in (*plan.fabric.leaves(), *plan.fabric.spines()):
        links = spec.spines if switch.role is Role.LEAF else spec.leaves
        ways = ({way for way in hit if way.sender == switch}, {way for way in hit if way.receiver == switch})
        whole = set[DirectedLink]().union(*(each for each in ways if len(each) == links > 1))
        if whole and _meets(switch, whole, pairs):
            yield from _whole_switch_text(plan, switch, whole)


def _meets(switch: NodeId, whole: Collection[DirectedLink], pairs: Collection[tuple[int, int]]) -> bool:
    """Whether a measured flow crosses one of these links of a switch."""
    if switch.role is Role.SPINE:
        return bool(pairs)
    leaving, index = any(way.sender == switch for way in whole), switch.index
    arriving = any(way.receiver == switch for way in whole)
    return any((leaving and index == source) or (arriving and index == target) for source, target in pairs)


def _whole_switch_text(plan: Plan, switch: NodeId, whole: set[DirectedLink]) -> Iterator[str]:
    """What will hardly be told apart, if anything."""
    foreseen = all(_hits_all_flows(fault) for way, fault, _ in fabric_drops(plan) if way in whole)
    drops = whole <= {way for way, _, _ in fabric_drops(plan)} and foreseen
    if switch.role is Role.SPINE and drops and not any(_open_links(plan)):
        return
    if switch.role is Role.LEAF and drops and plan.scenario.judged_by == "declared":
        yield f"{switch}: the faults are on all of its links one way, so SprayCheck can accuse them together only"
        return
    yield (
        f"{switch}: the faults are on all of its links, so SprayCheck cannot tell which of them fail, and the "
        "check of the named links will hardly hold; write expect.detection: recorded"
    )


def _localisation_failures(plan: Plan) -> Iterator[str]:
    """Links that stay open, or are named wrongly, however long the flows are; not those of a whole switch."""
    if any(_switch_warnings(plan)) or any(not _hits_all_flows(fault) for _, fault, _ in fabric_drops(plan)):
        return
    foreseen = _foreseen(plan)
    if foreseen is None:
        return
    faulty = {*_rates(plan)}
    wanted = faulty if plan.detected is None else faulty & {fabric_link(way) for way in plan.detected}
    yield from _open_texts(plan, foreseen, sorted(_open_links(plan) & wanted))
    crossed = {link for path in foreseen.paths for link in path.links}
    for link in sorted(wanted & crossed - {*foreseen.found.links}.union(*foreseen.found.candidates)):
        if _is_hidden(foreseen, link):
            yield (
                f"{link} will be missed: every measured path over it fails by another link, too; add a flow over it "
                "and over no other link with a fault"
            )
    for link in sorted({*foreseen.found.links} - faulty):
        yield (
            f"{link} will be named, which drops nothing: every measured path over it fails by another link; add a flow "
            "over it and over no link with a fault"
        )


def _open_links(plan: Plan) -> set[FabricLink]:
    """Links with a fault of which other links will be suspected as well."""
    foreseen = _foreseen(plan)
    return set() if foreseen is None else {*_rates(plan)}.intersection(*[{*()}.union(*foreseen.found.candidates)])


def _open_texts(plan: Plan, foreseen: Foreseen, links: Sequence[FabricLink]) -> Iterator[str]:
    for link in links[:MOST_TOLD]:
        pairs = sorted({(path.src_leaf, path.dst_leaf) for path in foreseen.paths if link in path.links})
        (source, target), *more = pairs
        cause = "no flow tells" if more else f"only flows from leaf{source} to leaf{target} cross it"
        others = " and ".join(map(str, foreseen.links[link].alternatives))
        yield (
            f"{link}: {cause}, so it stays open whether it fails or {others} does (`ambiguous`), and then the "
            f"check of the named links fails; {_help(plan, foreseen, link)}"
        )
    if len(links) > MOST_TOLD:
        yield f"{len(links) - MOST_TOLD} more links with faults stay open likewise"


def _help(plan: Plan, foreseen: Foreseen, link: FabricLink) -> str:
    deciding, fabric = foreseen.deciding(link), plan.fabric
    if deciding is None:
        return "no other flow of this fabric can tell: ask for more leaves, or write expect.detection: recorded"
    flow = f"h{fabric.host_at(deciding.path.src_leaf, 0)} to h{fabric.host_at(deciding.path.dst_leaf, 0)}"
    has_strides = fabric.spec.leaves >= LEAVES_FOR_STRIDES and fabric.spec.hosts_per_leaf == 1
    return f"write {'strides: [1, 3], or ' if has_strides else ''}one more flow, as from {flow}"


def _hits_all_flows(fault: Fault) -> bool:
    only = fault.only
    return only.qpn is None and only.ev is None and only.host is None


def _spared_warnings(plan: Plan) -> Iterator[str]:
    """Faults that take no first transmission are none that leaves can see."""
    spared = [order for order in plan.faults if any(fault.only.spares_first_sent for fault in order.worded.faults)]
    for order in spared:
        yield f"{order.chosen.text}: this fault takes no first transmissions, and SprayCheck counts no other packets"


def _uncrossed_warnings(plan: Plan) -> Iterator[str]:
    """Orders on links over which no flow sends data."""
    if not plan.flows or plan.collectives:
        return
    ends = [(flow.source, flow.destination) for flow in plan.flows]
    crossing = [pair for pair in ends if plan.fabric.leaf_of(pair[0]) != plan.fabric.leaf_of(pair[1])]
    for order in plan.faults:
        idle = [way for way in order.chosen.ways if not _carries(plan, way, ends, crossing)]
        if len(idle) == len(order.chosen.ways):
            yield f"{order.chosen.text}: no flow sends data over it, only acknowledgements at most"


def _carries(
    plan: Plan, way: DirectedLink, ends: Sequence[tuple[int, int]], crossing: Sequence[tuple[int, int]]
) -> bool:
    """Whether a flow's data crosses a direction, of pairs of hosts in all and of those that cross spines."""
    leaf_of, sender, receiver = plan.fabric.leaf_of, way.sender, way.receiver
    if sender.role is Role.HOST:
        return any(source == sender.index for source, _ in ends)
    if receiver.role is Role.HOST:
        return any(target == receiver.index for _, target in ends)
    if sender.role is Role.LEAF:
        return any(leaf_of(source) == sender.index for source, _ in crossing)
    return any(leaf_of(target) == receiver.index for _, target in crossing)


def _loses(fault: Fault) -> bool:
    return bool(fault.drop_rate and not fault.only.spares_first_sent)


def _naming_failures(plan: Plan) -> Iterator[str]:
    """Links that must be named and will not be."""
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
