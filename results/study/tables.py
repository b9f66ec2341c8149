"""Turns the runs of a study into tidy tables: one line per run, per cell with its error rates, and per point of a
ROC curve.

Rows are the decoded lines of `results.jsonl`. A rate comes with its exact 95 % interval (Clopper-Pearson), so that
"none of 40" is not read as zero.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.special import betaincinv

from results.files.user_files import replacing

Row = Mapping[str, Any]

CONFIDENCE = 0.95
"""Confidence of every interval."""

CELL = (
    "mode", "spray", "expectation", "loss_policy", "planes", "leaves", "spines", "strides", "asked_rate",
    "allowed_miss", "allowed_false_alarm", "rate", "packets", "failure",
)  # fmt: skip
"""Columns that the runs of one cell have in common: everything that decides how a run ends, except its seed."""

_LISTS = ("bad_scores", "good_scores", "key")
"""Columns that are not in the table of runs: too long for a line."""


def interval(happened: int, of: int) -> tuple[float, float]:
    """Return the Clopper-Pearson bounds of a probability after `happened` of `of` trials; (0, 1) without trials."""
    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(happened, of - happened + 1, tail)) if happened else 0.0
    high = float(betaincinv(happened + 1, of - happened, 1 - tail)) if happened < of else 1.0
    return low, high


def runs_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line per run."""
    return [{name: value for name, value in row.items() if name not in _LISTS} for row in rows]


def cells_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line per cell, in the order of their first runs; runs on a machine that did not keep up are left
    out.
    """
    cells: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        cells[values_of(row, CELL)].append(row)
    return [dict(zip(CELL, key, strict=True)) | _cell(runs) for key, runs in cells.items()]


def values_of(line: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """Return values of a line as a key; lists as tuples."""
    return tuple(tuple(value) if isinstance(value := line[name], list) else value for name in names)


def telling(lines: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Return the column of CELL that distinguishes lines equal in `names`; of several that do it together the first."""
    found = [*names]
    for name in CELL if lines else ():
        if name not in found and name in lines[0]:
            alike, apart = ({values_of(line, each) for line in lines} for each in (found, [*found, name]))
            found += [name] if len(apart) > len(alike) else []
    return tuple(found[len(names) :])


def _cell(runs: Sequence[Row]) -> dict[str, Any]:
    sound = [run for run in runs if run["outcome"] == "ok"]
    total = {name: sum(run[name] for run in sound) for name in _SUMMED}
    links = sum(len(run["links"]) for run in sound)
    seconds = [run["seconds"] for run in sound if run["seconds"] is not None]
    return {
        "runs": len(sound),
        "overloaded": len(runs) - len(sound),
        "snr": runs[0]["snr"],
        **_rate("miss", total["bad"] - total["bad_failed"], total["bad"]),
        **_rate("false_path", total["good_failed"], total["good"]),
        **_rate("false_flow", total["good_flows_alarmed"], total["good_flows"]),
        **_rate("insufficient", total["good_insufficient"] + total["bad_insufficient"], total["bad"] + total["good"]),
        **_rate("found", sum(run["named_right"] == len(run["links"]) for run in sound), len(sound)),
        **_rate("link_found", total["named_right"], links),
        **_rate("wrong", sum(run["named_wrong"] > 0 for run in sound), len(sound)),
        "open": sum(run["candidates"] > 0 for run in sound),
        "common": sum(bool(run["common"]) for run in sound),
        "seconds_median": round(median(seconds), 3) if seconds else None,
        "seconds_max": max(seconds, default=None),
    }


_SUMMED = (
    "bad", "bad_failed", "bad_insufficient", "good", "good_failed", "good_insufficient", "good_flows",
    "good_flows_alarmed", "named_right",
)  # fmt: skip


def _rate(name: str, happened: int, of: int) -> dict[str, Any]:
    low, high = interval(happened, of) if of else (None, None)
    return {
        f"{name}": happened,
        f"{name}_of": of,
        f"{name}_rate": happened / of if of else None,
        f"{name}_low": low,
        f"{name}_high": high,
    }


ROC = tuple(name for name in CELL if name != "failure")
"""Columns that the runs of one ROC curve have in common: one link that dropped with `rate`, or none."""

_HEALTHY = tuple(name for name in ROC if name != "rate")


def roc_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line for each threshold that changes anything: false positives per healthy flow, misses per
    failed path.
    """
    bad: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    good: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == "ok" and row["failure"] in ("one", "none"):
            bad[values_of(row, ROC)] += row["bad_scores"]
            good[values_of(row, _HEALTHY)] += row["good_scores"]
    lines = []
    for key, scores in bad.items():
        of = dict(zip(ROC, key, strict=True))
        lines += [of | line for line in (_curve(scores, good[values_of(of, _HEALTHY)]) if scores else ())]
    return lines


def _curve(bad: Sequence[float], good: Sequence[float]) -> list[dict[str, float]]:
    failed, healthy = np.sort(bad), np.sort(good)
    thresholds = np.unique(np.concatenate((failed, healthy)))
    thresholds = np.concatenate(([thresholds[0] - 1], thresholds))
    if len(thresholds) > _MOST_POINTS:
        thresholds = np.quantile(thresholds, np.linspace(0, 1, _MOST_POINTS))
    missed = np.searchsorted(failed, thresholds, "right") / len(failed)
    alarms = 1 - np.searchsorted(healthy, thresholds, "right") / max(len(healthy), 1)
    return [
        {"threshold": float(at), "false_alarm_rate": float(alarm), "miss_rate": float(miss)}
        for at, alarm, miss in zip(thresholds, alarms, missed, strict=True)
    ]


_MOST_POINTS = 400
"""Most points of a curve; more cannot be seen."""


def write_csv(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a table with its header; an empty field where there is no value, lists as words. Raises OSError."""
    with replacing(path) as target, io.TextIOWrapper(target, "utf-8", newline="") as file:
        if lines:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows({name: _flat(value) for name, value in line.items()} for line in lines)


def _flat(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
