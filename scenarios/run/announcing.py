"""Which queue pairs of collectives SprayCheck is told of. Pure: plans and statistics.

What they send is given by what is computed, so many are too short for a verdict. Such are announced only where, with
others of their pair of leaves or over their links, they are enough for certain: an announcement that can but end
`insufficient` is a cost without a gain, and would fail the run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil, sqrt

from agent.core.config import SprayPolicy
from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.detector import Asked, plan_test
from agent.wire.constants import SprayPolicyCode
from faults.quantities import parse_rate
from scenarios.file.collective_plan import Sending
from scenarios.file.plan import Plan
from scenarios.run.asked import LEAST_PACKETS_A_PATH, needed_for
from scenarios.run.crossing import crosses, crossing_sendings, sendings_of
from scenarios.run.measuring import gets_uneven_parts
from scenarios.run.small_flows import is_weak

MOST_SMALL_FLOWS = 512
"""Of one leaf in a run, either way. A leaf holds 4 096 flows and keeps them for some runs, and judging one takes some
0.3 ms of one core. Our choice."""

LeafPair = tuple[int, int]

LeafEnd = tuple[int, bool]
"""A leaf, and whether its uplinks are meant or the links down to it."""


def announced_sendings(plan: Plan) -> list[Sending]:
    """Those that are announced: long enough alone, or together with others of their pair of leaves."""
    least = least_packets(plan)
    long = [sent for sent in sendings_of(plan) if least is not None and sent.packets >= least]
    return [*long, *_enough_together(plan, least)]


def announced_ends(plan: Plan) -> list[tuple[int, int]]:
    """Hosts, from and to, of the queue pairs of collectives between leaves that SprayCheck is told of."""
    return [(sent.source, sent.destination) for sent in announced_sendings(plan) if crosses(plan, sent)]


def least_packets(plan: Plan) -> int | None:
    """Packets from which on a queue pair of a collective is judged alone; None when none is long enough."""
    needed = needed_for(plan, _min_rate(plan))
    return None if needed is None else needed * plan.fabric.spec.planes * plan.fabric.spec.spines


def _enough_together(plan: Plan, least: int | None) -> list[Sending]:
    """Small ones that are judged with others, in whatever order they end (S6)."""
    if plan.scenario.detector.select != "all":
        return []
    if plan.scenario.judged_by == "declared":
        chosen = _that_clear_links(plan, least)
    else:
        pairs = _small_by_pair(plan, least).values()
        chosen = [sent for small in pairs for sent in _that_fill_sums(plan, sorted(small, key=_packets))]
    ends = Counter(end for sent in chosen for end in _leaf_ends(plan, sent.source, sent.destination))
    return chosen if max(ends.values(), default=0) <= MOST_SMALL_FLOWS else []


def _that_clear_links(plan: Plan, least: int | None) -> list[Sending]:
    """Small ones whose links have packets enough of all that is measured, by what is declared."""
    if least is None or gets_uneven_parts(plan.scenario):
        return []
    needed = least // (plan.fabric.spec.planes * plan.fabric.spec.spines)
    small = [sent for sent in crossing_sendings(plan) if _is_small(plan, sent, least)]
    while small:
        over = _sizes_over_links(plan, small, least)
        weak = {end for end, by_pair in over.items() if _surely_sent(plan, by_pair) < needed}
        kept = [sent for sent in small if weak.isdisjoint(_leaf_ends(plan, sent.source, sent.destination))]
        if len(kept) == len(small):
            break
        small = kept
    return small


def _sizes_over_links(plan: Plan, small: Sequence[Sending], least: int) -> dict[LeafEnd, dict[LeafPair, list[int]]]:
    """Packets of each measured flow over the uplinks of a leaf, and over the links down to it, by pair of leaves."""
    pmtu = plan.scenario.transport.pmtu
    flows = [(flow.source, flow.destination, flow.payload_bytes // pmtu) for flow in plan.flows]
    large = [sent for sent in crossing_sendings(plan) if sent.packets >= least]
    flows += [(sent.source, sent.destination, sent.packets) for sent in (*large, *small)]
    over: dict[LeafEnd, dict[LeafPair, list[int]]] = defaultdict(lambda: defaultdict(list))
    for source, destination, packets in flows:
        up, down = _leaf_ends(plan, source, destination)
        if up[0] != down[0]:
            for end in (up, down):
                over[end][up[0], down[0]].append(packets)
    return over


def _surely_sent(plan: Plan, by_pair: Mapping[LeafPair, Sequence[int]]) -> int:
    """Packets of these flows that go over each link at least, without the pair that sends most if there are more.

    That pair says nothing of the link when it also crosses one that is named. Rotation may give a path up to an end
    effect less than its share, of the plane's part and of its own; random spraying five deviations.
    """
    spec, transport = plan.fabric.spec, plan.scenario.transport
    pairs = sorted(by_pair.values(), key=sum)
    sizes = [packets for flows in (pairs[:-1] or pairs) for packets in flows]
    paths = spec.planes * spec.spines
    if transport.spray == "random":
        mean = sum(sizes) / paths
        return int(mean - 5 * sqrt(mean))
    less = 2 * transport.copies * (1 if spec.planes == 1 else 2)
    return sum(max(0, packets // paths - less) for packets in sizes)


def _leaf_ends(plan: Plan, source: int, destination: int) -> tuple[LeafEnd, LeafEnd]:
    """Between hosts: the leaf whose uplinks are crossed, and that whose links down are."""
    return (plan.fabric.leaf_of(source), True), (plan.fabric.leaf_of(destination), False)


def _is_small(plan: Plan, sent: Sending, least: int | None) -> bool:
    """Whether it is too short alone, and not so short that announcing it costs too much."""
    smallest = LEAST_PACKETS_A_PATH * plan.fabric.spec.planes * plan.fabric.spec.spines
    return smallest <= sent.packets and (least is None or sent.packets < least)


def _small_by_pair(plan: Plan, least: int | None) -> dict[LeafPair, list[Sending]]:
    """Without pairs of leaves between which small writes are added up, since these would get into the same sums."""
    leaf_of = plan.fabric.leaf_of
    writes = {
        (leaf_of(flow.source), leaf_of(flow.destination)) for flow in plan.flows if is_weak(plan, flow.payload_bytes)
    }
    pairs = defaultdict[LeafPair, list[Sending]](list)
    for sent in crossing_sendings(plan):
        pair = leaf_of(sent.source), leaf_of(sent.destination)
        if _is_small(plan, sent, least) and pair not in writes:
            pairs[pair].append(sent)
    return pairs


def _that_fill_sums(plan: Plan, small: Sequence[Sending]) -> Sequence[Sending]:
    """As many of them, the larger ones, as fill whole sums; `small` are sorted."""
    for first in range(len(small)):
        if first and small[first].packets == small[first - 1].packets:
            continue
        in_sum = _flows_a_sum(plan, small[first].packets, small[-1].packets, len(small) - first)
        if in_sum is not None:
            return small[len(small) - (len(small) - first) // in_sum * in_sum :]
    return ()


def _flows_a_sum(plan: Plan, fewest: int, most: int, flows: int) -> int | None:
    """How many flows of `fewest` to `most` packets are enough together while one less is not, however they mix.

    None if that depends on the mixture, or more than `flows` are needed.
    """
    spec, transport = plan.fabric.spec, plan.scenario.transport
    low, high = fewest // spec.planes, -(-most // spec.planes)
    shape = FlowShape(SprayPolicy(transport.spray).code, 1, spec.spines, transport.copies)
    if _is_weak_sum(shape, flows * high, flows, _min_rate(plan)):
        return None
    for count in range(1, flows + 1):
        margin = _differs_by(shape, count, high, spec.planes)
        totals = _spread(max(1, count * low - margin), count * high + margin)
        weak = {_is_weak_sum(shape, total, count, _min_rate(plan)) for total in totals}
        if weak != {True}:
            return count if weak == {False} and count > 1 else None
    return None


def _differs_by(shape: FlowShape, flows: int, share: int, planes: int) -> int:
    """Packets by which what flows put into a plane may differ from their shares, `share` each.

    Under rotation by a pass over the plane's entropy values at both ends; under random spraying by five deviations.
    """
    if planes == 1:
        return 0
    if shape.policy is SprayPolicyCode.RANDOM:
        return ceil(5 * sqrt(flows * share * (1 - 1 / planes)))
    return 2 * flows * shape.paths * shape.copies


def _spread(low: int, high: int) -> Iterator[int]:
    """Both, and up to 64 numbers between them, of all remainders: tests change with the fraction of N/k."""
    yield from range(low, high, (high - low) // 64 | 1)
    yield high


@cache
def _is_weak_sum(shape: FlowShape, packets: int, flows: int, rate: float) -> bool:
    """Whether so many packets of so many flows of one plane do not tell the rate."""
    whole = FlowShape(shape.policy, packets, shape.paths, shape.copies, flows)
    return plan_test(whole, Asked(rate)).weakness is not None


def _packets(sent: Sending) -> int:
    return sent.packets


def _min_rate(plan: Plan) -> float:
    return float(parse_rate(plan.scenario.detector.min_rate))
