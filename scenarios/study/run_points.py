"""Runs points of a study on a real fabric: one lab for all points of one topology, one run of a scenario for each.

A run's folder is scored like the model's result, once for each requested expectation.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from results.detect_log import Said, said_in
from results.files.event_log import read_records
from results.files.run_dir import RunDir
from results.summary import Summary
from scenarios.errors import LabStateError
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.lifecycle import Launched, OwnerSettings, launch, take_down
from scenarios.run.judge.detector_demands import measuring_of
from scenarios.run.request import Listener, RunRequest
from scenarios.run.runner import run_scenario
from scenarios.study.model import Point, failed_links
from scenarios.study.score import Row, row_of
from testbed.model.node_names import DirectedLink, Role

MOST_REPEATED = 3
"""Repetitions of a run on a machine that did not keep up. Our choice; after that it is kept as overloaded."""


class StudyLab:
    """A lab that exists as long as points need it; it ends with this process, however that ends."""

    def __init__(self, labdir: LabDir, runs: Path, listener: Listener) -> None:
        self._labdir, self._runs, self._listener = labdir, runs, listener
        self._up: tuple[tuple[int, int, int], Launched] | None = None

    def __enter__(self) -> Self:
        """Create no lab yet: the first point decides the fabric."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the lab down."""
        self._end()

    def run(self, points: Sequence[Point]) -> list[Row]:
        """Run what these points have in common, again while the machine does not keep up; return a row per point.

        Raises what a run raises.
        """
        scenario = scenario_of(points[0])
        self._be_up_for(points[0], scenario)
        request = RunRequest(scenario, self._labdir, True, self._runs, tuple(sys.argv))
        summary = run_scenario(request, self._listener)
        for _ in range(MOST_REPEATED):
            if summary.outcome != "overloaded":
                break
            summary = run_scenario(request, self._listener)
        return [scored(point, summary) for point in points]

    def _be_up_for(self, point: Point, scenario: Scenario) -> None:
        counts = point.planes, point.leaves, point.spines
        if self._up is not None and self._up[0] == counts:
            return
        self._end()
        settings = OwnerSettings(self._labdir.lab, *counts, 1, measuring=measuring_of(plan_of(scenario)), leased=True)
        self._up = counts, launch(settings, self._listener.stage)

    def _end(self) -> None:
        if self._up is None:
            return
        launched, self._up = self._up[1], None
        launched.release()
        if not launched.wait_ended():
            take_down(self._labdir)


def scenario_of(point: Point) -> Scenario:
    """Return the run of a point as a scenario."""
    links = failed_links(point)
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "study",
            "description": f"{point.failure}, {percent(point.rate)}, {point.packets} packets a spine",
            "seed": point.seed,
            "topology": {
                "planes": point.planes, "leaves": point.leaves, "spines": point.spines, "hosts_per_leaf": 1,
            },
            "transport": {"spray": point.spray, "ev": {"loss_policy": point.loss_policy}},
            "workloads": ({"strides": point.strides, "packets": point.packets * point.spines * point.planes},),
            "faults": tuple({"link": str(link), "drop": percent(point.rate)} for link in links),
            "detector": {"min_rate": percent(point.asked_rate), "expectation": point.expectation},
            "expect": {"detected": tuple(str(link) for link in links if _is_fabric(link))},
        }
    )  # fmt: skip


def percent(rate: float) -> str:
    """Return a rate as scenarios write it."""
    return f"{100 * rate:.10g}%"


def scored(point: Point, summary: Summary) -> Row:
    """Return the row of a finished run, from its folder. Raises LabStateError when the expectation judged nothing."""
    folder, links = RunDir(Path(summary.folder)), failed_links(point)
    said = said_in(read_records(folder.detect), point.expectation)
    if not said.flows:
        raise LabStateError(f"{summary.folder}: no verdict by the expectation {point.expectation!r}")
    seconds = _seconds(folder, links, said)
    return row_of(point, "fabric", links, said, seconds, summary.outcome == "overloaded")


def _seconds(folder: RunDir, links: tuple[DirectedLink, ...], said: Said) -> float | None:
    """Return the time from the last queue pair's opening, right before the first packet, until all failed links
    were finally named.
    """
    wanted = {str(link) for link in links if _is_fabric(link)}
    named = [said.links[link].since_ns for link in wanted if link in said.links]
    since = [since_ns for since_ns in named if since_ns is not None]
    opened = [each["mono_ns"] for each in read_records(folder.agent) if each.get("new") == "RTS"]
    if not wanted or len(since) < len(wanted) or not opened:
        return None
    return float(round((max(since) - max(opened)) / 1e9, 3))


def _is_fabric(link: DirectedLink) -> bool:
    return Role.HOST not in (link.sender.role, link.receiver.role)
