"""Defines when a fault is in force, the acts that follow, and the words that say so: values alone."""

from dataclasses import dataclass
from enum import StrEnum

from faults.grammar import Reader, Takes, Word, one_of
from faults.quantities import SHORTEST_NS, parse_duration, parse_lasting, parse_number, render_duration


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


TIMING_WORDS = (
    Word(
        "at",
        "TIME",
        "Start this long after the event.",
        "Start this long after the first packet; left out, before the first packet.",
        Takes.TIME,
    ),
    Word(
        "for", "TIME", "Clear after this long.", "Clear after this long; left out, after the last packet.", Takes.TIME
    ),
    Word(
        "every",
        "TIME",
        "Set again after each such period; needs --for.",
        "Set again after each such period.",
        Takes.TIME,
    ),
    Word(
        "times",
        "N",
        "Number of repetitions with --every; endless when left out.",
        "Number of repetitions with `every`.",
        Takes.COUNT,
    ),
    Word(
        "until",
        "EVENT",
        "Clear the fault on this event (only `detected`).",
        "Clear the fault on this event (only `detected`).",
        Takes.TEXT,
    ),
    Word(
        "on",
        "EVENT",
        "Event that --at counts from: traffic or detected.",
        "Event that `at` counts from: `traffic` or `detected`.",
        Takes.TEXT,
    ),
)


def timing_of(words: Reader) -> Timing:
    """Return the times of a fault as its request states them."""
    on = words.read("on", _event)
    until = words.read("until", _ending)
    return Timing(
        at_ns=words.read("at", parse_duration),
        for_ns=words.read("for", parse_lasting),
        every_ns=words.read("every", parse_lasting),
        times=words.read("times", lambda text: parse_number(text, 1, 10**6)),
        on=on,
        until=until,
    )


def complain_about_times(words: Reader) -> None:
    """Report times that are valid by themselves but contradict each other."""
    every, length = words.read("every", parse_lasting), words.read("for", parse_lasting)
    if "every" in words and "for" not in words:
        words.wrong("every", "has no effect without for", "add for, shorter than every")
    elif every is not None and length is not None and every < length + SHORTEST_NS:
        words.wrong("every", "is not longer than for", f"by {render_duration(SHORTEST_NS)} at least")
    if "times" in words and "every" not in words:
        words.wrong("times", "has no effect without every", "add every, or leave it out")


def _event(text: str) -> Event:
    return Event(one_of(text, [each.value for each in Event], "is not an event"))


def _ending(text: str) -> Event:
    return Event(one_of(text, [Event.DETECTED.value], "does not end a fault"))
