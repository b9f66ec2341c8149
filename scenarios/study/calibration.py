"""Compares the sensitivity s that healthy runs of a study support with the one in use, per policy. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.calibration import FlowShape, Healthy, calibrate, measured_s


class CalibrationRecord(msgspec.Struct, frozen=True):
    """The evidence for one policy at one size of flow."""

    mode: str
    spray: str
    spines: int
    packets: int
    """Packets on each spine."""
    flows: int
    """Number of healthy flows."""
    dispersion: float
    """Variance of a path's count, in units of λ."""
    largest: float
    """Largest deficit of any path, in units of sqrt(λ)."""
    s_measured: float
    """Sensitivity that these flows require at a false-positive rate of `false_alarm` per flow."""
    s_in_use: float
    """Sensitivity of the test that judged them."""
    false_alarm: float
    """Allowed false-positive rate per flow."""
    false_alarm_bound: float
    """Upper 95 % bound of the false-positive rate if none occurred in this many flows."""


def calibrations_of(rows: Iterable[Mapping[str, Any]]) -> list[CalibrationRecord]:
    """Return one entry for each policy, size of flow and allowed false-positive rate of healthy runs by equal
    shares.
    """
    groups: dict[tuple[str, str, int, int, float], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["failure"] == "none" and row["expectation"] == "uniform" and row["outcome"] == "ok":
            groups[row["mode"], row["spray"], row["spines"], row["packets"], row["allowed_false_alarm"]].append(row)
    return [_record(*key, runs) for key, runs in groups.items() if any(run["good_scores"] for run in runs)]


def _record(
    mode: str, spray: str, spines: int, packets: int, false_alarm: float, runs: list[Mapping[str, Any]]
) -> CalibrationRecord:
    largest = np.array([score for run in runs for score in run["good_scores"]])
    dispersion = float(np.mean([run["good_dispersion"] for run in runs if run["good_dispersion"] is not None]))
    found = measured_s(Healthy(spines, largest, dispersion), false_alarm)
    in_use = calibrate(FlowShape(SprayPolicy(spray).code, packets * spines, spines), false_alarm).s
    return CalibrationRecord(
        mode, spray, spines, packets, found.flows, round(dispersion, 6), round(found.largest, 4), round(found.s, 4),
        round(in_use, 4), false_alarm, round(found.false_alarm_bound, 6),
    )  # fmt: skip
