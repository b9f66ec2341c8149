"""From words to faults: `{"drop": "1%", "for": "2s"}`, as the command line and scenarios write them.

Every problem at once. Which words there are is in `faults.words`. Knows no link and no lab.
"""

import difflib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from agent.wire.constants import Dscp
from faults import model
from faults.errors import QuantityError, WordingError
from faults.model import Distribution, Fault
from faults.only import EVERY_BIT, Only
from faults.quantities import (
    SHORTEST_NS,
    parse_bit_rate,
    parse_bytes,
    parse_duration,
    parse_lasting,
    parse_number,
    parse_rate,
    parse_sizes,
    render_duration,
)
from faults.schedule import Event, Timing
from faults.words import KIND_WORDS, ONLY_WORDS, WORDS, Word

Problem = tuple[str, str, str]
"""Word, what is wrong, what would be right."""

MIN_QUEUE_BYTES = 64 << 10
"""Of a rate limit: seven of the largest frames (our choice)."""
MOST_DELAY_NS = 10 * 10**9
"""Of packets (our choice): beyond all timeouts of the transport; what waits is let through before it is cleared."""
MOST_JITTER_NS = 2_147_000_000
"""netem keeps it in 31 bits of nanoseconds."""
QUEUE_SECONDS = Fraction(1, 20)
"""Of a rate limit, when nothing else is asked: as much as passes in 50 ms (our choice)."""


@dataclass(frozen=True, slots=True)
class Worded:
    """What the words say: faults that compose in this order, and when they are in force."""

    faults: tuple[Fault, ...]
    timing: Timing


_DETAILS = {"jitter": "delay", "distribution": "delay", "ahead": "reorder", "queue": "rate"}
_SELECTING = ("drop", "gemodel", "one-in", "corrupt", "duplicate")


def worded(words: Mapping[str, Any]) -> Worded:
    """What `words` say; values are text, or True behind a flag. Raises WordingError with every problem."""
    reader = _Reader({name.replace("_", "-"): value for name, value in words.items()})
    result = Worded(reader.faults(), reader.timing())
    reader.complain_about_combinations()
    if reader.problems:
        raise WordingError(reader.problems)
    return result


class _Reader:
    """Reads one order; problems are collected, and what has one is read as nothing."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self._words = {name: value for name, value in words.items() if value is not None and value is not False}
        self.problems: list[Problem] = []
        known = {word.name: word for word in WORDS}
        for name, value in list(self._words.items()):
            if name not in known:
                self._unknown(name, list(known))
                del self._words[name]
            elif known[name].flag and value is not True:
                self._wrong(name, f"{value!r} is not understood", "this word stands alone")

    def faults(self) -> tuple[Fault, ...]:
        """One fault a kind word, in the order of the table."""
        made = [self._made(word.name) for word in KIND_WORDS if word.name in self._words]
        if not made:
            self._wrong("fault", "nothing says what is to go wrong", f"for example {_listed(KIND_WORDS)}")
        return tuple(fault for fault in made if fault is not None)

    def timing(self) -> Timing:
        """When."""
        on, until = self._event("on"), self._event("until")
        return Timing(
            at_ns=self._read("at", parse_duration),
            for_ns=self._read("for", parse_lasting),
            every_ns=self._read("every", parse_lasting),
            times=self._read("times", lambda text: parse_number(text, 1, 10**6)),
            on=on,
            until=until,
        )

    def complain_about_combinations(self) -> None:
        """Words that are sound by themselves and mean nothing here."""
        for name, main in _DETAILS.items():
            if name in self._words and main not in self._words:
                self._wrong(name, f"says nothing without {main}", f"add {main}, or leave it out")
        if "reorder" in self._words and "ahead" not in self._words:
            self._wrong("reorder", "nothing says what reordered packets skip", "add ahead, for example 1ms")
        elif self._read("reorder", parse_rate) and self._read("ahead", parse_duration) == 0:
            self._wrong("ahead", "0 lets nobody overtake", "write how long a time reordered packets skip, as 1ms")
        selecting = [word.name for word in ONLY_WORDS if word.name in self._words]
        if selecting and not any(name in self._words for name in _SELECTING):
            self._wrong(selecting[0], "selects packets of nothing", f"it goes with {', '.join(_SELECTING)}")
        self._complain_about_times()

    def _complain_about_times(self) -> None:
        every, length = self._read("every", parse_lasting), self._read("for", parse_lasting)
        if "every" in self._words and "for" not in self._words:
            self._wrong("every", "says nothing without for", "add for, shorter than every")
        elif every is not None and length is not None and every < length + SHORTEST_NS:
            self._wrong("every", "is not longer than for", f"by {render_duration(SHORTEST_NS)} at least")
        if "times" in self._words and "every" not in self._words:
            self._wrong("times", "says nothing without every", "add every, or leave it out")
        self.problems = list(dict.fromkeys(self.problems))

    def _made(self, name: str) -> Fault | None:
        before = len(self.problems)
        fault = _MAKE[name](self)
        return fault if len(self.problems) == before else None

    def rate(self, name: str) -> Fraction:
        return self._read(name, parse_rate) or Fraction(0)

    def duration(self, name: str) -> int:
        return self._read(name, parse_duration) or 0

    def waiting(self, name: str) -> int:
        """Of packets."""
        ns = self.duration(name)
        if ns > MOST_DELAY_NS:
            self._wrong(name, "is longer than packets can wait", f"at most {render_duration(MOST_DELAY_NS)}")
        return ns

    def lasting(self, name: str) -> int:
        return self._read(name, parse_lasting) or 0

    def number(self, name: str, least: int, most: int) -> int:
        return self._read(name, lambda text: parse_number(text, least, most)) or 0

    def host(self, name: str) -> int:
        return self._read(name, _host) or 0

    def only(self) -> Only:
        """The packets that the `only` words select."""
        return Only(
            size_bytes=self._read("only-size", parse_sizes),
            qpn=self._read("only-qp", lambda text: parse_number(text, 0, 0xFFFFFF)),
            ev=self._read("only-ev", _ev),
            dscp=self._read("only-dscp", _dscp),
            control="only-control" in self._words,
            host=self._read("only-to", _host),
            last=self._read("only-last", lambda text: parse_number(text, 1, 1 << 20)),
            first_sent="only-first" in self._words,
        )

    def burst(self) -> Fault:
        values = self._pairs("gemodel", {"p": parse_rate, "r": parse_rate, "bad": parse_rate, "good": parse_rate})
        given = {name for name, _ in self._parts("gemodel")}
        for name in ("p", "r"):
            if name not in given:
                self._wrong("gemodel", f"{name} is missing", "write p=1%,r=10%")
        if values.get("p") and not values.get("r", 1):
            self._wrong("gemodel", "r=0% never leaves the bad state", "for a lasting loss use drop")
        sound = {name: value for name, value in values.items() if isinstance(value, Fraction)}
        return model.BurstDrop(**{"p": Fraction(0), "r": Fraction(1), **sound}, only=self.only())

    def flap(self) -> Fault:
        readers = {
            "period": parse_lasting,
            "duty": parse_rate,
            "count": lambda text: parse_number(text, 1, 10**6),
            "jitter": parse_duration,
        }
        values = self._pairs("flap", readers)
        period, duty, jitter = values.get("period", 0), values.get("duty", Fraction(1, 2)), values.get("jitter", 0)
        if not period:
            if not any(word == "flap" for word, *_ in self.problems):
                self._wrong("flap", "period is missing", "write period=2s")
        elif not 0 < duty < 1:
            self._wrong("flap", "a duty of 0% or 100% does not flap", "write a part of the period, as duty=50%")
        elif period * min(duty, 1 - duty) < SHORTEST_NS:
            shortest = render_duration(SHORTEST_NS)
            self._wrong("flap", "is down or up for too short a time", f"at least {shortest} each")
        elif jitter * 2 >= period * min(duty, 1 - duty):
            self._wrong("flap", "the jitter is too large to keep edges in order", "below half of the shorter phase")
        return model.Flap(period, duty, values.get("count", 0), jitter)

    def delay(self) -> Fault:
        delay, jitter = self.waiting("delay"), self.duration("jitter")
        if jitter > delay:
            self._wrong("jitter", "is larger than the delay", "packets cannot come before they are sent")
        elif jitter > MOST_JITTER_NS:
            self._wrong("jitter", "is more than the kernel can make", f"at most {render_duration(MOST_JITTER_NS)}")
        named = self._read("distribution", _distribution) or Distribution.UNIFORM
        return model.Delay(delay, jitter, named)

    def limit(self) -> Fault:
        bits = self._read("rate", parse_bit_rate) or 0
        least = max(MIN_QUEUE_BYTES, int(bits * QUEUE_SECONDS / 8))
        queue = self._read("queue", _queue_bytes)
        return model.RateLimit(bits, min(least, 1 << 31) if queue is None else queue)

    def _event(self, name: str) -> Event | None:
        event: Event | None = self._read(name, _event if name == "on" else _ending)
        return event

    def _pairs(self, word: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
        """`a=1,b=2` with each value read; a mapping is taken as it is."""
        values: dict[str, Any] = {}
        for name, text in self._parts(word):
            if name in values:
                self._wrong(word, f"{name} is given twice", "leave one out")
            if not text and (fitting := _that_reads(name, readers)):
                self._wrong(word, f"{name!r} stands without a name", f"write {fitting}={name}")
                continue
            if name not in readers:
                near = difflib.get_close_matches(name, list(readers), n=1)
                self._wrong(word, f"{name!r} is not known", _did_you_mean(near, readers))
                continue
            try:
                values[name] = readers[name](text)
            except QuantityError as error:
                self._wrong(word, f"{name}: {error.text!r} {error.reason}", error.hint)
        return values

    def _parts(self, word: str) -> list[tuple[str, str]]:
        """The names and values of `a=1,b=2`; a mapping is taken as it is."""
        given = self._words[word]
        parts = given.items() if isinstance(given, Mapping) else (part.partition("=")[::2] for part in given.split(","))
        return [(str(name).strip(), str(text)) for name, text in parts]

    def _read(self, name: str, reader: Callable[[str], Any]) -> Any:
        """What stands behind a word, None without it or when it cannot be read."""
        if name not in self._words:
            return None
        try:
            return reader(str(self._words[name]))
        except QuantityError as error:
            self._wrong(name, f"{error.text!r} {error.reason}", error.hint)
            return None

    def _unknown(self, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        self._wrong(name, "unknown word", _did_you_mean(near, known))

    def _wrong(self, word: str, wrong: str, right: str) -> None:
        if (word, wrong, right) not in self.problems:
            self.problems.append((word, wrong, right))


_MAKE: dict[str, Callable[[_Reader], Fault]] = {
    "drop": lambda read: model.RandomDrop(read.rate("drop"), read.only()),
    "gemodel": _Reader.burst,
    "one-in": lambda read: model.CountedDrop(read.number("one-in", 0, 1 << 31), read.only()),
    "black-hole": lambda read: model.BlackHole(read.host("black-hole")),
    "hang": lambda _: model.Hang(),
    "corrupt": lambda read: model.Corrupt(read.rate("corrupt"), read.only()),
    "duplicate": lambda read: model.Duplicate(read.rate("duplicate"), read.only()),
    "reorder": lambda read: model.Reorder(read.rate("reorder"), read.waiting("ahead")),
    "delay": _Reader.delay,
    "rate": _Reader.limit,
    "down": lambda _: model.Down(),
    "flap": _Reader.flap,
    "reboot": lambda read: model.Reboot(read.lasting("reboot")),
    "crash": lambda _: model.Crash(),
}


def _that_reads(text: str, readers: Mapping[str, Callable[[str], Any]]) -> str | None:
    """The first name whose value `text` can be."""
    for name, reader in readers.items():
        with suppress(QuantityError):
            reader(text)
            return name
    return None


def _host(text: str) -> int:
    if text[:1] != "h" or not text[1:].isdecimal():
        raise QuantityError(text, "is not a host", "write it as h3")
    return parse_number(text[1:], 0, 0xFFFF)


def _ev(text: str) -> tuple[int, int]:
    value, _, mask = text.partition("/")
    return parse_number(value, 0, EVERY_BIT), parse_number(mask, 1, EVERY_BIT) if mask else EVERY_BIT


def _dscp(text: str) -> int:
    names = {each.name: int(each) for each in Dscp}
    if text.upper() in names:
        return names[text.upper()]
    if text[:1].isdecimal():
        return parse_number(text, 0, 63)
    near = difflib.get_close_matches(text.upper(), names, n=1)
    raise QuantityError(text, "is not a class", _did_you_mean(near, names))


def _queue_bytes(text: str) -> int:
    size = parse_bytes(text)
    if not MIN_QUEUE_BYTES <= size <= 1 << 31:
        raise QuantityError(text, "is out of range", f"{MIN_QUEUE_BYTES} to {1 << 31} bytes are possible")
    return size


def _distribution(text: str) -> Distribution:
    return Distribution(_one_of(text, [each.value for each in Distribution], "is not a distribution"))


def _event(text: str) -> Event:
    return Event(_one_of(text, [each.value for each in Event], "is not an event"))


def _ending(text: str) -> Event:
    return Event(_one_of(text, [Event.DETECTED.value], "does not end a fault"))


def _one_of(text: str, words: list[str], reason: str) -> str:
    if text in words:
        return text
    raise QuantityError(text, reason, _did_you_mean(difflib.get_close_matches(text, words, n=1), words))


def _did_you_mean(near: list[str], known: Any) -> str:
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


def _listed(words: tuple[Word, ...]) -> str:
    return ", ".join(word.name for word in words)
