"""Whether a scenario's flows are long enough for what is asked of SprayCheck. Pure: plans and statistics, no lab.

Warns, never refuses: a run that must end with `insufficient` can be what is wanted.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from faults.kinds import Fault
from faults.quantities import parse_rate
from results.numbers_text import count_text, share_text
from scenarios.file.plan import Flow, Plan
from scenarios.file.transport_checks import cautions_of, leaving_cautions_of, measuring_cautions_of
from scenarios.run.announcing import (
    announced_ends,
    announced_sendings,
    least_packets,
)
from scenarios.run.asked import needed_for
from scenarios.run.crossing import crosses, crossing_sendings
from scenarios.run.link_loads import LinkLoad, adds_up_links, least_load, lossy_load, packets_a_flow
from scenarios.run.measuring import gets_uneven_parts
from scenarios.run.outage_warnings import outage_warnings
from scenarios.run.planned_drops import dropping, fabric_drops, is_between_switches
from scenarios.run.small_flows import add_up, is_weak, sums_of
from scenarios.run.undecided import undecided_warnings
from scenarios.run.under_way import timely_flows, under_way_warnings
from testbed.model.ids import DirectedLink, NodeId, Role


@dataclass(frozen=True)
class Power:
    """What the flows of a plan can show."""

    packets_a_path: int
    """Of the smallest measured flow; 0 when none crosses a spine."""
    min_rate: str
    needed: int | None
    """Packets a path for a sure verdict at `min_rate`; None when no flow can be long enough."""
    for_faults: tuple[tuple[Fraction, int | None], ...]
    """The same for each other drop rate of the scenario's faults on fabric links."""
    load: LinkLoad | None = None
    """Where flows are added up over links: of the link that gets the least of those that decide."""
    lossy_load: LinkLoad | None = None
    """The same of links that are to drop."""

    summed: int | None = None
    """Where flows too small alone are all judged with others of their leaves: packets a path of the smallest sum, or of
    the smallest flow that needs none if that is less."""

    @property
    def for_a_fault(self) -> int:
        """Packets that show a drop on a link: those of a path, or of all flows where these are added."""
        if self.summed is not None:
            return self.summed
        return self.packets_a_path if self.lossy_load is None else max(self.packets_a_path, self.lossy_load.packets)


def power_of(plan: Plan) -> Power:
    """What the flows of this plan can show."""
    measured = [packets_a_path(plan, flow) for flow in plan.flows if crosses(plan, flow)]
    paths, least = plan.fabric.spec.planes * plan.fabric.spec.spines, least_packets(plan)
    measured += [sent.packets // paths for sent in crossing_sendings(plan) if least and sent.packets >= least]
    asked = parse_rate(plan.scenario.detector.min_rate)
    rates, together = dict.fromkeys(rate for _, _, rate in fabric_drops(plan) if rate != asked), adds_up_links(plan)
    return Power(
        min(measured, default=0),
        plan.scenario.detector.min_rate,
        needed_for(plan, float(asked)),
        tuple((rate, needed_for(plan, float(rate))) for rate in rates),
        least_load(plan) if together else None,
        lossy_load(plan) if together else None,
        _smallest_judged(plan) if plan.scenario.judged_by == "uniform" else None,
    )


def _smallest_judged(plan: Plan) -> int | None:
    """Packets a path of the smallest sum or flow that is judged; None unless sums judge all that is too small alone."""
    sums = sums_of(plan)
    if sums.left or not sums.judged:
        return None
    large = (packets_a_path(plan, flow) for flow in plan.flows if not is_weak(plan, flow.payload_bytes))
    return min((*sums.judged, *large))


def is_long_enough(plan: Plan, power: Power) -> bool:
    """Whether flows that are spread evenly tell the asked rate, alone or together."""
    return power.needed is not None and (power.packets_a_path >= power.needed or add_up(plan))


def too_few_for(plan: Plan, power: Power) -> Iterator[str]:
    """Drop rates, in words, that flows of this length do not tell."""
    if not is_long_enough(plan, power):
        yield power.min_rate
    for rate, needed in power.for_faults:
        if needed is None or power.for_a_fault < needed:
            yield share_text(float(rate))


def packets_a_path(plan: Plan, flow: Flow) -> int:
    """First transmissions of a flow on each path."""
    spec = plan.fabric.spec
    return flow.payload_bytes // plan.scenario.transport.pmtu // (spec.planes * spec.spines)


def failures_of(plan: Plan) -> Iterator[str]:
    """Why a check of this plan's run must fail, whatever the machine, one sentence each."""
    if plan.scenario.expect.detection != "judged":
        return
    power = power_of(plan)
    if power.packets_a_path and not (gets_uneven_parts(plan.scenario) and is_long_enough(plan, power)):
        yield from _verdict_failures(plan, power)
    elif not power.packets_a_path and any(crosses(plan, flow) for flow in plan.flows) and not add_up(plan):
        yield "some flow has fewer packets than paths: SprayCheck judges nothing of it, and the run fails"
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
    yield from cautions_of(transport, spec.planes, spec.spines)
    yield from outage_warnings(plan, missing)


def _narrow_place(plan: Plan) -> str:
    by_scapy = plan.scenario.transport.scapy_hosts(plan.fabric.host_count)
    return "a host handles by Scapy in half of ack_timeout_ms" if by_scapy else "the rings of a port hold"


def _measuring_warnings(plan: Plan) -> Iterator[str]:
    power = power_of(plan)
    if power.packets_a_path and not (gets_uneven_parts(plan.scenario) and is_long_enough(plan, power)):
        yield from _fault_rate_warnings(power)
    elif (plan.flows or not plan.collectives) and not any(crosses(plan, flow) for flow in plan.flows):
        yield "no flow crosses a spine: SprayCheck judges nothing"
    yield from _collective_warnings(plan)
    if plan.window_pkts < plan.scenario.transport.window_pkts:
        yield (
            f"transport.window_pkts {plan.scenario.transport.window_pkts} is more than {_narrow_place(plan)} with "
            f"so many queue pairs to one host; {plan.window_pkts} are used"
        )
    yield from _host_link_warnings(plan)
    yield from _switch_warnings(plan)
    yield from under_way_warnings(plan)
    yield from _spared_warnings(plan)
    yield from _uncrossed_warnings(plan)
    yield from _expectation_warnings(plan)


def _verdict_failures(plan: Plan, power: Power) -> Iterator[str]:
    has = f"{count_text(power.packets_a_path, 'packet')} a path"
    if power.needed is None:
        yield (
            f"{has}: no flow can be long enough to tell a drop of {power.min_rate}; verdicts will be `insufficient` "
            "and the run fails"
        )
    elif power.load is not None and not add_up(plan):
        yield _load_text(plan, power.load, power.needed)
    elif power.packets_a_path < power.needed and not add_up(plan):
        yield _lone_text(plan, has, power.needed)


def _fault_rate_warnings(power: Power) -> Iterator[str]:
    """Which drop rates of faults, other than the one asked for, so few packets may not show."""
    for rate, needed in power.for_faults:
        if needed is None or power.for_a_fault < needed:
            wants = "more than a flow can have" if needed is None else f"{needed:,}"
            has = f"{count_text(power.packets_a_path, 'packet')} a path"
            if power.summed is not None:
                has = f"{count_text(power.summed, 'packet')} a path with small flows added up"
            elif power.for_a_fault > power.packets_a_path:
                has = f"{count_text(power.for_a_fault, 'packet')} over the link in sum"
            yield f"{has}, but the fault's drop of {share_text(float(rate))} needs {wants}: it may be missed"


def _lone_text(plan: Plan, has: str, needed: int) -> str:
    """What flows lack that are judged alone, or together with others between the same leaves."""
    spec, sums = plan.fabric.spec, sums_of(plan)
    flow = ceil(needed * spec.planes * spec.spines)
    left = sum(shape.flows for shape in sums.left.values())
    which = "verdicts"
    if sums.judged or left > len(sums.left):
        (source, destination), shape = min(sums.left.items(), key=lambda item: item[1].packets)
        more = f", and {left - shape.flows:,} more between other leaves" if left > shape.flows else ""
        what = f"what is left from leaf {source} to leaf {destination} ({count_text(shape.flows, 'flow')}{more})"
        has = f"small flows are added up, and {what} has {count_text(shape.packets // spec.spines, 'packet')} a path"
        which = "its verdicts"
    return (
        f"{has}, but a drop of {plan.scenario.detector.min_rate} (detector.min_rate) needs {needed:,}: {which} will be "
        f"`insufficient` and the run fails; send {flow:,} packets a flow, or ask for a larger min_rate"
    )


def _load_text(plan: Plan, load: LinkLoad, needed: int) -> str:
    """What flows lack that are judged together by declaration."""
    return (
        f"{count_text(load.packets, 'packet')} over a link in sum, of {count_text(load.flows, 'flow')}, but a drop of "
        f"{plan.scenario.detector.min_rate} (detector.min_rate) needs {needed:,}: verdicts will be `insufficient` and "
        f"the run fails; flows are added up over each link, so send {packets_a_flow(plan, needed):,} packets a "
        "flow, or ask for a larger min_rate"
    )


def _collective_warnings(plan: Plan) -> Iterator[str]:
    """Which queue pairs of collectives SprayCheck cannot judge; of those that carry barriers alone nobody asks it."""
    sent = [each for each in crossing_sendings(plan) if not each.is_barrier]
    announced, least = set(announced_sendings(plan)), least_packets(plan)
    short = [each.packets for each in sent if each not in announced]
    if short:
        needs = "more than one can have" if least is None else f"{least:,}"
        yield (
            f"{len(short):,} of {count_text(len(sent), 'queue pair')} of collectives are not announced to SprayCheck: "
            f"they send up to {count_text(max(short), 'packet')}, and a verdict on "
            f"{plan.scenario.detector.min_rate} takes {needs}"
        )


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
    spec, pairs = plan.fabric.spec, _judged_pairs(plan)
    for switch in (*plan.fabric.leaves(), *plan.fabric.spines()):
        links = spec.spines if switch.role is Role.LEAF else spec.leaves
        ways = ({way for way in hit if way.sender == switch}, {way for way in hit if way.receiver == switch})
        whole = set[DirectedLink]().union(*(each for each in ways if len(each) == links > 1))
        if whole and _meets(switch, whole, pairs):
            yield from _whole_switch_text(plan, switch, whole, pairs)


def _meets(switch: NodeId, whole: Collection[DirectedLink], pairs: Collection[tuple[int, int]]) -> bool:
    """Whether a measured flow crosses one of these links of a switch."""
    if switch.role is Role.SPINE:
        return bool(pairs)
    leaving, index = any(way.sender == switch for way in whole), switch.index
    arriving = any(way.receiver == switch for way in whole)
    return any((leaving and index == source) or (arriving and index == target) for source, target in pairs)


def _whole_switch_text(
    plan: Plan, switch: NodeId, whole: set[DirectedLink], pairs: Collection[tuple[int, int]]
) -> Iterator[str]:
    """What will hardly be told apart, if anything."""
    foreseen = all(_hits_all_flows(fault) for way, fault, _ in fabric_drops(plan) if way in whole)
    drops = whole <= {way for way, _, _ in fabric_drops(plan)} and foreseen
    if switch.role is Role.SPINE and drops and not any(undecided_warnings(plan.fabric, pairs, whole, whole)):
        return
    if switch.role is Role.LEAF and drops and plan.scenario.judged_by == "declared":
        yield f"{switch}: the faults are on all of its links one way, so SprayCheck can accuse them together only"
        return
    yield (
        f"{switch}: the faults are on all of its links, so SprayCheck cannot tell which of them fail, and the "
        "check of the named links will hardly hold; write expect.detection: recorded"
    )


def _localisation_failures(plan: Plan) -> Iterator[str]:
    """Links that stay `ambiguous` however long the flows are; those of a whole switch are told already."""
    if any(_switch_warnings(plan)) or any(not _hits_all_flows(fault) for _, fault, _ in fabric_drops(plan)):
        return
    faulty = {way for way, _, _ in fabric_drops(plan)}
    wanted = faulty if plan.detected is None else faulty.intersection(plan.detected)
    yield from undecided_warnings(plan.fabric, _judged_pairs(plan), faulty, wanted)


def _hits_all_flows(fault: Fault) -> bool:
    only = fault.only
    return only.qpn is None and only.ev is None and only.host is None


def _judged_pairs(plan: Plan) -> set[tuple[int, int]]:
    """Leaves, from and to, of the flows that are long enough for a verdict, alone or together."""
    asked, leaf_of = float(parse_rate(plan.scenario.detector.min_rate)), plan.fabric.leaf_of
    needed = needed_for(plan, asked)
    together = plan.scenario.judged_by == "uniform" and add_up(plan)
    by_pair = Counter[tuple[int, int]]()
    for flow in timely_flows(plan):
        if crosses(plan, flow):
            packets, pair = packets_a_path(plan, flow), (leaf_of(flow.source), leaf_of(flow.destination))
            whole = plan.scenario.judged_by == "declared"  # then all flows of a pair are seen together
            by_pair[pair] = by_pair[pair] + packets if whole else max(by_pair[pair], packets)
    judged = {pair for pair, packets in by_pair.items() if together or (needed is not None and packets >= needed)}
    return judged | {(leaf_of(source), leaf_of(destination)) for source, destination in announced_ends(plan)}


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
    if wanted and not plan.flows and not any(announced_ends(plan)):
        yield f"SprayCheck measures no queue pair, so {', '.join(sorted(wanted))} will not be named and the run fails"


def _expectation_warnings(plan: Plan) -> Iterator[str]:
    if plan.detected is None:
        return
    expected = {str(way) for way in plan.detected}
    dropping = {str(way) for way, _, _ in fabric_drops(plan)}
    for link in sorted(dropping - expected):
        yield f"expect.detected does not name {link}, on which the scenario drops packets"
