"""The seldom control packets: frames are Scapy's byte for byte, and come back as the values they were built from."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Packet

from agent.wire import constants as c
from agent.wire.array.control import encode_control
from agent.wire.array.control_columns import (
    AckBatch,
    ControlBatch,
    EndpointRequestBatch,
    EndpointResponseBatch,
    NackBatch,
    ProbeBatch,
)
from agent.wire.array.decode import decode
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import Dscp, EndpointOp, NackReason, NakCode, Opcode
from agent.wire.ev import EvCodec, EvOrder
from agent.wire.layers import AETH, BTH, EETH, ERTH, NETH, PETH
from tests.unit.agent.wire.wire_frames import (
    DQPN,
    EVS,
    PEER,
    SACK_TYPES,
    SOURCE,
    block_of,
    edges,
    scapy_sack,
    scapy_tunnel,
)

Row = dict[str, int]
CONTROL = Dscp.CONTROL << 2
DATA = Dscp.TRIMMABLE << 2 | 2
NAMES = ("acks", "nacks", "probes", "endpoint_requests", "endpoint_responses")


@dataclass(frozen=True)
class Kind:
    """One kind of packet: its name in Decoded, its columns with their types and values, Scapy's headers of a row."""

    name: str
    batch: type[ControlBatch]
    fields: dict[str, tuple[type, st.SearchStrategy[int]]]
    headers: Callable[[Row], Packet]
    traffic_class: Callable[[Row], int] = lambda row: CONTROL
    dqpn: int = DQPN

    def rows(self) -> st.SearchStrategy[Row]:
        values = {name: strategy for name, (_, strategy) in self.fields.items()}
        return st.fixed_dictionaries(values | {"ev_index": st.integers(0, len(EVS) - 1)})

    def batch_of(self, rows: list[Row]) -> ControlBatch:
        columns = {name: np.array([row[name] for row in rows], dtype) for name, (dtype, _) in self.fields.items()}
        return self.batch(**columns, ev_index=np.array([row["ev_index"] for row in rows], np.uint16))

    def frame(self, row: Row, dport: int = c.UDP_PORT_MRC) -> bytes:
        return bytes(scapy_tunnel(int(EVS[row["ev_index"]]), self.traffic_class(row), dport) / self.headers(row))


U8, U16, U24, U32 = (
    (dtype, edges(bits)) for dtype, bits in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 24), (np.uint32, 32))
)
OP = (np.uint8, st.sampled_from([int(op) for op in EndpointOp]))
KINDS = [
    Kind(
        "acks",
        AckBatch,
        {
            "psn": U24,
            "syndrome": (np.uint8, st.sampled_from([c.AETH_ACK, *(c.AETH_NAK + code for code in NakCode)])),
            "msn": U24,
        },
        lambda row: (
            BTH(opcode=Opcode.ACKNOWLEDGE, dqp=DQPN, psn=row["psn"]) / AETH(syndrome=row["syndrome"], msn=row["msn"])
        ),
    ),
    Kind(
        "nacks",
        NackBatch,
        {
            "nack_psn": U24,
            "nack_reason": (np.uint8, st.sampled_from([int(reason) for reason in NackReason])),
            "vendor_info": U8,
            "ev": U32,
            "spdcid": U16,
            "dpdcid": U16,
            "tx_timestamp": U16,
        },
        lambda row: (
            BTH(opcode=Opcode.NACK, dqp=DQPN, psn=row["nack_psn"])
            / NETH(
                nack_reason=row["nack_reason"],
                vendor_info=row["vendor_info"],
                entropy=row["ev"],
                spdcid=row["spdcid"],
                dpdcid=row["dpdcid"],
                nack_psn=row["nack_psn"],
                tx_timestamp=row["tx_timestamp"],
            )
        ),
    ),
    Kind(
        "probes",
        ProbeBatch,
        {"probe_id": U16, "spdcid": U16, "dpdcid": U16, "tx_timestamp": U16},
        lambda row: (
            BTH(opcode=Opcode.PROBE_REQUEST, dqp=DQPN)
            / PETH(
                probe_id=row["probe_id"], spdcid=row["spdcid"], dpdcid=row["dpdcid"], tx_timestamp=row["tx_timestamp"]
            )
        ),
        traffic_class=lambda row: DATA,
    ),
    Kind(
        "endpoint_requests",
        EndpointRequestBatch,
        {"op": OP, "request_id": U16, "port_status_mask": U32, "tx_timestamp": U16},
        lambda row: (
            BTH(opcode=Opcode.ENDPOINT_REQUEST, dqp=2, psn=row["request_id"])
            / ERTH(op=row["op"], port_status_mask=row["port_status_mask"], tx_timestamp=row["tx_timestamp"])
        ),
        traffic_class=lambda row: DATA if row["op"] == EndpointOp.EV_PROBE else CONTROL,
        dqpn=c.ENDPOINT_QPN,
    ),
    Kind(
        "endpoint_responses",
        EndpointResponseBatch,
        {"op": OP, "request_id": U16, "tx_timestamp": U16},
        lambda row: (
            BTH(opcode=Opcode.ENDPOINT_RESPONSE, dqp=2, psn=row["request_id"])
            / EETH(op=row["op"], tx_timestamp=row["tx_timestamp"])
        ),
        dqpn=c.ENDPOINT_QPN,
    ),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def encoded(kind: Kind, batch: ControlBatch, **options: object) -> list[bytes]:
    flow = FlowTemplate.for_peer(SOURCE, PEER, kind.dqpn, EVS, dscp=Dscp.TRIMMABLE, **options)
    out = np.full((len(batch) + 1, 160), 0xEE, np.uint8)
    lengths = encode_control(flow, batch, out)
    assert (out[len(batch)] == 0xEE).all()
    return [row[:length].tobytes() for row, length in zip(out, lengths.tolist(), strict=False)]


@each_kind
@given(data=st.data())
@settings(max_examples=40)
def test_frames_are_scapys(kind, data):
    rows = data.draw(st.lists(kind.rows(), min_size=1, max_size=6))
    assert encoded(kind, kind.batch_of(rows)) == [kind.frame(row) for row in rows]


@each_kind
@given(data=st.data(), port=st.sampled_from([c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT]))
@settings(max_examples=40)
def test_scapys_frames_come_back(kind, data, port):
    rows = data.draw(st.lists(kind.rows(), min_size=1, max_size=6))
    result = decode(*block_of([kind.frame(row, port) for row in rows]), PEER.address, plane=1)
    assert result.rejected == {}
    columns = getattr(result, kind.name)
    assert [name for name in ("writes", "sacks", *NAMES) if getattr(result, name) is not None] == [kind.name]
    assert len(columns) == len(rows)
    for name, (dtype, _) in kind.fields.items():
        assert getattr(columns, name).tolist() == [row[name] for row in rows], name
        assert getattr(columns, name).dtype == dtype
    assert columns.dqpn.tolist() == [kind.dqpn] * len(rows)
    assert columns.plane == 1
    if "ev" not in kind.fields and kind.name != "acks":
        assert columns.ev.tolist() == [int(EVS[row["ev_index"]]) for row in rows]


def plain_row(kind: Kind) -> Row:
    """One row whose values differ from each other."""
    values = {name: 0x21 + i for i, name in enumerate(kind.fields)}
    fixed = {"syndrome": c.AETH_ACK, "nack_reason": int(NackReason.NO_RESOURCE), "op": int(EndpointOp.EV_PROBE)}
    return values | {name: value for name, value in fixed.items() if name in values} | {"ev_index": 3}


def test_all_kinds_in_one_block_are_told_apart():
    frames = [kind.frame(plain_row(kind)) for kind in KINDS for _ in range(2)]
    result = decode(*block_of([*frames, b"", *frames]), PEER.address, 0)
    assert [len(getattr(result, name)) for name in NAMES] == [4] * len(NAMES)
    assert sum(result.rejected.values()) == 1


@pytest.mark.parametrize("name", ["endpoint_requests", "endpoint_responses"])
def test_endpoint_packets_say_from_which_host_they_come(name):
    kind = next(kind for kind in KINDS if kind.name == name)
    columns = getattr(decode(*block_of([kind.frame(plain_row(kind))] * 2), PEER.address, 0), name)
    assert [row.tobytes() for row in columns.source_address] == [SOURCE.address] * 2
    assert columns.take(slice(1, 2)).source_address.shape == (1, 16)


@pytest.mark.parametrize("offset", [15, 55], ids=["outer", "inner"])
def test_a_probe_tells_of_congestion(offset):
    kind = KINDS[2]
    frame = bytearray(kind.frame(plain_row(kind)))
    assert decode(*block_of([bytes(frame)]), PEER.address, 0).probes.ce.tolist() == [False]
    frame[offset] |= 0x30
    probes = decode(*block_of([bytes(frame)]), PEER.address, 0).probes
    assert probes.ce.tolist() == [True]
    assert probes.tsr.tolist() == [True]


def test_a_probe_may_ask_in_class_control():
    kind = replace(KINDS[2], traffic_class=lambda row: CONTROL)
    row = plain_row(kind)
    assert encoded(kind, replace(kind.batch_of([row]), in_control=True)) == [kind.frame(row)]


def test_retransmissions_class_is_not_that_of_probes():
    kind, row = KINDS[2], plain_row(KINDS[2])
    assert encoded(kind, kind.batch_of([row]), retransmission_dscp=Dscp.TRIMMABLE_RETX) == [kind.frame(row)]


@each_kind
def test_an_empty_batch_writes_nothing(kind):
    assert encoded(kind, kind.batch_of([plain_row(kind)]).take(slice(0, 0))) == []


@each_kind
def test_a_batch_is_selectable_by_row(kind):
    rows = [plain_row(kind) | {"ev_index": i} for i in range(4)]
    assert encoded(kind, kind.batch_of(rows).take(np.array([2, 0]))) == [kind.frame(rows[2]), kind.frame(rows[0])]


def test_the_other_half_order_reads_the_same_frames():
    swapped = EvCodec(EvOrder.SPORT_LOW)
    frames = block_of([KINDS[2].frame(plain_row(KINDS[2]))])
    ev = int(EVS[3])
    assert decode(*frames, PEER.address, 0, codec=swapped).probes.ev.tolist() == [(ev & 0xFFFF) << 16 | ev >> 16]


def test_a_flipped_bit_is_found_in_every_kind():
    for kind in KINDS:
        frame = bytearray(kind.frame(plain_row(kind)))
        frame[len(frame) - 5] ^= 1
        assert len(decode(*block_of([bytes(frame)]), PEER.address, 0).rejected) == 1


def test_sacks_with_and_without_mask_come_with_the_others():
    sack = dict.fromkeys(SACK_TYPES, 0)
    frames = [bytes(scapy_sack(sack)), bytes(scapy_sack(sack, port_mask=6)), KINDS[1].frame(plain_row(KINDS[1]))]
    result = decode(*block_of(frames), PEER.address, 0)
    assert result.sacks.port_mask.tolist() == [0, 6]
    assert len(result.nacks) == 1
