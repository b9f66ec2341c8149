"""The control packets besides SACKs, both ways by one table: which column is which bits of which header.

They come seldom, so one short loop over a packet's fields serves all five kinds. SACKs, which come by the thousand,
have their own code in encode.py and decode.py. Sources: MRC Tables 7-6, 7-16 to 7-22.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.columns import Columns, filled
from agent.wire.constants import Ecn, EndpointOp
from agent.wire.control_columns import (
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
from agent.wire.dtypes import (
    ACK_FRAME,
    BASE_FRAME,
    BTH_OFFSET,
    ENDPOINT_REQUEST_FRAME,
    ENDPOINT_RESPONSE_FRAME,
    INNER_OFFSET,
    NACK_FRAME,
    PROBE_FRAME,
    UDP_OFFSET,
    Bits,
    Record,
    bits_of,
    records,
    word_of,
)
from agent.wire.encode import stamp_icrc
from agent.wire.ev import EvCodec
from agent.wire.icrc import HEADER_BYTES, Runs, carried_alike
from agent.wire.rules import CONTROL_FRAMES, Kind
from agent.wire.template import CONTROL_ROW, DATA_ROW, FlowTemplate

_BTH_FIRST = word_of(BASE_FRAME, "bth")
_OUTER_CLASS = bits_of(BASE_FRAME, "outer", "class_word", low=20, width=2)
_INNER_CLASS = bits_of(BASE_FRAME, "inner", "class_word", low=20, width=2)
_FLOW_LABEL = bits_of(BASE_FRAME, "inner", "class_word", width=16)
_SPORT = bits_of(BASE_FRAME, "udp", "sport")
_DQP_WORD = word_of(BASE_FRAME, "bth", "dqp_word") - _BTH_FIRST
_DQPN = bits_of(BASE_FRAME, "bth", "dqp_word", width=24)
_PSN = bits_of(BASE_FRAME, "bth", "psn_word", width=24)
_REQUEST_ID = bits_of(BASE_FRAME, "bth", "psn_word", width=16)
_SOURCE = word_of(BASE_FRAME, "inner", "src")
_TIMESTAMP_FORM = c.TSETH_TSR | c.TSETH_FTYPE
_DTYPE_OF_WIDTH: dict[int, type[np.generic]] = {
    1: np.bool_,
    2: np.uint8,
    8: np.uint8,
    16: np.uint16,
    24: np.uint32,
    32: np.uint32,
}


class Sent(NamedTuple):
    """How a batch becomes frames."""

    opcode: c.Opcode
    layout: Record
    columns: Mapping[str, tuple[Bits, ...]]
    """Where each column goes; NACK's PSN goes to two places."""
    words: NDArray[np.uint32]
    """From the BTH to the ICRC, what is the same in all."""


@dataclass(frozen=True, slots=True)
class Received:
    """How accepted frames of one kind become columns."""

    name: str
    """In `Decoded`."""
    columns: type[Columns]
    bits: tuple[tuple[str, Bits, type[np.generic]], ...]
    """Columns that are bits of the transport headers."""
    of_frame: tuple[str, ...]
    """Columns that belong to the frame."""

    def columns_of(self, words: NDArray[np.uint32], plane: int, codec: EvCodec) -> Columns:
        """The columns of frames given as `(w, n)` words (see `dtypes.header_words`)."""
        values: dict[str, Any] = {"plane": plane}
        for name, bits, dtype in self.bits:
            values[name] = bits.read(words).astype(dtype)
        for name in self.of_frame:
            values[name] = _OF_FRAME[name](words, codec)
        return self.columns(**values)


def _ev(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.uint32]:
    return codec.join(_SPORT.read(words).astype(np.uint16), _FLOW_LABEL.read(words).astype(np.uint16))


def _ce(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.bool_]:
    ce: NDArray[np.bool_] = (_OUTER_CLASS.read(words) == Ecn.CE.value) | (_INNER_CLASS.read(words) == Ecn.CE.value)
    return ce


def _source_address(words: NDArray[np.uint32], codec: EvCodec) -> NDArray[np.uint8]:
    address = words[_SOURCE : _SOURCE + c.IPV6_ADDRESS_BYTES // 4]
    return np.ascontiguousarray(address.T, ">u4").view(np.uint8)


_OF_FRAME: dict[str, Callable[[NDArray[np.uint32], EvCodec], NDArray[Any]]] = {
    "ev": _ev,
    "ce": _ce,
    "source_address": _source_address,
}

_ACK = {
    "psn": _PSN,
    "syndrome": bits_of(ACK_FRAME, "aeth", "syndrome"),
    "msn": bits_of(ACK_FRAME, "aeth", "msn_word", width=24),
}
_NACK = {
    "nack_psn": bits_of(NACK_FRAME, "neth", "nack_word", width=24),
    "nack_reason": bits_of(NACK_FRAME, "neth", "nack_reason"),
    "vendor_info": bits_of(NACK_FRAME, "neth", "vendor_info"),
    "ev": bits_of(NACK_FRAME, "neth", "entropy"),
    "spdcid": bits_of(NACK_FRAME, "neth", "spdcid"),
    "dpdcid": bits_of(NACK_FRAME, "neth", "dpdcid"),
    "tx_timestamp": bits_of(NACK_FRAME, "neth", "tx_timestamp"),
}
_PROBE = {name: bits_of(PROBE_FRAME, "peth", name) for name in ("probe_id", "spdcid", "dpdcid", "tx_timestamp")}
_REQUEST = {
    "op": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "op_word", width=2),
    "request_id": _REQUEST_ID,
    "port_status_mask": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "port_status_mask"),
    "tx_timestamp": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "tx_timestamp"),
}
_RESPONSE = {
    "op": bits_of(ENDPOINT_RESPONSE_FRAME, "eeth", "op_word", low=2, width=2),
    "request_id": _REQUEST_ID,
    "tx_timestamp": bits_of(ENDPOINT_RESPONSE_FRAME, "eeth", "tx_timestamp"),
}


def _received(name: str, columns: type[Columns], bits: dict[str, Bits]) -> Received:
    read = {"dqpn": _DQPN, **bits}
    rest = [field.name for field in fields(columns) if field.name in _OF_FRAME and field.name not in read]
    return Received(name, columns, tuple((name, b, _DTYPE_OF_WIDTH[b.width]) for name, b in read.items()), tuple(rest))


_PROBE_TSR = {"tsr": bits_of(PROBE_FRAME, "peth", "tsr_ftype", low=15, width=1)}
RECEIVED = {
    Kind.ACK.value: _received("acks", AckColumns, _ACK),
    Kind.NACK.value: _received("nacks", NackColumns, _NACK),
    Kind.PROBE.value: _received("probes", ProbeColumns, _PROBE | _PROBE_TSR),
    Kind.ENDPOINT_REQUEST.value: _received("endpoint_requests", EndpointRequestColumns, _REQUEST),
    Kind.ENDPOINT_RESPONSE.value: _received("endpoint_responses", EndpointResponseColumns, _RESPONSE),
}
"""By number of the Kind."""


def _sent(kind: Kind, bits: dict[str, Bits], *constants: tuple[Bits, int], also: dict[str, Bits] | None = None) -> Sent:
    frame = next(frame for frame in CONTROL_FRAMES if frame.kind is kind)
    again = also or {}
    columns = {name: (place, again[name]) if name in again else (place,) for name, place in bits.items()}
    words = np.zeros((frame.layout.itemsize - c.ICRC_BYTES - BTH_OFFSET) // 4, np.uint32)
    words[0] = frame.opcode << 24 | c.PKEY
    for place, value in constants:
        words[place.word - _BTH_FIRST] |= np.uint32(value << place.shift)
    return Sent(frame.opcode, frame.layout, columns, words)


_SENT: dict[type[Columns], Sent] = {
    AckBatch: _sent(Kind.ACK, _ACK),
    NackBatch: _sent(
        Kind.NACK,
        _NACK,
        (bits_of(NACK_FRAME, "neth", "cc", low=4, width=4), c.NETH_CC_TYPE),
        also={"nack_psn": _PSN},
    ),
    ProbeBatch: _sent(Kind.PROBE, _PROBE, (bits_of(PROBE_FRAME, "peth", "tsr_ftype"), _TIMESTAMP_FORM)),
    EndpointRequestBatch: _sent(
        Kind.ENDPOINT_REQUEST, _REQUEST, (bits_of(ENDPOINT_REQUEST_FRAME, "erth", "tsr_ftype"), _TIMESTAMP_FORM)
    ),
    EndpointResponseBatch: _sent(Kind.ENDPOINT_RESPONSE, _RESPONSE),
}


def encode_control(
    template: FlowTemplate, batch: ControlBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write row i of the batch as a frame into `out[i]`; the frames' lengths, `(n,)`.

    `out` and `runs` as for `encode_writes`. The template leads to the peer's QP, that of endpoint packets to
    ENDPOINT_QPN.
    """
    rows = out[: len(batch)]
    if len(batch) == 0:
        return np.zeros(0, np.uint32)
    sent = _SENT[type(batch)]
    prefixes, effect = _control_frames(template, sent.layout.itemsize)
    chosen = _class_rows(batch), batch.ev_index
    end = sent.layout.itemsize - c.ICRC_BYTES
    rows[:, :BTH_OFFSET] = prefixes[chosen]
    rows[:, BTH_OFFSET:end] = _transport_headers(sent, template.dqpn, batch)
    stamp_icrc(rows, effect[chosen], end, runs)
    return filled(sent.layout.itemsize, len(batch), np.uint32)


@lru_cache(maxsize=256)
def _control_frames(template: FlowTemplate, length: int) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """By class and EV, of frames of so many bytes: what precedes the BTH, (2, E, 102), and the ICRC effect, (2, E)."""
    behind = length - c.ICRC_BYTES - INNER_OFFSET - HEADER_BYTES
    prefixes = np.zeros((*template.tunnel_prefix.shape[:2], BASE_FRAME.itemsize), np.uint8)
    prefixes[:, :, :BTH_OFFSET] = template.tunnel_prefix
    for rows in prefixes:
        frames = records(rows, BASE_FRAME)
        frames["outer"]["plen"] = length - UDP_OFFSET + c.IPV6_BYTES
        frames["inner"]["plen"] = frames["udp"]["len"] = length - UDP_OFFSET
    effects = [carried_alike(effect, behind) for effect in template.tunnel_icrc_effect]
    return prefixes[:, :, :BTH_OFFSET].copy(), np.stack(effects)


def _class_rows(batch: ControlBatch) -> NDArray[np.intp] | int:
    """CONTROL, but for what asks about the paths of data (MRC 3.1)."""
    if isinstance(batch, EndpointRequestBatch):
        return np.where(batch.op == EndpointOp.EV_PROBE.value, DATA_ROW, CONTROL_ROW)
    return DATA_ROW if isinstance(batch, ProbeBatch) and not batch.in_control else CONTROL_ROW


def _transport_headers(sent: Sent, dqpn: int, batch: ControlBatch) -> NDArray[np.uint8]:
    """BTH and what follows it but for the ICRC, `(n, bytes)`."""
    words = np.empty((len(batch), len(sent.words)), np.uint32)
    words[:] = sent.words
    words[:, _DQP_WORD] = dqpn
    for name, places in sent.columns.items():
        column = getattr(batch, name)
        for bits in places:
            words[:, bits.word - _BTH_FIRST] |= bits.placed(column)
    return words.astype(">u4").view(np.uint8)
