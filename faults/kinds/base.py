"""What every kind of fault has to say of itself: a frozen dataclass that answers these questions, and is registered.

A kind that leaves a question open is a TypeError where it is declared, which names the question, and a type error.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Self, TypeVar

from faults.quantities import rate_of_threshold
from faults.selector import ALL, Only
from faults.timeline.timing import Act, Edge
from faults.words.reader import Reader
from faults.words.word import Word

TOLERANCE = rate_of_threshold(2)
"""How far a rate in force may be from the asked one: one step of netem's 32 bits and the rounding."""


class By(StrEnum):
    """What makes a fault; the value is what users write."""

    NETEM = "netem"
    EBPF = "ebpf"
    TBF = "tbf"
    LINK = "link"


NEEDS: dict[By, str] = {
    By.NETEM: "CONFIG_NET_SCH_NETEM (module sch_netem)",
    By.EBPF: "CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS; clang, libbpf and its headers",
    By.TBF: "CONFIG_NET_SCH_TBF (module sch_tbf)",
    By.LINK: "nothing beyond veth",
}
"""Kernel options and programs that a mechanism needs."""


class On(StrEnum):
    """What a kind can be put on."""

    PORTS = "ports"
    """Any direction of any link: its sending port."""
    SWITCH = "switch"
    """Whole leaves and spines: all their ports."""


class Hit(StrEnum):
    """What becomes of a packet that a kind hits, as its transport sees it."""

    LOST = "lost"
    """It is dropped, and counted as dropped."""
    SPOILT = "spoilt"
    """It arrives and is thrown away, so it is sent again like a lost one."""
    ARRIVES = "arrives"
    """It arrives and counts."""


class Fault(ABC):
    """One fault: what can be wrong, as a value. Each kind is a frozen dataclass below this, registered by `Kind`."""

    __slots__ = ()

    says: ClassVar["Kind"]
    kind: ClassVar[str]
    """Its name in records."""
    word: ClassVar[str]
    """That sets it."""

    @property
    def only(self) -> Only:
        """The packets that it looks at; a kind whose packets a user may select has a field of this name."""
        return ALL

    @classmethod
    @abstractmethod
    def read(cls, words: Reader) -> Self:
        """The fault that the words describe. What cannot be meant is told to `words`; the result is then not used."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What it is set to, as `1%`; empty where its word says it all."""

    @property
    @abstractmethod
    def is_nothing(self) -> bool:
        """Whether it is set to zero, and so only asks for the removal of what is there under its name."""

    @property
    @abstractmethod
    def drop_rate(self) -> Fraction | None:
        """The share of the packets it looks at that it drops; None for a kind that drops none on purpose."""

    @classmethod
    @abstractmethod
    def why_uncounted(cls, mechanism: str) -> str | None:
        """Why retransmissions cannot be held against its counters, when this mechanism makes it; None if they can."""

    def edges(self, start_ns: int, length_ns: int | None, seed: int) -> Iterator[Edge]:
        """What is due within one time in force, SET and CLEAR in turns; `length_ns` None: without end.

        A kind that comes and goes by itself overrides this.
        """
        del seed
        yield Edge(start_ns, Act.SET)
        if length_ns is not None:
            yield Edge(start_ns + length_ns, Act.CLEAR)

    @classmethod
    def comes_and_goes(cls) -> bool:
        """Whether it needs a timeline even if it is ordered without times."""
        return cls.edges is not Fault.edges

    @classmethod
    def selects(cls) -> bool:
        """Whether a user may select the packets that it looks at."""
        return any(each.name == "only" for each in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def shuts_ports(cls) -> bool:
        """Whether nothing passes in either direction, and the node's own sends are refused."""
        return By.LINK in cls.says.makers

    @property
    def makers(self) -> tuple[By, ...]:
        """Mechanisms that can make this fault, the preferred first: whatever selects packets is made by eBPF."""
        made_by = self.says.makers
        return made_by if self.only == ALL else tuple(by for by in made_by if by is By.EBPF)

    @property
    def name(self) -> str:
        """What identifies a fault among those of one port: its word and its selection. The same name replaces."""
        return f"{self.word}{self.only}"

    @property
    def amount(self) -> str:
        """All that it says without its word: `1% of dscp 8`, `10ms +- 2ms normal`."""
        return str(self).removeprefix(self.word).strip()

    def __str__(self) -> str:
        """As `drop 1%`, `drop 1% of dscp 8`."""
        return f"{self.word} {self.text}".rstrip() + (str(self.only) if self.selects() else "")

    def agrees(self, found: "Fault | None") -> bool:
        """Whether what the kernel holds is what was asked for here, rates up to TOLERANCE."""
        if type(self) is not type(found):
            return False
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return all(_close(getattr(self, name), getattr(found, name)) for name in names)


def _close(asked: object, found: object) -> bool:
    if isinstance(asked, Fraction) and isinstance(found, Fraction):
        return abs(asked - found) <= TOLERANCE
    return asked == found


F = TypeVar("F", bound=Fault)
_KINDS: dict[str, type[Fault]] = {}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind says of itself beside its methods; decorates its class, which it registers."""

    word: Word
    """That sets it on the command line and in scenarios."""
    _: KW_ONLY
    on: On = On.PORTS
    makers: tuple[By, ...]
    """Mechanisms that can make it, the preferred first."""
    hits: Hit
    example: Mapping[str, str | bool]
    """Words that make one of it."""
    details: tuple[Word, ...] = ()
    """Words that mean something with this kind only."""
    name: str = ""
    """Of the kind in records, for the three oldest kinds; otherwise its word."""

    def __call__(self, cls: type[F]) -> type[F]:
        """Register a class. Raises TypeError with every question that it leaves open."""
        name, missing = self.name or self.word.name, sorted(getattr(cls, "__abstractmethods__", ()))
        taken = [each for each in _KINDS.values() if self.word.name == each.word or name == each.kind]
        if missing:
            raise TypeError(f"kind of fault {cls.__name__} does not say: {', '.join(missing)}")
        if taken:
            raise TypeError(f"kind of fault {cls.__name__}: {taken[0].__name__} has its word or name already")
        cls.says, cls.kind, cls.word = self, name, self.word.name
        _KINDS[name] = cls
        return cls


def kinds() -> tuple[type[Fault], ...]:
    """Every kind there is, in the order in which faults of one order compose."""
    return tuple(_KINDS.values())


def kind_named(name: str) -> type[Fault]:
    """The kind that records call so. Raises KeyError."""
    return _KINDS[name]
