"""Defines when a fault is in force, and the acts that follow: values alone."""

from dataclasses import dataclass
from enum import StrEnum


class Event(StrEnum):
    """Events that a timeline can wait for."""

    TRAFFIC = "traffic"
    """The first packet of a run was sent."""
    DETECTED = "detected"
    """A detector has named a link: for `until` one of the fault's own, for `on` any."""


class Act(StrEnum):
    """The act that is due."""

    SET = "set"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Timing:
    """Times when a fault is in force; all None: from now on. `at_ns` counts from `on`, or from the order."""

    at_ns: int | None = None
    for_ns: int | None = None
    every_ns: int | None = None
    times: int | None = None
    """Number of windows with `every_ns`; None for no end."""
    on: Event | None = None
    until: Event | None = None

    @property
    def at_once(self) -> bool:
        """Return whether the fault is in force as soon as it is ordered."""
        return not self.at_ns and self.on is None


ALWAYS = Timing()


@dataclass(frozen=True, slots=True)
class Edge:
    """An act that is due, with its time since the start of a timeline."""

    after_ns: int
    act: Act
