"""Decoding and encoding of few frames, number by number: the fixed cost of columns is too high for a frame or two.

A frame's headers are one large number, and a field is some of its bits (fields.py). Only usual frames are read here: if
one is trimmed, lacks its TSETH, must be refused or is of a rare kind, decode.py reads the whole block. The bytes
written are those of encode.py.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array import fields
from agent.wire.array.columns import Columns, SackBatch, SackColumns, WriteBatch, WriteColumns
from agent.wire.array.control_columns import AckColumns, ControlBatch
from agent.wire.array.icrc import flat_bytes, is_right, raw_crc
from agent.wire.array.template import FlowTemplate, Prefixes, sack_prefixes, write_prefixes
from agent.wire.constants import Ecn
from agent.wire.dtypes import (
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_FRAME,
    SACK_MASK_FRAME,
    WORD_LEAD_BYTES,
    WRITE_FRAME,
    Bits,
    offset_of,
)
from agent.wire.ev import EvCodec
from agent.wire.validate.frames import Verdict
from agent.wire.validate.rules import KIND_OF_OPCODE, Kind
from agent.wire.validate.verdict_cache import JUDGED_BITS, verdict_on

_END = SACK_FRAME.itemsize
"""Last byte of the headers; the number holds the bytes from WORD_LEAD_BYTES to here."""
_NUMBER_BYTES = _END - WORD_LEAD_BYTES
_MASKED = "masked"
"""Name of the flag that a SACK has a port mask; not one of its columns."""
_MASKED_END = SACK_MASK_FRAME.itemsize - c.ICRC_BYTES
_OPCODE = offset_of(WRITE_FRAME, "bth", "opcode")
_KINDS = KIND_OF_OPCODE.tolist()
_SOURCE = offset_of(WRITE_FRAME, "inner", "src")
_ADDRESS = struct.Struct(">4I")
_CODES = {np.bool_: "?", np.uint8: "B", np.uint16: "H", np.uint32: "I", np.int64: "q", np.uint64: "Q"}


class Cut(NamedTuple):
    """A field of the number."""

    place: int
    mask: int

    @classmethod
    def of(cls, bits: Bits) -> "Cut":
        """Compute the position of the field."""
        return cls(bits.above(_END), (1 << bits.width) - 1)

    def read(self, number: int) -> int:
        """Extract its value."""
        return number >> self.place & self.mask


_SPORT, _FLOW_LABEL, _OUTER_ECN, _INNER_ECN, _PAD, _IMM, _PORT_MASK = (
    Cut.of(bits)
    for bits in (
        fields.SPORT,
        fields.FLOW_LABEL,
        fields.OUTER_ECN,
        fields.INNER_ECN,
        fields.PAD,
        fields.IMM,
        fields.PORT_MASK,
    )
)
_HAS_TSETH = c.BTH_TIMESTAMP << Cut.of(fields.WRITE["flags"]).place


class Frame(NamedTuple):
    """A usual frame."""

    number: int
    row: int
    kind: int
    verdict: Verdict
    source: tuple[int, ...]
    """Words of the inner source address."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Decoding of a few frames of one kind into columns."""

    name: str
    """Name in `Decoded`."""
    cuts: tuple[Cut, ...]
    """Columns that are fields."""
    rest: Callable[[Frame, int, EvCodec], tuple[int, ...]]
    """Computes the other columns, of a frame in a block with this stride."""
    record: struct.Struct
    """A row of all columns in numpy's layout."""
    layout: np.dtype[np.void]

    @classmethod
    def of(
        cls,
        name: str,
        bits: Mapping[str, Bits],
        rest: Callable[[Frame, int, EvCodec], tuple[int, ...]],
        types: Mapping[str, type[np.generic]],
    ) -> "Reading":
        """Create the reading of a kind; `types` are those of the columns that `rest` returns, in its order."""
        columns = {column: place.dtype for column, place in bits.items()} | dict(types)
        record = struct.Struct("=4I" + "".join(_CODES[dtype] for dtype in columns.values()))
        scalars = [(n, np.int16 if n in fields.SIGNED else dtype) for n, dtype in columns.items()]
        layout = np.dtype([("source", np.uint32, 4), *scalars])
        return cls(name, tuple(Cut.of(place) for place in bits.values()), rest, record, layout)

    def packed(self, frame: Frame, stride: int, codec: EvCodec) -> bytes:
        """Return the record of a frame."""
        number = frame.number
        values = [number >> place & mask for place, mask in self.cuts]
        return self.record.pack(*frame.source, *values, *self.rest(frame, stride, codec))

    def columns(self, records: list[bytes]) -> dict[str, NDArray[Any]]:
        """Return the columns of records, contiguous, in their order."""
        rows = np.frombuffer(b"".join(records), self.layout)
        names = self.layout.names or ()
        return {n: rows[n] for n in names} if len(rows) == 1 else {n: rows[n].copy() for n in names}


def _rest_of_write(frame: Frame, stride: int, codec: EvCodec) -> tuple[int, ...]:
    number, verdict = frame.number, frame.verdict
    ecn = _OUTER_ECN.read(number), _INNER_ECN.read(number)
    return (
        codec.join_one(_SPORT.read(number), _FLOW_LABEL.read(number)),
        Ecn.CE.value in ecn,
        _IMM.read(number) if frame.kind == _WRITE_IMM else 0,
        False,
        False,
        verdict.payload_end - verdict.payload_start - _PAD.read(number),
        frame.row * stride + verdict.payload_start,
    )


def _rest_of_sack(frame: Frame, stride: int, codec: EvCodec) -> tuple[int, ...]:
    masked = frame.verdict.payload_start == _MASKED_END
    return masked, _PORT_MASK.read(frame.number) if masked else 0


def _rest_of_ack(frame: Frame, stride: int, codec: EvCodec) -> tuple[int, ...]:
    return ()


_WRITE, _WRITE_IMM = Kind.WRITE.value, Kind.WRITE_IMM.value
_DQPN = {"dqpn": fields.DQPN}
_WRITES = Reading.of(
    "writes",
    fields.WRITE | _DQPN,
    _rest_of_write,
    {
        "ev": np.uint32,
        "ce": np.bool_,
        "imm": np.uint32,
        "trimmed": np.bool_,
        "trimmed_lasthop": np.bool_,
        "payload_bytes": np.uint32,
        "payload_offset": np.int64,
    },
)
_SACKS = Reading.of("sacks", fields.SACK | _DQPN, _rest_of_sack, {_MASKED: np.bool_, "port_mask": np.uint32})
_ACKS = Reading.of("acks", fields.ACK | _DQPN, _rest_of_ack, {})
_READINGS = {_WRITE: _WRITES, _WRITE_IMM: _WRITES, Kind.SACK.value: _SACKS, Kind.ACK.value: _ACKS}


def read_few(
    frames: NDArray[np.uint8],
    rows: Sequence[int],
    lengths: NDArray[np.uint32],
    own_address: bytes,
    plane: int,
    codec: EvCodec,
    *,
    check_icrc: bool,
) -> dict[str, Any] | None:
    """Decode these rows as `decode` does, with the given lengths in bytes; None if any of them is not usual."""
    stride, width = frames.strides
    if width != 1 or not _END <= frames.shape[1] <= stride:
        return None
    records: dict[str, list[bytes]] = {}
    for row, length in zip(rows, lengths.tolist(), strict=True):
        frame = _usual(frames[row], row, length, own_address)
        if frame is None or (check_icrc and not _has_its_icrc(frames[row], frame.verdict.payload_end)):
            return None
        reading = _READINGS[frame.kind]
        records.setdefault(reading.name, []).append(reading.packed(frame, stride, codec))
    found: dict[str, Any] = {}
    if "writes" in records:
        columns = _WRITES.columns(records["writes"])
        found["writes"] = WriteColumns(**columns, memory=flat_bytes(frames), plane=plane)
    if "sacks" in records:
        found["sacks"] = _sacks_of(_SACKS.columns(records["sacks"]), plane)
    if "acks" in records:
        found["acks"] = AckColumns(**_ACKS.columns(records["acks"]), plane=plane)
    return found


def _usual(octets: NDArray[np.uint8], row: int, length: int, own_address: bytes) -> Frame | None:
    header = octets[:_END].tobytes()
    number = int.from_bytes(header[WORD_LEAD_BYTES:])
    kind = _KINDS[header[_OPCODE]]
    if kind not in _READINGS or (kind >= _WRITE and not number & _HAS_TSETH):
        return None
    judged = (number & JUDGED_BITS[kind]).to_bytes(_NUMBER_BYTES)
    verdict = verdict_on(judged, length, len(octets), own_address)
    return (
        None
        if verdict.reason or verdict.trimmed
        else Frame(number, row, kind, verdict, _ADDRESS.unpack_from(header, _SOURCE))
    )


def _has_its_icrc(octets: NDArray[np.uint8], end: int) -> bool:
    return is_right(octets[INNER_OFFSET : end + c.ICRC_BYTES].tobytes())


def _sacks_of(columns: dict[str, NDArray[Any]], plane: int) -> SackColumns:
    if True not in columns.pop(_MASKED).tolist():
        del columns["port_mask"]
    return SackColumns(**columns, plane=plane)


_INT16 = 0xFFFF
_IMM_BYTES = c.IMMDT_BYTES


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


_WRITE_STAMP = Stamp.of({name: bits for name, bits in fields.WRITE.items() if name != "tx_timestamp"}, PAYLOAD_OFFSET)
_TX_TIMESTAMP = fields.WRITE["tx_timestamp"].above(PAYLOAD_OFFSET)
_SACK_STAMP = Stamp.of(fields.SACK, SACK_FRAME.itemsize - c.ICRC_BYTES)
_MASKED_SACK_STAMP = Stamp.of(fields.SACK | {"port_mask": fields.PORT_MASK}, SACK_MASK_FRAME.itemsize - c.ICRC_BYTES)


def write_few_writes(template: FlowTemplate, batch: WriteBatch, out: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Write frames as `encode_writes`; no row may be a retransmission in another class."""
    widths, evs = batch.payload_bytes.tolist(), batch.ev_index.tolist()
    tails = list(_tails(batch, widths))
    prefixes = [write_prefixes(template, w, len(tail) >= w + _IMM_BYTES) for w, tail in zip(widths, tails, strict=True)]
    stamp = batch.tx_timestamp << _TX_TIMESTAMP
    bases = [each.numbers[ev] | stamp for each, ev in zip(prefixes, evs, strict=True)]
    heads = (number.to_bytes(PAYLOAD_OFFSET) for number in _WRITE_STAMP.numbers(batch, bases))
    frames = [head + tail for head, tail in zip(heads, tails, strict=True)]
    return _put(out, frames, [each.effects[ev] for each, ev in zip(prefixes, evs, strict=True)])


def write_few_sacks(template: FlowTemplate, batch: SackBatch, out: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Write frames as `encode_sacks`."""
    masked = batch.port_mask is not None
    stamp = _MASKED_SACK_STAMP if masked else _SACK_STAMP
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
