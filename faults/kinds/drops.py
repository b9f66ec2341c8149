"""Defines kinds that drop and count packets: at random, in bursts, by number, all to one host, all of a switch."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from faults.grammar import Reader, Takes, Word
from faults.kinds.base import By, Fault, Hit, Kind, On
from faults.quantities import parse_rate, render_rate, threshold_of
from faults.selector import ALL, Only, selection


class _Drop(Fault):
    """A fault whose counters state exactly which packets must be sent again."""

    __slots__ = ()

    @property
    def is_nothing(self) -> bool:
        return self.drop_rate == 0

    @classmethod
    def why_uncounted(cls, mechanism: str) -> str | None:
        del mechanism
        return None


@Kind(
    Word(
        "drop",
        "RATE",
        "Drop a share of packets at random: 1%, 0.5%, 50bp; 0% removes it.",
        "Drop this share of packets at random.",
        Takes.SHARE,
    ),
    makers=(By.NETEM, By.EBPF),
    hits=Hit.LOST,
    example={"drop": "1%"},
    name="random-drop",
)
@dataclass(frozen=True, slots=True)
class RandomDrop(_Drop):
    """Drops every packet with probability `rate`, independently; 0 <= rate <= 1."""

    rate: Fraction
    only: Only = ALL

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.rate("drop"), selection(words))

    @property
    def threshold(self) -> int:
        """Return the threshold below which a uniform 32-bit number drops a packet; 0 to CERTAIN."""
        return threshold_of(self.rate)

    @property
    def drop_rate(self) -> Fraction:
        return self.rate

    @property
    def text(self) -> str:
        return render_rate(self.rate)


@Kind(
    Word(
        "gemodel",
        "P=RATE,R=RATE",
        "Drop in bursts (Gilbert-Elliott): p=1%,r=10%[,bad=100%][,good=0%].",
        "Drop in bursts (Gilbert-Elliott): `p=1%,r=10%`, also `bad=`, `good=`.",
        Takes.SETTINGS,
    ),
    makers=(By.NETEM, By.EBPF),
    hits=Hit.LOST,
    example={"gemodel": "p=1%,r=10%"},
    name="burst-drop",
)
@dataclass(frozen=True, slots=True)
class BurstDrop(_Drop):
    """Drops packets by the Gilbert-Elliott model: with probability `bad` or `good`, by the state; then the state
    changes with probability `p` (good to bad) or `r` (bad to good).
    """

    p: Fraction
    r: Fraction
    bad: Fraction = Fraction(1)
    good: Fraction = Fraction(0)
    only: Only = ALL

    @classmethod
    def read(cls, words: Reader) -> Self:
        values = words.pairs("gemodel", dict.fromkeys(("p", "r", "bad", "good"), parse_rate))
        for name in ("p", "r"):
            if name not in words.named("gemodel"):
                words.wrong("gemodel", f"{name} is missing", "write p=1%,r=10%")
        if values.get("p") and not values.get("r", 1):
            words.wrong("gemodel", "r=0% never leaves the bad state", "for a constant loss rate use drop")
        return cls(**{"p": Fraction(0), "r": Fraction(1), **values}, only=selection(words))

    @property
    def drop_rate(self) -> Fraction:
        """Return the long-run drop rate."""
        in_bad = self.p / (self.p + self.r) if self.p else Fraction(0)
        return in_bad * self.bad + (1 - in_bad) * self.good

    @property
    def text(self) -> str:
        return ",".join(f"{name}={render_rate(getattr(self, name))}" for name in ("p", "r", "bad", "good"))


@Kind(
    Word(
        "one-in",
        "N",
        "Drop every Nth packet; 0 removes it.",
        "Drop every Nth packet.",
        Takes.COUNT,
    ),
    makers=(By.EBPF,),
    hits=Hit.LOST,
    example={"one-in": "100"},
    name="counted-drop",
)
@dataclass(frozen=True, slots=True)
class CountedDrop(_Drop):
    """Drops the last of every `every` packets, without randomness."""

    every: int
    only: Only = ALL

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.number("one-in", 0, 1 << 31), selection(words))

    @property
    def drop_rate(self) -> Fraction:
        return Fraction(1, self.every) if self.every else Fraction(0)

    @property
    def text(self) -> str:
        return str(self.every)


class _DropAll(_Drop):
    """A fault that lets no packet pass among those it affects."""

    __slots__ = ()

    @property
    def drop_rate(self) -> Fraction:
        return Fraction(1)


@Kind(
    Word("black-hole", "HOST", "Drop everything to one host.", "Drop everything to this host.", Takes.HOST),
    makers=(By.EBPF,),
    hits=Hit.LOST,
    example={"black-hole": "h3"},
)
@dataclass(frozen=True, slots=True)
class BlackHole(_DropAll):
    """Drops everything to one host."""

    host: int

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.host("black-hole"))

    @property
    def only(self) -> Only:
        """Return the packets that it drops."""
        return Only(host=self.host)

    @property
    def name(self) -> str:
        return str(self)

    @property
    def text(self) -> str:
        return f"to h{self.host}"


@Kind(
    Word(
        "hang",
        "",
        "Let the switch stay up and forward nothing.",
        "The switch stays up and forwards nothing.",
        Takes.FLAG,
    ),
    on=On.SWITCH,
    makers=(By.EBPF,),
    hits=Hit.LOST,
    example={"hang": True},
)
@dataclass(frozen=True, slots=True)
class Hang(_DropAll):
    """Hangs a switch: links and the switch itself stay up, nothing is forwarded."""

    @classmethod
    def read(cls, words: Reader) -> Self:
        del words
        return cls()

    @property
    def only(self) -> Only:
        """Return the packets that it drops."""
        return Only(forwarded=True)

    @property
    def text(self) -> str:
        return ""
