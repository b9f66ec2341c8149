"""Defines what every kind of fault must declare: it is a frozen dataclass with these answers, and is registered.

A kind that leaves one out raises a TypeError at its declaration, which names it, and is a type error.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Self, TypeVar

from faults.grammar import Reader, Word
from faults.quantities import rate_of_threshold
from faults.selector import ALL, Only
from faults.timing import Act, Edge

TOLERANCE = rate_of_threshold(2)
"""Allowed difference between a rate in force and the requested one: one step of netem's 32 bits and the rounding."""


class By(StrEnum):
    """A mechanism that makes a fault; the value is what users write."""

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
    """Places that a kind of fault can be set on."""

    PORTS = "ports"
    """Any direction of any link: its sending port."""
    SWITCH = "switch"
    """Whole leaves and spines: all their ports."""


class Hit(StrEnum):
    """Effect of a kind of fault on a packet, as the transport sees it."""

    LOST = "lost"
    """It is dropped, and counted as dropped."""
    SPOILT = "spoilt"
    """It arrives and is discarded, so it is sent again like a lost one."""
    ARRIVES = "arrives"
    """It arrives and counts."""


class Fault(ABC):
    """One fault, as a value. Each kind is a frozen dataclass below this, registered by `Kind`."""

    __slots__ = ()

    says: ClassVar["Kind"]
    kind: ClassVar[str]
    """The kind's name in records."""
    word: ClassVar[str]
    """The word that sets it."""

    @property
    def only(self) -> Only:
        """The packets that it affects; a kind whose packets a user may select has a field of this name."""
        return ALL

    @classmethod
    @abstractmethod
    def read(cls, words: Reader) -> Self:
        """Return the fault that the words describe. Problems are added to `words`; the result is then not used."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Return its amount, such as `1%`; empty where its word is enough."""

    @property
    @abstractmethod
    def is_nothing(self) -> bool:
        """Return whether it is set to zero, which only requests the removal of the fault of its name."""

    @property
    @abstractmethod
    def drop_rate(self) -> Fraction | None:
        """Return its drop rate among the packets it affects; None for a kind that drops none on purpose."""

    @classmethod
    @abstractmethod
    def why_uncounted(cls, mechanism: str) -> str | None:
        """State why retransmissions cannot be compared with its counters under this mechanism; None if they can."""

    def edges(self, start_ns: int, length_ns: int | None, seed: int) -> Iterator[Edge]:
        """Return the acts within one time in force, SET and CLEAR in turns; `length_ns` None: without end.

        A kind that comes and goes by itself overrides this.
        """
        del seed
        yield Edge(start_ns, Act.SET)
        if length_ns is not None:
            yield Edge(start_ns + length_ns, Act.CLEAR)

    @classmethod
    def comes_and_goes(cls) -> bool:
        """Return whether it needs a timeline even if it is ordered without times."""
        return cls.edges is not Fault.edges

    @classmethod
    def selects(cls) -> bool:
        """Return whether a user may select the packets that it affects."""
        return any(each.name == "only" for each in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def shuts_ports(cls) -> bool:
        """Return whether nothing passes in either direction, and the node's own sends are refused."""
        return By.LINK in cls.says.makers

    @property
    def makers(self) -> tuple[By, ...]:
        """Return mechanisms that can make this fault, the preferred first: eBPF makes whatever selects packets."""
        made_by = self.says.makers
        return made_by if self.only == ALL else tuple(by for by in made_by if by is By.EBPF)

    @property
    def name(self) -> str:
        """Return what identifies a fault among those of one port: its word and its selection. The same name
        replaces.
        """
        return f"{self.word}{self.only}"

    @property
    def amount(self) -> str:
        """Return its settings without its word: `1% of dscp 8`, `10ms +- 2ms normal`."""
        return str(self).removeprefix(self.word).strip()

    def __str__(self) -> str:
        """Return `drop 1%`, `drop 1% of dscp 8`."""
        return f"{self.word} {self.text}".rstrip() + (str(self.only) if self.selects() else "")

    def agrees(self, found: "Fault | None") -> bool:
        """Return whether the kernel holds what was requested, rates up to TOLERANCE."""
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
    """Declares a kind's words and mechanisms; it decorates the kind's class and registers it."""

    word: Word
    """The word that sets it on the command line and in scenarios."""
    _: KW_ONLY
    on: On = On.PORTS
    makers: tuple[By, ...]
    """Mechanisms that can make it, the preferred first."""
    hits: Hit
    example: Mapping[str, str | bool]
    """Words that specify it further."""
    details: tuple[Word, ...] = ()
    """Words that are valid only with this kind."""
    name: str = ""
    """The kind's name in records, for the three oldest kinds; otherwise its word."""

    def __call__(self, cls: type[F]) -> type[F]:
        """Register a class. Raises TypeError with everything that it does not declare."""
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
    """Return all kinds, in the order in which faults of one order compose."""
    return tuple(_KINDS.values())


def kind_named(name: str) -> type[Fault]:
    """Return the kind with this name in records. Raises KeyError."""
    return _KINDS[name]
