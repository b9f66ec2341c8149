"""Defines the words that select packets, and the selection that they make."""

import difflib

from agent.wire.constants import Dscp
from faults.errors import QuantityError
from faults.quantities import parse_number, parse_sizes
from faults.selector import EVERY_BIT, Only
from faults.words.reader import Reader, did_you_mean, parse_host
from faults.words.word import Takes, Word

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
