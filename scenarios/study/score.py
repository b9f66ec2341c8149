"""Scores one point: its records against the links that really dropped. The same for a fabric and for a model.

Pure. A row is tidy except for its two lists of scores, from which ROC curves are made.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log10, sqrt
from typing import Literal

import msgspec

from agent.core.config import SprayPolicy
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Expectation, Verdict
from agent.wire.detect_records import Detect
from results.detect_lines import Said
from scenarios.study.model import Failure, Point
from scenarios.study.words import LossPolicy
from testbed.model.ids import DirectedLink

Mode = Literal["simulated", "fabric"]

_LEAST_P = 1e-300
"""Least p-value: a smaller one has no logarithm in a float."""


class Row(msgspec.Struct, frozen=True):
    """One finished run."""

    key: str
    mode: Mode
    spray: SprayPolicy
    expectation: Expectation
    loss_policy: LossPolicy
    planes: int
    leaves: int
    spines: int
    rate: float
    packets: int
    """Packets of each flow on each spine of each plane."""
    failure: Failure
    strides: tuple[int, ...]
    asked_rate: float
    allowed_miss: float
    allowed_false_alarm: float
    """Probabilities, as in the study; on a fabric, as set in its leaves."""
    seed: int
    outcome: Literal["ok", "overloaded"]
    snr: float
    """rate * sqrt(packets), SprayCheck S5."""
    flows: int
    paths: int
    """Verdicts."""
    bad: int
    """Paths over a link that dropped."""
    bad_failed: int
    bad_insufficient: int
    good: int
    good_failed: int
    good_insufficient: int
    good_flows: int
    """Flows of one plane with no such path."""
    good_dispersion: float | None
    """Variance of good paths' counts around their expectation, in units of it."""
    good_flows_alarmed: int
    """Number of these flows with any path failed."""
    links: tuple[str, ...]
    """Links that dropped."""
    named: tuple[str, ...]
    named_right: int
    named_wrong: int
    candidates: int
    """Sets of links among which the detector could not decide."""
    candidates_wrong: int
    """Sets that contain no link that dropped."""
    common: tuple[str, ...]
    """Common causes accused of losses on all paths, for certain or among others."""
    state: str
    seconds: float | None
    """Time from the first packet until all that dropped were named; only on a fabric."""
    bad_scores: tuple[float, ...]
    """Score of each bad path: deficit in units of sqrt(λ) (uniform), -log10 of the p-value (declared)."""
    good_scores: tuple[float, ...]
    """Largest score of each flow's good paths."""


def row_of(
    point: Point,
    mode: Mode,
    dropping: Sequence[DirectedLink],
    said: Said,
    seconds: float | None = None,
    overloaded: bool = False,
) -> Row:
    """Score what SprayCheck reported about one run; `dropping` are the links that really dropped."""
    broken = frozenset(map(str, dropping))
    by_flow: dict[tuple[int, int, int], list[tuple[Detect, bool]]] = defaultdict(list)
    for each in said.flows:
        path = FabricPath(each.plane, each.src_leaf, each.spine, each.dst_leaf)
        is_bad = not broken.isdisjoint(map(str, path.links))
        by_flow[each.plane, each.dst_leaf, each.qpn].append((each, is_bad))
    judged = [pair for flow in by_flow.values() for pair in flow]
    bad, good = ([each for each, is_bad in judged if is_bad == wanted] for wanted in (True, False))
    sound = [[each for each, _ in flow] for flow in by_flow.values() if not any(is_bad for _, is_bad in flow)]
    last = said.last
    named = tuple(last.links) if last else ()
    candidates = last.candidates if last else []
    common = (*last.common, *(cause for each in last.common_candidates for cause in each)) if last else ()
    return Row(
        key=point.key,
        mode=mode,
        spray=point.spray,
        expectation=point.expectation,
        loss_policy=point.loss_policy,
        planes=point.planes,
        leaves=point.leaves,
        spines=point.spines,
        rate=point.rate if point.failure != "none" else 0.0,
        packets=point.packets,
        failure=point.failure,
        strides=point.strides,
        asked_rate=point.asked_rate,
        allowed_miss=point.miss,
        allowed_false_alarm=point.false_alarm,
        seed=point.seed,
        outcome="overloaded" if overloaded else "ok",
        snr=round(point.rate * sqrt(point.packets), 4),
        flows=len(by_flow),
        paths=len(judged),
        bad=len(bad),
        bad_failed=_count(bad, Verdict.FAILED),
        bad_insufficient=_count(bad, Verdict.INSUFFICIENT),
        good=len(good),
        good_failed=_count(good, Verdict.FAILED),
        good_insufficient=_count(good, Verdict.INSUFFICIENT),
        good_flows=len(sound),
        good_dispersion=_dispersion(good),
        good_flows_alarmed=sum(_count(flow, Verdict.FAILED) > 0 for flow in sound),
        links=tuple(sorted(broken)),
        named=named,
        named_right=len(broken.intersection(named)),
        named_wrong=len(set(named) - broken),
        candidates=len(candidates),
        candidates_wrong=sum(broken.isdisjoint(each) for each in candidates),
        common=common,
        state=last.state if last else "none",
        seconds=seconds,
        bad_scores=tuple(_score(each, point) for each in bad),
        good_scores=tuple(max(_score(each, point) for each in flow) for flow in sound),
    )


def _dispersion(paths: Sequence[Detect]) -> float | None:
    sent = [each for each in paths if each.expected > 0]
    if not sent:
        return None
    return round(sum((each.expected - each.count) ** 2 / each.expected for each in sent) / len(sent), 6)


def _count(paths: Iterable[Detect], verdict: Verdict) -> int:
    return sum(each.verdict == verdict for each in paths)


def _score(seen: Detect, point: Point) -> float:
    if point.expectation is Expectation.DECLARED:
        return round(-log10(max(seen.p_value if seen.p_value is not None else 1.0, _LEAST_P)), 3) + 0.0
    return round((seen.expected - seen.count) / sqrt(seen.expected), 3)
