"""Encoding and decoding of the control packets besides SACKs, by one table (fields.py).

They are rare, so one short loop over a packet's fields serves all five kinds. SACKs are frequent and have their own
code in encode.py and decode.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array import fields
from agent.wire.array.columns import FEW_ROWS, Columns, filled
from agent.wire.array.control_columns import (
    AckBatch,
    AckColumns,
    ControlBatch,
    EndpointRequestBatch,
    EndpointRequestColumns,
    EndpointResponseBatch,
    EndpointResponseColumns,
    NackBatch,
    NackColumns,
    ProbeBatch,
    ProbeColumns,
)
from agent.wire.array.few_frames import Stamp, write_few
from agent.wire.array.icrc import Runs, stamp_icrc
from agent.wire.array.template import CONTROL_ROW, DATA_ROW, FlowTemplate, control_prefixes
from agent.wire.constants import Ecn, EndpointOp
from agent.wire.dtypes import (
    BASE_FRAME,
    BTH_OFFSET,
    ENDPOINT_REQUEST_FRAME,
    NACK_FRAME,
    PROBE_FRAME,
    Bits,
    bits_of,
    word,
    word_of,
)
from agent.wire.ev import EvCodec
from agent.wire.validate.rules import CONTROL_FRAMES, Kind

_BTH_FIRST = word_of(BASE_FRAME, "bth")
_OPCODE = fields.WRITE["opcode"]
_PKEY = bits_of(BASE_FRAME, "bth", "pkey")
_SOURCE = word_of(BASE_FRAME, "inner", "src")
_TIMESTAMP_FORM = c.TSETH_TSR | c.TSETH_FTYPE
_CE = word(Ecn.CE)


class Sent(NamedTuple):
    """Encoding of one kind of control packet: a batch becomes frames."""

    transport: bytes
    """Bytes from the BTH to the ICRC: opcode, key and everything that is the same in all frames."""
    columns: tuple[tuple[str, Bits], ...]
    """Place of each column; NACK's PSN has two places."""
    stamp: Stamp
    """The same places, for few frames."""


@dataclass(frozen=True, slots=True)
class Received:
    """Decoding of one kind of control packet: accepted frames become columns."""

    name: str
    """Name in `Decoded`."""
    columns: type[Columns]
    bits: Mapping[str, Bits]
    """Columns that are bits of the transport headers."""
    of_frame: tuple[str, ...]
    """Columns that belong to the frame."""

    def columns_of(self, words: NDArray[np.uint32], plane: int, codec: EvCodec) -> Columns:
        """Extract the columns of frames given as `(w, n)` words (see `dtypes.header_words`)."""
        values: dict[str, Any] = {"plane": plane}
        for name, bits in self.bits.items():
            values[name] = bits.column(words)
        for name in self.of_frame:
            values[name] = _OF_FRAME[name](words, codec)
        return self.columns(**values)


def ev_column(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.uint32]:
    """Return the EV of each frame, `(n,)`."""
    return codec.join(fields.SPORT.column(words), fields.FLOW_LABEL.column(words))


def ce_column(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.bool_]:
    """Report whether each frame met congestion, `(n,)`, by the outer or the inner header (RFC 6040)."""
    ce: NDArray[np.bool_] = (fields.OUTER_ECN.read(words) == _CE) | (fields.INNER_ECN.read(words) == _CE)
    return ce


def source_column(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the inner source address of each frame, `(n, 4)`: four words, a view."""
    return words[_SOURCE : _SOURCE + c.IPV6_ADDRESS_BYTES // 4].T


def _source_address(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.uint8]:
    return np.ascontiguousarray(source_column(words), ">u4").view(np.uint8)


_OF_FRAME: dict[str, Callable[[NDArray[np.uint32], EvCodec], NDArray[Any]]] = {
    "ev": ev_column,
    "ce": ce_column,
    "source_address": _source_address,
    "source": lambda words, codec: source_column(words),
}


def _received(name: str, columns: type[Columns], bits: Mapping[str, Bits]) -> Received:
    read = {"dqpn": fields.DQPN, **bits}
    rest = [field.name for field in dataclass_fields(columns) if field.name in _OF_FRAME and field.name not in read]
    return Received(name, columns, read, tuple(rest))


RECEIVED = {
    Kind.ACK.value: _received("acks", AckColumns, fields.ACK),
    Kind.NACK.value: _received("nacks", NackColumns, fields.NACK),
    Kind.PROBE.value: _received("probes", ProbeColumns, fields.PROBE | {"tsr": fields.PROBE_TSR}),
    Kind.ENDPOINT_REQUEST.value: _received("endpoint_requests", EndpointRequestColumns, fields.ENDPOINT_REQUEST),
    Kind.ENDPOINT_RESPONSE.value: _received("endpoint_responses", EndpointResponseColumns, fields.ENDPOINT_RESPONSE),
}
"""Receivers by number of the Kind."""


def _sent(kind: Kind, bits: Mapping[str, Bits], *constants: tuple[Bits, int]) -> Sent:
    frame = next(frame for frame in CONTROL_FRAMES if frame.kind is kind)
    end = frame.layout.itemsize - c.ICRC_BYTES
    number = frame.opcode << _OPCODE.above(end) | c.PKEY << _PKEY.above(end)
    for place, value in constants:
        number |= value << place.above(end)
    twice = [(name, fields.SENT_TWICE[name]) for name in bits if name in fields.SENT_TWICE]
    return Sent(number.to_bytes(end - BTH_OFFSET), (*bits.items(), *twice), Stamp.of(bits, end))


_SENT: dict[type[Columns], Sent] = {
    AckBatch: _sent(Kind.ACK, fields.ACK),
    NackBatch: _sent(Kind.NACK, fields.NACK, (bits_of(NACK_FRAME, "neth", "cc", low=4, width=4), c.NETH_CC_TYPE)),
    ProbeBatch: _sent(Kind.PROBE, fields.PROBE, (bits_of(PROBE_FRAME, "peth", "tsr_ftype"), _TIMESTAMP_FORM)),
    EndpointRequestBatch: _sent(
        Kind.ENDPOINT_REQUEST,
        fields.ENDPOINT_REQUEST,
        (bits_of(ENDPOINT_REQUEST_FRAME, "erth", "tsr_ftype"), _TIMESTAMP_FORM),
    ),
    EndpointResponseBatch: _sent(Kind.ENDPOINT_RESPONSE, fields.ENDPOINT_RESPONSE),
}


def encode_control(
    template: FlowTemplate, batch: ControlBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write row i of the batch as a frame into `out[i]`; return the frames' lengths, `(n,)`.

    `out` and `runs` as for `encode_writes`. The template is for the peer's QP; for endpoint packets it is for
    ENDPOINT_QPN.
    """
    rows = out[: len(batch)]
    if len(batch) == 0:
        return np.zeros(0, np.uint32)
    sent = _SENT[type(batch)]
    prefixes = control_prefixes(template, sent.transport)
    chosen = _class_rows(batch) * len(template.evs) + batch.ev_index
    if len(batch) <= FEW_ROWS:
        return write_few(prefixes, sent.stamp, batch, chosen, rows)
    headers = prefixes.octets.take(chosen, axis=0)
    words = headers[:, BTH_OFFSET:].view(">u4")
    for name, bits in sent.columns:
        words[:, bits.word - _BTH_FIRST] |= bits.placed(getattr(batch, name))
    rows[:, : prefixes.end] = headers
    stamp_icrc(rows, prefixes.effect[chosen], prefixes.end, runs)
    return filled(prefixes.end + c.ICRC_BYTES, len(batch), np.uint32)


def _class_rows(batch: ControlBatch) -> NDArray[np.intp] | int:
    """Return the class of each row: CONTROL, except for probes of the paths of data (MRC 3.1)."""
    if isinstance(batch, EndpointRequestBatch):
        return np.where(batch.op == EndpointOp.EV_PROBE.value, DATA_ROW, CONTROL_ROW)
    return DATA_ROW if isinstance(batch, ProbeBatch) and not batch.in_control else CONTROL_ROW
