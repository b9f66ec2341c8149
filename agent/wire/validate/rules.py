"""Rules for frames to one of our hosts, as tables: kinds of opcodes, constant fields, reasons to refuse.

Layout: dtypes.py; rules: MRC 7.5.
"""

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.constants import EndpointOp, NackReason, NakCode, Opcode
from agent.wire.dtypes import (
    ACK_FRAME,
    BASE_FRAME,
    ENDPOINT_REQUEST_FRAME,
    ENDPOINT_RESPONSE_FRAME,
    ETHERNET,
    INNER_OFFSET,
    NACK_FRAME,
    PAYLOAD_OFFSET,
    PROBE_FRAME,
    SACK_FRAME,
    UDP_OFFSET,
    Bits,
    Record,
    bits_of,
    word_of,
)


class RejectReason(IntEnum):
    """Reason why a row was not delivered."""

    ACCEPTED = 0
    TRUNCATED = 1
    """The frame has fewer bytes than its headers state."""
    NOT_IPV6 = 2
    ROUTING_HEADER = 3
    """The frame has an SRH: legal in MRC, not used on our fabric and not read."""
    NOT_MRC = 4
    """The frame is IPv6, but not IPv6-in-IPv6 with UDP to an MRC port."""
    ANNOUNCEMENT = 5
    """A flow announcement, meant for the leaves; the host ignores it."""
    BAD_ADDRESS = 6
    """The inner destination is not this host."""
    BAD_BTH = 7
    """Wrong transport version or P_Key (our choice)."""
    UNKNOWN_OPCODE = 8
    BAD_LENGTH = 9
    """The lengths of the headers contradict each other, or the opcode."""
    BAD_FIELD = 10
    """A field holds a value that the specification reserves."""
    BAD_ICRC = 11


class Kind(IntEnum):
    """Kind of an opcode's rows. Compare arrays with `.value`: numpy takes five times as long over a member.

    Kinds from WRITE on have a payload; those below SACK are rare.
    """

    UNKNOWN = 0
    ACK = 1
    NACK = 2
    PROBE = 3
    ENDPOINT_REQUEST = 4
    ENDPOINT_RESPONSE = 5
    SACK = 6
    WRITE = 7
    WRITE_IMM = 8


class ControlFrame(NamedTuple):
    """A packet without payload: its opcode, its kind, its complete layout."""

    opcode: Opcode
    kind: Kind
    layout: Record


CONTROL_FRAMES = (
    ControlFrame(Opcode.ACKNOWLEDGE, Kind.ACK, ACK_FRAME),
    ControlFrame(Opcode.NACK, Kind.NACK, NACK_FRAME),
    ControlFrame(Opcode.PROBE_REQUEST, Kind.PROBE, PROBE_FRAME),
    ControlFrame(Opcode.ENDPOINT_REQUEST, Kind.ENDPOINT_REQUEST, ENDPOINT_REQUEST_FRAME),
    ControlFrame(Opcode.ENDPOINT_RESPONSE, Kind.ENDPOINT_RESPONSE, ENDPOINT_RESPONSE_FRAME),
    ControlFrame(Opcode.SACK, Kind.SACK, SACK_FRAME),
)


def _kind_table() -> NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[list(c.WRITE_OPCODES)] = Kind.WRITE
    table[list(c.IMMEDIATE_OPCODES)] = Kind.WRITE_IMM
    for frame in CONTROL_FRAMES:
        table[frame.opcode] = frame.kind
    return table


def _payload_table() -> NDArray[np.int32]:
    table = np.full(256, PAYLOAD_OFFSET, np.int32)
    table[list(c.IMMEDIATE_OPCODES)] += c.IMMDT_BYTES
    for frame in CONTROL_FRAMES:
        table[frame.opcode] = frame.layout.itemsize - c.ICRC_BYTES
    return table


KIND_OF_OPCODE = _kind_table()
"""Kind by opcode, (256,) uint8."""
PAYLOAD_OF_OPCODE = _payload_table()
"""Start of the payload in the frame by opcode, TSETH counted, (256,) int32; a control packet's payload is empty."""


class FieldRule(NamedTuple):
    """A field of one kind of packet that must hold one of some values; otherwise the reason is BAD_FIELD."""

    kind: Kind
    bits: Bits
    allowed: tuple[int, ...]


FIELD_RULES = (
    FieldRule(Kind.ACK, bits_of(ACK_FRAME, "aeth", "syndrome"), (c.AETH_ACK, *(c.AETH_NAK + code for code in NakCode))),
    FieldRule(Kind.NACK, bits_of(NACK_FRAME, "neth", "nack_reason"), tuple(NackReason)),
    FieldRule(Kind.NACK, bits_of(NACK_FRAME, "neth", "res0", low=7, width=9), (0,)),
    FieldRule(Kind.NACK, bits_of(NACK_FRAME, "neth", "cc", low=4, width=4), (c.NETH_CC_TYPE,)),
    FieldRule(Kind.PROBE, bits_of(PROBE_FRAME, "peth", "res0", low=7, width=9), (0,)),
    FieldRule(Kind.ENDPOINT_REQUEST, bits_of(BASE_FRAME, "bth", "dqp_word", width=24), (c.ENDPOINT_QPN,)),
    FieldRule(Kind.ENDPOINT_REQUEST, bits_of(ENDPOINT_REQUEST_FRAME, "erth", "op_word", width=2), tuple(EndpointOp)),
    FieldRule(Kind.ENDPOINT_RESPONSE, bits_of(BASE_FRAME, "bth", "dqp_word", width=24), (c.ENDPOINT_QPN,)),
    FieldRule(
        Kind.ENDPOINT_RESPONSE, bits_of(ENDPOINT_RESPONSE_FRAME, "eeth", "op_word", low=2, width=2), tuple(EndpointOp)
    ),
)
"""Rules of the rare packets; frames.py checks SACKs. `res0` starts with type(4) nxt(5), as in a SACK."""


class Rule(NamedTuple):
    """A header word that must hold a value under a mask; `end` is the end of the field in the frame."""

    end: int
    word: int
    mask: int
    value: int
    reason: RejectReason


class Rules(NamedTuple):
    """Rules in order of checking, and their numbers as columns."""

    rules: tuple[Rule, ...]
    words: NDArray[np.intp]
    masks: NDArray[np.uint32]
    values: NDArray[np.uint32]


_OUTER_NEXT = word_of(BASE_FRAME, "outer", "nh")
_INNER_NEXT = word_of(BASE_FRAME, "inner", "nh")
_VERSION = 0xF0000000
_NEXT_HEADER = 0x0000FF00

_TUNNEL_RULES = (
    Rule(ETHERNET.itemsize, word_of(BASE_FRAME, "eth", "type"), 0xFFFF, c.ETHERTYPE_IPV6, RejectReason.NOT_IPV6),
    Rule(INNER_OFFSET, word_of(BASE_FRAME, "outer"), _VERSION, 6 << 28, RejectReason.NOT_IPV6),
    Rule(INNER_OFFSET, _OUTER_NEXT, _NEXT_HEADER, c.NEXT_HEADER_IPV6 << 8, RejectReason.NOT_MRC),
    Rule(UDP_OFFSET, word_of(BASE_FRAME, "inner"), _VERSION, 6 << 28, RejectReason.NOT_MRC),
    Rule(UDP_OFFSET, _INNER_NEXT, _NEXT_HEADER, c.NEXT_HEADER_UDP << 8, RejectReason.NOT_MRC),
)


@lru_cache(maxsize=256)
def rules_for(own_address: bytes) -> Rules:
    """Return rules for fields that are the same in every frame to the host of this 16-byte inner address."""
    first = word_of(BASE_FRAME, "inner", "dst")
    words = np.frombuffer(own_address, ">u4").tolist()
    own = [Rule(UDP_OFFSET, first + i, 0xFFFFFFFF, word, RejectReason.BAD_ADDRESS) for i, word in enumerate(words)]
    rules = (*_TUNNEL_RULES, *own)
    masks = np.array([[rule.mask] for rule in rules], np.uint32)
    values = np.array([[rule.value] for rule in rules], np.uint32)
    return Rules(rules, np.array([rule.word for rule in rules]), masks, values)
