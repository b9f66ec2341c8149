"""Runs a study: every point that is not done yet, keeps a row after each, then makes tables and figures.

An interrupted study continues where it was; points run again only where the machine did not keep up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Protocol

from scenarios.study.folder import StudyFolder
from scenarios.study.model import Point, Study, points_of
from scenarios.study.score import Mode, Row

AHEAD = 64
"""Simulated points per batch, so that an interrupted study loses little. Our choice."""


class Watcher(Protocol):
    """Receives the progress of a study."""

    def begun(self, left: int, done: int) -> None:
        """Report how many points will run, and how many were already done."""

    def finished(self, row: Row, at: int) -> None:
        """Report a finished point; `at` counts from 1."""


def open_points(study: Study, folder: StudyFolder, mode: Mode) -> list[Point]:
    """List what is still to be run, points of one fabric together."""
    done = folder.done(mode)
    points = (point.on_fabric if mode == "fabric" else point for point in points_of(study))
    left = [point for point in dict.fromkeys(points) if point.key not in done]
    return sorted(left, key=lambda point: (point.planes, point.leaves, point.spines)) if mode == "fabric" else left


def runs_of(points: Iterable[Point]) -> list[tuple[Point, ...]]:
    """Group the points that one run on a fabric answers."""
    runs: dict[Point, list[Point]] = defaultdict(list)
    for point in points:
        runs[point.run].append(point)
    return [tuple(each) for each in runs.values()]


def run_points(points: list[Point], rows: Iterator[Row], folder: StudyFolder, watcher: Watcher, found: int) -> None:
    """Keep each row as it comes. Raises what running a point raises."""
    watcher.begun(len(points), found)
    for at, row in enumerate(rows, 1):
        folder.append(row)
        watcher.finished(row, at)


def simulated(points: list[Point], run: Callable[[Point], Row], pool: Executor) -> Iterator[Row]:
    """Run the points on several cores; return them in order."""
    waiting: list[Future[Row]] = []
    left = iter(points)
    while batch := list(islice(left, AHEAD)):
        waiting = [pool.submit(run, point) for point in batch]
        yield from (each.result() for each in waiting)
