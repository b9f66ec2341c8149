"""Defines kinds that shut ports: permanently, repeatedly, and of a whole switch."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from faults.grammar import Reader, Takes, Word
from faults.kinds.base import By, Fault, Hit, Kind, On
from faults.quantities import (
    SHORTEST_NS,
    parse_duration,
    parse_lasting,
    parse_number,
    parse_rate,
    render_duration,
    render_rate,
)
from faults.timing import Act, Edge


class _Shut(Fault):
    """A fault during which nothing passes; it has no setting of zero."""

    __slots__ = ()

    @property
    def is_nothing(self) -> bool:
        return False

    @property
    def drop_rate(self) -> Fraction:
        return Fraction(1)

    @classmethod
    def why_uncounted(cls, mechanism: str) -> str:
        del mechanism
        return "a shut port also loses uncounted packets: the other end sends into a link without carrier"


@Kind(
    Word("down", "", "Shut the port, or both ports of a link without direction.", "Shut the port.", Takes.FLAG),
    makers=(By.LINK,),
    hits=Hit.LOST,
    example={"down": True},
)
@dataclass(frozen=True, slots=True)
class Down(_Shut):
    """Shuts the port: `leaf3>spine5` shuts leaf3's end, `leaf3-spine5` both. The other end loses its carrier."""

    @classmethod
    def read(cls, words: Reader) -> Self:
        del words
        return cls()

    @property
    def text(self) -> str:
        return ""


@Kind(
    Word(
        "flap",
        "PERIOD=TIME",
        "Shut and open: period=2s[,duty=50%][,count=N][,jitter=100ms].",
        "Shut and open the port: `period=2s`, also `duty=`, `count=`, `jitter=`.",
        Takes.SETTINGS,
    ),
    makers=(By.LINK,),
    hits=Hit.LOST,
    example={"flap": "period=2s"},
)
@dataclass(frozen=True, slots=True)
class Flap(_Shut):
    """Shuts and opens the port `count` times (0: without end): it is down for `duty` of a `period_ns`, each edge
    moved at random by up to `jitter_ns`.
    """

    period_ns: int
    duty: Fraction = Fraction(1, 2)
    count: int = 0
    jitter_ns: int = 0

    @classmethod
    def read(cls, words: Reader) -> Self:
        readers = {
            "period": parse_lasting,
            "duty": parse_rate,
            "count": lambda text: parse_number(text, 1, 10**6),
            "jitter": parse_duration,
        }
        values = words.pairs("flap", readers)
        flap = cls(
            values.get("period", 0),
            values.get("duty", Fraction(1, 2)),
            values.get("count", 0),
            values.get("jitter", 0),
        )
        flap._complain(words)
        return flap

    def _complain(self, words: Reader) -> None:
        phase_ns = self.period_ns * min(self.duty, 1 - self.duty)
        if not self.period_ns:
            if not words.is_wrong("flap"):
                words.wrong("flap", "period is missing", "write period=2s")
        elif not 0 < self.duty < 1:
            words.wrong("flap", "a duty of 0% or 100% does not flap", "write a part of the period, as duty=50%")
        elif phase_ns < SHORTEST_NS:
            words.wrong("flap", "is down or up for too short a time", f"at least {render_duration(SHORTEST_NS)} each")
        elif self.jitter_ns * 2 >= phase_ns:
            words.wrong("flap", "the jitter is too large to keep edges in order", "below half of the shorter phase")

    @property
    def text(self) -> str:
        period, jitter = render_duration(self.period_ns), render_duration(self.jitter_ns)
        return f"period={period},duty={render_rate(self.duty)},count={self.count},jitter={jitter}"

    def edges(self, start_ns: int, length_ns: int | None, seed: int) -> Iterator[Edge]:
        """Return the acts, down first. An interval that the window's end cuts off is cleared there."""
        import numpy as np  # only flaps need it, and it is most of what importing this module would take

        rng = np.random.default_rng(seed)
        down_ns = int(self.period_ns * Fraction(self.duty))
        turn = 0
        while not self.count or turn < self.count:
            moved = rng.integers(-self.jitter_ns, self.jitter_ns, size=2, endpoint=True)
            begin = max(start_ns, start_ns + turn * self.period_ns + int(moved[0]))
            end = start_ns + turn * self.period_ns + down_ns + int(moved[1])
            if length_ns is not None and begin >= start_ns + length_ns:
                return
            yield Edge(begin, Act.SET)
            yield Edge(end if length_ns is None else min(end, start_ns + length_ns), Act.CLEAR)
            turn += 1


@Kind(
    Word(
        "reboot",
        "TIME",
        "Switch off the switch for this long; it returns with its static table.",
        "Switch off the switch for this long.",
        Takes.TIME,
    ),
    on=On.SWITCH,
    makers=(By.LINK,),
    hits=Hit.LOST,
    example={"reboot": "2s"},
)
@dataclass(frozen=True, slots=True)
class Reboot(_Shut):
    """Shuts all ports of a switch for `down_ns`, then opens them with its static table."""

    down_ns: int

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.lasting("reboot"))

    @property
    def text(self) -> str:
        return f"down for {render_duration(self.down_ns)}"

    def edges(self, start_ns: int, length_ns: int | None, seed: int) -> Iterator[Edge]:
        """Return the acts; the switch comes back by itself."""
        return super(Reboot, self).edges(start_ns, min(self.down_ns, length_ns or self.down_ns), seed)


@Kind(
    Word(
        "crash",
        "",
        "Shut all ports of the switch until the fault is cleared.",
        "Shut all ports of the switch.",
        Takes.FLAG,
    ),
    on=On.SWITCH,
    makers=(By.LINK,),
    hits=Hit.LOST,
    example={"crash": True},
)
@dataclass(frozen=True, slots=True)
class Crash(_Shut):
    """Shuts all ports of a switch until the fault is cleared."""

    @classmethod
    def read(cls, words: Reader) -> Self:
        del words
        return cls()

    @property
    def text(self) -> str:
        return ""
