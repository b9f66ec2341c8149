"""Finds impossible lines of a study's results: counts that do not add up, an invalid key or one of another point.

Pure. A rate made of such a line would be below 0, above 1 or no number.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from scenarios.study.model import Point
from scenarios.study.score import Row

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
        together, most = sum(getattr(row, name) for name in names), _count(row, of)
        if together > most and not {*names, of} & {*negative}:
            told = f"`{names[0]}` is" if len(names) == 1 else f"`{names[0]}` and `{names[1]}` together are"
            yield f"{told} {together}; at most {most}, as `{of}` says"
    for name, of in _LISTS:
        if len(getattr(row, name)) != _count(row, of):
            yield f"`{name}` has {len(getattr(row, name))} numbers; `{of}` says {_count(row, of)}"
    yield from _flaws_of_key(row)


def _is_negative(name: str, value: Any) -> bool:
    is_number = isinstance(value, int) or name in _NOT_NEGATIVE
    return is_number and value is not None and name != "seed" and value < 0


def _count(row: Row, name: str) -> int:
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
