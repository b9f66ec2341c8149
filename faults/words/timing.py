"""Defines the words that say when a fault is in force, and the times that they mean."""

from faults.quantities import SHORTEST_NS, parse_duration, parse_lasting, parse_number, render_duration
from faults.timeline.timing import Event, Timing
from faults.words.reader import Reader, one_of
from faults.words.word import Takes, Word

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
    """When."""
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
