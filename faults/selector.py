"""Defines which packets a fault affects, as a value, and the words that select them.

It does not know what the fault does to the packets.
"""

import difflib
import re
from dataclasses import dataclass

from agent.wire.constants import Dscp
from faults.errors import QuantityError
from faults.grammar import Reader, Takes, Word, did_you_mean, parse_host
from faults.quantities import LARGEST_BYTES, parse_number, parse_sizes

_NEVER_FIRST = (Dscp.TRIMMABLE_RETX, Dscp.CONTROL)
"""Classes without first transmissions (docs/wire-format.md)."""

_TOLD_DSCP = re.compile(r"\bdscp (\d+)")

EVERY_BIT = 0xFFFFFFFF
"""All bits of an entropy value."""


@dataclass(frozen=True, slots=True)
class Only:
    """The packets that a fault affects; all given conditions must hold. Without any, every packet."""

    size_bytes: tuple[int, int] | None = None
    """Least and most length of a frame, Ethernet header included."""
    qpn: int | None = None
    """Destination queue pair of the BTH."""
    ev: tuple[int, int] | None = None
    """Entropy value and mask of the compared bits, as the packet carries it."""
    dscp: int | None = None
    """Traffic class of the outer header, 0..63."""
    control: bool = False
    """SACK, NACK and transport ACK."""
    host: int | None = None
    """Inner destination host."""
    last: int | None = None
    """Selects writes among this many last packets of their message."""
    first_sent: bool = False
    """Writes that are not retransmissions."""
    forwarded: bool = False
    """Selects IPv6 in IPv6: packets that cross the fabric, not the switch's own."""

    @property
    def spares_first_sent(self) -> bool:
        """Return whether it affects no first transmission of a write."""
        return self.control or self.dscp in _NEVER_FIRST

    def __str__(self) -> str:
        """Return ` of qp 0x4001, control packets`; empty for every packet."""
        told = [text for text in (self._size(), self._names(), self._kinds()) if text]
        return f" of {', '.join(told)}" if told else ""

    def _size(self) -> str:
        if self.size_bytes is None:
            return ""
        low, high = self.size_bytes
        return f"{low}-{'' if high == LARGEST_BYTES else high} B"

    def _names(self) -> str:
        told = []
        if self.qpn is not None:
            told.append(f"qp {self.qpn:#x}")
        if self.ev is not None:
            told.append(f"ev {self.ev[0]:#x}" + ("" if self.ev[1] == EVERY_BIT else f"/{self.ev[1]:#x}"))
        if self.dscp is not None:
            told.append(f"dscp {self.dscp}")
        if self.host is not None:
            told.append(f"what goes to h{self.host}")
        return ", ".join(told)

    def _kinds(self) -> str:
        told = ["control packets"] if self.control else []
        if self.last is not None:
            told.append(f"last {self.last} of a message")
        if self.first_sent:
            told.append("first transmissions")
        return ", ".join(told)


ALL = Only()


def spares_first_sent(told: str) -> bool:
    """Return the same from the words of a fault, such as `drop 1% of dscp 8`."""
    found = _TOLD_DSCP.search(told)
    return "control packets" in told or (found is not None and int(found[1]) in _NEVER_FIRST)


ONLY_WORDS = (
    Word(
        "only-control", "", "Only SACKs, NACKs and transport ACKs.", "Only SACKs, NACKs and transport ACKs.", Takes.FLAG
    ),
    Word(
        "only-qp",
        "QPN",
        "Only packets to this queue pair.",
        "Only packets to this queue pair.",
        Takes.TEXT,
    ),
    Word(
        "only-ev",
        "EV[/MASK]",
        "Only packets that carry this entropy value.",
        "Only packets with this entropy value; `EV/MASK` compares some bits.",
        Takes.TEXT,
    ),
    Word(
        "only-dscp",
        "CLASS",
        "Only packets of this class: a number or a name such as CONTROL.",
        "Only packets of this class: a number or a name such as `CONTROL`.",
        Takes.TEXT,
    ),
    Word(
        "only-size",
        "BYTES",
        "Only frames of these lengths: 100-300, 1000-, -200.",
        "Only frames of these lengths: `100-300`.",
        Takes.TEXT,
    ),
    Word("only-to", "HOST", "Only packets to this host.", "Only packets to this host.", Takes.HOST),
    Word(
        "only-first",
        "",
        "Only writes that are not retransmissions.",
        "Only writes that are not retransmissions.",
        Takes.FLAG,
    ),
    Word(
        "only-last",
        "K",
        "Only the last K packets of a message.",
        "Only the last N packets of a message.",
        Takes.COUNT,
    ),
)
"""Declares which packets a kind affects, for kinds with a field `only`."""


def selection(words: Reader) -> Only:
    """Return the packets that the words select; without any, all."""
    return Only(
        size_bytes=words.read("only-size", parse_sizes),
        qpn=words.read("only-qp", lambda text: parse_number(text, 0, 0xFFFFFF)),
        ev=words.read("only-ev", _ev),
        dscp=words.read("only-dscp", _dscp),
        control="only-control" in words,
        host=words.read("only-to", parse_host),
        last=words.read("only-last", lambda text: parse_number(text, 1, 1 << 20)),
        first_sent="only-first" in words,
    )


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
    raise QuantityError(text, "is not a class", did_you_mean(near, names))
