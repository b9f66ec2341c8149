"""Defines kinds that change a packet without dropping it: flipped bits, copies."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from faults.grammar import Reader, Takes, Word
from faults.kinds.base import By, Fault, Hit, Kind
from faults.quantities import render_rate
from faults.selector import ALL, Only, selection


@Kind(
    Word(
        "corrupt",
        "RATE",
        "Flip one bit in a share of packets.",
        "Flip one bit in this share of packets.",
        Takes.SHARE,
    ),
    # eBPF first: netem turns bits of the headers that happen to lie in linear memory, so that most of its corrupt
    # packets are simply lost on the way.
    makers=(By.EBPF, By.NETEM),
    hits=Hit.SPOILT,
    example={"corrupt": "1%"},
)
@dataclass(frozen=True, slots=True)
class Corrupt(Fault):
    """Flips one random bit of a packet with probability `rate`."""

    rate: Fraction
    only: Only = ALL

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.rate("corrupt"), selection(words))

    @property
    def is_nothing(self) -> bool:
        return not self.rate

    @property
    def drop_rate(self) -> None:
        return None

    @property
    def text(self) -> str:
        return render_rate(self.rate)

    @classmethod
    def why_uncounted(cls, mechanism: str) -> str | None:
        return "netem does not count what it corrupts" if mechanism == By.NETEM else None


@Kind(
    Word("duplicate", "RATE", "Send a share of packets twice.", "Send this share of packets twice.", Takes.SHARE),
    makers=(By.NETEM, By.EBPF),
    hits=Hit.ARRIVES,
    example={"duplicate": "1%"},
)
@dataclass(frozen=True, slots=True)
class Duplicate(Fault):
    """Sends a packet twice with probability `rate`."""

    rate: Fraction
    only: Only = ALL

    @classmethod
    def read(cls, words: Reader) -> Self:
        return cls(words.rate("duplicate"), selection(words))

    @property
    def is_nothing(self) -> bool:
        return not self.rate

    @property
    def drop_rate(self) -> None:
        return None

    @property
    def text(self) -> str:
        return render_rate(self.rate)

    @classmethod
    def why_uncounted(cls, mechanism: str) -> None:
        del mechanism
