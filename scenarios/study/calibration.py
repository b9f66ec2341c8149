"""What healthy runs of a study say of each policy's sensitivity s, beside the one in use. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.calibration import FlowShape, calibrate
from agent.spraycheck.statistics.measured import Healthy, measured_s


class CalibrationRecord(msgspec.Struct, frozen=True):
    """The evidence for one policy at one size of flow."""

    mode: str
    spray: str
    spines: int
    packets: int
    """On each spine."""
    flows: int
    """Healthy ones that it rests on."""
    dispersion: float
    """Variance of a path's count, in units of λ."""
    largest: float
    """Largest deficit of any path, in units of sqrt(λ)."""
    s_measured: float
    """What these flows ask for at a false-alarm rate of `false_alarm` a flow."""
    s_in_use: float
    """That of the test which they went through."""
    false_alarm: float
    """That was allowed a flow."""
    false_alarm_bound: float
    """What can be claimed by counting alone: upper 95 % bound after no alarm in so many flows."""


def calibrations_of(rows: Iterable[Mapping[str, Any]]) -> list[CalibrationRecord]:
    """One for each policy, size of flow and allowed rate of false alarms that healthy runs by equal shares have."""
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
