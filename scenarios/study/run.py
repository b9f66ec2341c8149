"""The life of a study: every point that is not done yet, a row kept after each, tables and figures in the end.

A study that was broken off goes on where it was; points run again only where the machine did not keep up.
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
"""Simulated points handed out at a time, so that a study cut short has lost little. Our choice."""


class Watcher(Protocol):
    """Who hears how a study goes."""

    def begun(self, left: int, done: int) -> None:
        """How many points are to be run, and how many were found done."""

    def finished(self, row: Row, at: int) -> None:
        """A point is done; `at` counts from 1."""


def open_points(study: Study, folder: StudyFolder, mode: Mode) -> list[Point]:
    """What is still to be run, points of one fabric together."""
    done = folder.done(mode)
    points = (point.on_fabric if mode == "fabric" else point for point in points_of(study))
    left = [point for point in dict.fromkeys(points) if point.key not in done]
    return sorted(left, key=lambda point: (point.planes, point.leaves, point.spines)) if mode == "fabric" else left


def runs_of(points: Iterable[Point]) -> list[tuple[Point, ...]]:
    """The points that one run on a fabric answers, together."""
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
    """The points on several cores, in order."""
    waiting: list[Future[Row]] = []
    left = iter(points)
    while batch := list(islice(left, AHEAD)):
        waiting = [pool.submit(run, point) for point in batch]
        yield from (each.result() for each in waiting)
