"""Hosts, templates and batches for the wire tests, and the same frames built by Scapy alone."""

from ipaddress import IPv6Address
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from agent.wire import constants as c
from agent.wire.array.columns import SackBatch, WriteBatch
from agent.wire.array.template import FlowTemplate, HostAddress, PortAddress
from agent.wire.constants import Dscp, Opcode
from agent.wire.ev import EvCodec
from agent.wire.layers import BTH, CC_STATE, METH, RETH, SETH, TSETH, ImmDt, PortMask

PLANES, SPINES = 2, 4
CODEC = EvCodec()
DQPN = 0x00ABCD


def host_address(host: int, leaf: int, slot: int = 0) -> HostAddress:
    ports = tuple(
        PortAddress(bytes([2, 0x30 | plane, 0, host, 0x20, leaf]), bytes([2, 0x20 | plane, 0, leaf, 0x30, slot]))
        for plane in range(PLANES)
    )
    return HostAddress(bytes.fromhex("fd5f") + bytes(13) + bytes([host]), leaf, slot, ports)


SOURCE = host_address(3, leaf=3, slot=0)
PEER = host_address(7, leaf=7, slot=1)
EVS = np.array([CODEC.ev_of(p, s, 7, copy) for p in range(PLANES) for s in range(SPINES) for copy in (0, 5)], np.uint32)


def template(**options: Any) -> FlowTemplate:
    return FlowTemplate.for_peer(SOURCE, PEER, DQPN, EVS, **options)


def write_batch(rows: list[dict[str, int]], source: np.ndarray, tx_timestamp: int = 0x1234) -> WriteBatch:
    """A batch of rows as `WRITE_ROW` draws them; payloads lie one after another in `source`."""

    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([row[name] for row in rows], dtype)

    return WriteBatch(
        psn=column("psn", np.uint32),
        opcode=column("opcode", np.uint8),
        flags=column("flags", np.uint8),
        ev_index=column("ev_index", np.uint16),
        msn=column("msn", np.uint16),
        rqmsn=column("rqmsn", np.uint16),
        va=column("va", np.uint64),
        rkey=column("rkey", np.uint32),
        dmalen=column("dmalen", np.uint32),
        imm=column("imm", np.uint32),
        source_offset=column("source_offset", np.int64),
        payload_bytes=column("payload_bytes", np.uint32),
        tx_timestamp=tx_timestamp,
        source=source,
    )


def edges(bits: int) -> st.SearchStrategy[int]:
    """Numbers of so many bits, the ends often."""
    top = (1 << bits) - 1
    return st.sampled_from([0, 1, top - 1, top]) | st.integers(0, top)


SOURCE_BYTES = 2048
SOURCE_MEMORY = np.random.default_rng(7).integers(0, 256, SOURCE_BYTES, dtype=np.uint8)
WRITE_ROW = st.fixed_dictionaries(
    {
        "psn": edges(c.PSN_BITS),
        "opcode": st.sampled_from([int(op) for op in c.WRITE_OPCODES]),
        "flags": st.sampled_from([0, 0x80, 0x20, 0xA0]),
        "ev_index": st.integers(0, len(EVS) - 1),
        "msn": edges(16),
        "rqmsn": edges(16),
        "va": edges(64),
        "rkey": edges(32),
        "dmalen": edges(32),
        "imm": edges(32),
        "source_offset": st.integers(0, SOURCE_BYTES // 2),
        "payload_bytes": st.sampled_from([0, 1, 2, 3, 4, 256]) | st.integers(0, SOURCE_BYTES // 2),
    }
)
SACK_ROW = st.fixed_dictionaries(
    {
        "cack_psn": edges(24),
        "ack_psn_offset": st.integers(-32768, 32767),
        "pr": st.booleans(),
        "rtx": st.booleans(),
        "m": st.integers(0, 2),
        "ev": edges(32),
        "spdcid": edges(16),
        "dpdcid": edges(16),
        "mpr": edges(8),
        "sack_offset": st.integers(-32768, 32767),
        "bitmap": edges(64),
        "tx_timestamp": edges(16),
        "ooo_count": edges(15),
        "restore_cwnd": st.booleans(),
        "rcv_cwnd_pen": edges(7),
        "rcvd_bytes": edges(24),
        "ev_index": st.integers(0, len(EVS) - 1),
    }
)
SACK_TYPES = {
    "cack_psn": np.uint32,
    "ack_psn_offset": np.int16,
    "pr": np.bool_,
    "rtx": np.bool_,
    "m": np.uint8,
    "ev": np.uint32,
    "spdcid": np.uint16,
    "dpdcid": np.uint16,
    "mpr": np.uint8,
    "sack_offset": np.int16,
    "bitmap": np.uint64,
    "tx_timestamp": np.uint16,
    "ooo_count": np.uint16,
    "restore_cwnd": np.bool_,
    "rcv_cwnd_pen": np.uint8,
    "rcvd_bytes": np.uint32,
    "ev_index": np.uint16,
}


def sack_batch(rows: list[dict[str, int]], port_masks: list[int] | None = None) -> SackBatch:
    columns = {name: np.array([row[name] for row in rows], dtype) for name, dtype in SACK_TYPES.items()}
    return SackBatch(**columns, port_mask=None if port_masks is None else np.array(port_masks, np.uint32))


def scapy_tunnel(ev: int, traffic_class: int, dport: int = c.UDP_PORT_MRC) -> Any:
    """Ethernet to UDP of a packet from SOURCE to PEER on the path of an EV, written out by hand."""
    plane, spine = ev >> 8 & 0xF, ev & 0xFF
    port, label = SOURCE.ports[plane], ev & 0xFFFF
    outer_dst = f"5f00:0:2{plane:x}03:1{plane:x}{spine:02x}:2{plane:x}07:e{plane:x}01::"
    source, peer = str(IPv6Address(SOURCE.address)), str(IPv6Address(PEER.address))
    return (
        Ether(src=port.mac.hex(":"), dst=port.leaf_mac.hex(":"))
        / IPv6(src=source, dst=outer_dst, tc=traffic_class, fl=label)
        / IPv6(src=source, dst=peer, tc=traffic_class, fl=label)
        / UDP(sport=ev >> 16, dport=dport)
    )


def scapy_write(
    row: dict[str, int],
    source: np.ndarray = SOURCE_MEMORY,
    tx_timestamp: int | None = 0x1234,
    traffic_class: int = Dscp.NO_TRIM << 2 | 2,
    dport: int = c.UDP_PORT_MRC,
) -> Any:
    """The frame of one row of a write batch; without TSETH where there is no timestamp."""
    frame = scapy_tunnel(int(EVS[row["ev_index"]]), traffic_class, dport)
    frame /= BTH(opcode=row["opcode"], dqp=DQPN, psn=row["psn"], a=row["flags"] >> 7, rtx=row["flags"] >> 5 & 1)
    frame /= METH(rqmsn=row["rqmsn"], msn=row["msn"])
    if tx_timestamp is not None:
        frame /= TSETH(tx_timestamp=tx_timestamp)
    frame /= RETH(va=row["va"], rkey=row["rkey"], dmalen=row["dmalen"])
    if row["opcode"] in c.IMMEDIATE_OPCODES:
        frame /= ImmDt(imm=row["imm"])
    payload = source[row["source_offset"] :][: row["payload_bytes"]].tobytes()
    return frame / Raw(payload) if payload else frame


def scapy_sack(row: dict[str, int], dport: int = c.UDP_PORT_MRC, port_mask: int | None = None) -> Any:
    bth = BTH(opcode=Opcode.SACK, dqp=DQPN, psn=row["cack_psn"], rtx=int(row["rtx"]))
    seth = SETH(
        nxt=0 if port_mask is None else c.SETH_NXT_PORT_MASK,
        m=row["m"],
        pr=int(row["pr"]),
        ack_psn_offset=row["ack_psn_offset"],
        entropy=row["ev"],
        spdcid=row["spdcid"],
        dpdcid=row["dpdcid"],
        cack_psn=row["cack_psn"],
        mpr=row["mpr"],
        sack_offset=row["sack_offset"],
        sack_bitmap=row["bitmap"],
    )
    cc_state = CC_STATE(
        tx_timestamp=row["tx_timestamp"],
        ooo_count=row["ooo_count"],
        restore_cwnd=int(row["restore_cwnd"]),
        rcv_cwnd_pen=row["rcv_cwnd_pen"],
        rcvd_bytes=row["rcvd_bytes"],
    )
    sack = scapy_tunnel(int(EVS[row["ev_index"]]), Dscp.CONTROL << 2, dport) / bth / seth / cc_state
    return sack if port_mask is None else sack / PortMask(port_mask=port_mask)


def block_of(frames: list[bytes], stride: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Frames as a received block: rows, and their lengths."""
    lengths = np.array([len(frame) for frame in frames], np.uint32)
    rows = np.zeros((len(frames), stride or int(lengths.max())), np.uint8)
    for row, frame in zip(rows, frames, strict=True):
        row[: len(frame)] = np.frombuffer(frame, np.uint8)
    return rows, lengths


TOLD_WRITE = {
    "psn": 0xA1A2A3,
    "opcode": 0xC9,
    "flags": 0xA0,
    "ev_index": 3,
    "msn": 0xB1B2,
    "rqmsn": 0xB3B4,
    "va": 0xC1C2C3C4C5C6C7C8,
    "rkey": 0xD1D2D3D4,
    "dmalen": 0xD5D6D7D8,
    "imm": 0xE1E2E3E4,
    "source_offset": 0,
    "payload_bytes": 8,
}
TOLD_SACK = {
    "cack_psn": 0xA1A2A3,
    "ack_psn_offset": 0x3132,
    "pr": 1,
    "rtx": 1,
    "m": 1,
    "ev": 0xB1B2B3B4,
    "spdcid": 0xC1C2,
    "dpdcid": 0xC3C4,
    "mpr": 0xC5,
    "sack_offset": 0x4142,
    "bitmap": 0xD1D2D3D4D5D6D7D8,
    "tx_timestamp": 0xE1E2,
    "ooo_count": 0x5152,
    "restore_cwnd": 1,
    "rcv_cwnd_pen": 0x41,
    "rcvd_bytes": 0xF1F2F3,
    "ev_index": 3,
}
