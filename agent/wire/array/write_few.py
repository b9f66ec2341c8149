"""Encoding of few frames, number by number: the fixed cost of columns is too high for a frame or two.

A frame's headers are one large number, and a field is added at its place (fields.py). The bytes are those of encode.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array import fields
from agent.wire.array.columns import Columns, SackBatch, WriteBatch
from agent.wire.array.control_columns import ControlBatch
from agent.wire.array.icrc import raw_crc
from agent.wire.array.prefixes import Prefixes, sack_prefixes, write_prefixes
from agent.wire.array.template import FlowTemplate
from agent.wire.dtypes import INNER_OFFSET, PAYLOAD_OFFSET, SACK_FRAME, SACK_MASK_FRAME, Bits

_INT16 = 0xFFFF
_IMM = c.IMMDT_BYTES


class Stamp(NamedTuple):
    """Places of columns in a frame's number; a column may have two."""

    names: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, bits: Mapping[str, Bits], end: int) -> "Stamp":
        """Make the stamp of frames whose number ends at byte `end`."""
        twice = {name: fields.SENT_TWICE[name] for name in bits if name in fields.SENT_TWICE}
        pairs = [(name, place.above(end)) for part in (bits, twice) for name, place in part.items()]
        return cls(tuple(name for name, _ in pairs), tuple(place for _, place in pairs))

    def numbers(self, batch: Columns, bases: Sequence[int]) -> Iterator[int]:
        """Return the number of each row: its base and all fields."""
        columns = [_values(batch, name) for name in self.names]
        for base, *values in zip(bases, *columns, strict=True):
            number = base
            for value, place in zip(values, self.places, strict=True):
                number |= value << place
            yield number


def _values(batch: Columns, name: str) -> list[int]:
    values: list[int] = getattr(batch, name).tolist()
    return [value & _INT16 for value in values] if name in fields.SIGNED else values


_WRITE = Stamp.of({name: bits for name, bits in fields.WRITE.items() if name != "tx_timestamp"}, PAYLOAD_OFFSET)
_TX_TIMESTAMP = fields.WRITE["tx_timestamp"].above(PAYLOAD_OFFSET)
_SACK = Stamp.of(fields.SACK, SACK_FRAME.itemsize - c.ICRC_BYTES)
_MASKED_SACK = Stamp.of(fields.SACK | {"port_mask": fields.PORT_MASK}, SACK_MASK_FRAME.itemsize - c.ICRC_BYTES)


def write_few_writes(template: FlowTemplate, batch: WriteBatch, out: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Write frames as `encode_writes`; no row may be a retransmission in another class."""
    widths, evs = batch.payload_bytes.tolist(), batch.ev_index.tolist()
    tails = list(_tails(batch, widths))
    prefixes = [write_prefixes(template, w, len(tail) >= w + _IMM) for w, tail in zip(widths, tails, strict=True)]
    stamp = batch.tx_timestamp << _TX_TIMESTAMP
    bases = [each.numbers[ev] | stamp for each, ev in zip(prefixes, evs, strict=True)]
    heads = (number.to_bytes(PAYLOAD_OFFSET) for number in _WRITE.numbers(batch, bases))
    frames = [head + tail for head, tail in zip(heads, tails, strict=True)]
    return _put(out, frames, [each.effects[ev] for each, ev in zip(prefixes, evs, strict=True)])


def write_few_sacks(template: FlowTemplate, batch: SackBatch, out: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Write frames as `encode_sacks`."""
    masked = batch.port_mask is not None
    stamp = _MASKED_SACK if masked else _SACK
    return write_few(sack_prefixes(template, masked), stamp, batch, batch.ev_index, out)


def write_few(
    prefixes: Prefixes,
    stamp: Stamp,
    batch: ControlBatch | SackBatch,
    chosen: NDArray[np.integer],
    out: NDArray[np.uint8],
) -> NDArray[np.uint32]:
    """Write frames without payload into the first rows of `out`, by (n,) `chosen` prefixes; return lengths, `(n,)`."""
    rows = chosen.tolist()
    numbers = stamp.numbers(batch, [prefixes.numbers[row] for row in rows])
    return _put(out, [number.to_bytes(prefixes.end) for number in numbers], [prefixes.effects[row] for row in rows])


def _put(out: NDArray[np.uint8], frames: list[bytes], effects: list[int]) -> NDArray[np.uint32]:
    """Write frames, complete except for the ICRC, into the first rows of `out`; return their lengths, `(n,)`.

    `effects` is what masking changes in the ICRC of each.
    """
    lengths = []
    for row, frame, effect in zip(out, frames, effects, strict=False):
        whole = frame + (raw_crc(frame[INNER_OFFSET:]) ^ effect).to_bytes(c.ICRC_BYTES, "little")
        row[: len(whole)] = np.frombuffer(whole, np.uint8)
        lengths.append(len(whole))
    return np.array(lengths, np.uint32)


def _tails(batch: WriteBatch, widths: list[int]) -> Iterator[bytes]:
    """Yield what follows the RETH of each write: immediate, payload, pad."""
    imms = [b""] * len(widths) if batch.imm is None else _immediates(batch.opcode.tolist(), batch.imm.tolist())
    for imm, start, width in zip(imms, batch.source_offset.tolist(), widths, strict=True):
        yield imm + batch.source[start : start + width].tobytes() + bytes(-width % 4)


def _immediates(opcodes: list[int], imms: list[int]) -> list[bytes]:
    pairs = zip(opcodes, imms, strict=True)
    return [imm.to_bytes(c.IMMDT_BYTES) if opcode in c.IMMEDIATE_OPCODES else b"" for opcode, imm in pairs]
