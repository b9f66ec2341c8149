"""Scores one point: its records against the links that really dropped. The same for a fabric and for a model. Pure.

A row is tidy except for its two lists of scores, from which ROC curves are made. A row that is read is checked for
what cannot be: counts that do not add up, an invalid key or one of another point. A rate made of such a row would be
below 0, above 1 or no number.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import log10, sqrt
from typing import Any, Literal

import msgspec

from agent.core.config import SprayPolicy
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Expectation, Verdict
from agent.wire.detect_records import Detect
from results.detect_log import Said
from scenarios.study.loss_policy import LossPolicy
from scenarios.study.model import Failure, Point
from testbed.model.node_names import DirectedLink

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


_PARTS = (
    (("bad_failed", "bad_insufficient"), "bad"),
    (("good_failed", "good_insufficient"), "good"),
    (("bad", "good"), "paths"),
    (("good_flows",), "flows"),
    (("good_flows_alarmed",), "good_flows"),
    (("named_right",), "links"),
    (("named_right", "named_wrong"), "named"),
    (("candidates_wrong",), "candidates"),
)
"""Keys whose sum is at most the last key's value, which is a count or a list."""

_NOT_NEGATIVE = ("rate", "asked_rate", "snr", "good_dispersion", "seconds")
_AT_LEAST_ONE = ("planes", "leaves", "spines", "packets")
_PROBABILITIES = ("rate", "asked_rate", "allowed_miss", "allowed_false_alarm")
_LISTS = (("bad_scores", "bad"), ("good_scores", "good_flows"))
"""Lists, and the key that states their length."""

_OF_POINT = (
    "spray", "expectation", "loss_policy", "planes", "leaves", "spines", "packets", "failure", "strides", "asked_rate",
    "seed",
)  # fmt: skip
"""Keys that the point also has."""


def flaws_of(row: Row) -> Iterator[str]:
    """List everything that is impossible about a run; each text begins with its key."""
    negative = [name for name, value in msgspec.structs.asdict(row).items() if _is_negative(name, value)]
    yield from (f"`{name}` is {getattr(row, name)}; at least 0" for name in negative)
    yield from (f"`{name}` is {getattr(row, name)}; at most 1" for name in _PROBABILITIES if getattr(row, name) > 1)
    yield from (f"`{name}` is 0; at least 1" for name in _AT_LEAST_ONE if getattr(row, name) == 0)
    for names, of in _PARTS:
        together, most = sum(getattr(row, name) for name in names), _number(row, of)
        if together > most and not {*names, of} & {*negative}:
            told = f"`{names[0]}` is" if len(names) == 1 else f"`{names[0]}` and `{names[1]}` together are"
            yield f"{told} {together}; at most {most}, as `{of}` says"
    for name, of in _LISTS:
        if len(getattr(row, name)) != _number(row, of):
            yield f"`{name}` has {len(getattr(row, name))} numbers; `{of}` says {_number(row, of)}"
    yield from _flaws_of_key(row)


def _is_negative(name: str, value: Any) -> bool:
    is_number = isinstance(value, int) or name in _NOT_NEGATIVE
    return is_number and value is not None and name != "seed" and value < 0


def _number(row: Row, name: str) -> int:
    value = getattr(row, name)
    return value if isinstance(value, int) else len(value)


def _flaws_of_key(row: Row) -> Iterator[str]:
    try:
        point = msgspec.json.decode(row.key, type=Point)
    except msgspec.MsgspecError as error:
        yield f"`key` is no point of a study: {error}"
        return
    dropped = 0.0 if point.failure == "none" else point.rate
    if row.rate != dropped:
        yield f"`rate` is {row.rate:g}; `key` says {dropped:g}"
    for name in _OF_POINT:
        if getattr(point, name) != getattr(row, name):
            yield f"`{name}` is {_text(getattr(row, name))}; `key` says {_text(getattr(point, name))}"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
