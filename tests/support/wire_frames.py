"""MRC frames of one flow, built by the real encoder: by default from host 3 on leaf 3 to host 4 on leaf 4."""

from collections.abc import Sequence

import numpy as np

from agent.wire.array.columns import Announcement, WriteBatch
from agent.wire.array.encode import encode_announcements, encode_writes, write_frame_bytes
from agent.wire.array.template import FlowTemplate, HostAddress, PortAddress
from agent.wire.constants import AnnounceKind, Opcode, SprayPolicyCode
from agent.wire.ev import EvCodec

SRC, DST, DQPN = 3, 4, 0x4001
PAYLOAD_BYTES = 24


def host(number: int) -> HostAddress:
    address = bytes.fromhex("fd5f") + bytes(13) + bytes([number])
    return HostAddress(address, leaf=number, slot=0, ports=(PortAddress(b"\x02" * 6, b"\x02" * 6),))


ENDS = (host(SRC), host(DST))


def ev(spine: int) -> int:
    return EvCodec().ev_of(0, spine, SRC)


def write_frames(
    psns: Sequence[int],
    spine: int = 5,
    flags: int = 0,
    opcode: Opcode = Opcode.WRITE_MIDDLE,
    dqpn: int = DQPN,
    ends: Sequence[HostAddress] = ENDS,
    msn: int = 0,
    message_packets: int = 1,
) -> list[bytes]:
    """One write a PSN, all over one spine, not marked, of a message of `message_packets`."""
    n = len(psns)
    batch = WriteBatch(
        psn=np.array(psns, np.uint32),
        opcode=np.full(n, opcode, np.uint8),
        flags=np.full(n, flags, np.uint8),
        ev_index=np.zeros(n, np.uint16),
        msn=np.full(n, msn, np.uint16),
        rqmsn=np.zeros(n, np.uint16),
        va=np.zeros(n, np.uint64),
        rkey=np.zeros(n, np.uint32),
        dmalen=np.full(n, PAYLOAD_BYTES * message_packets, np.uint32),
        source_offset=np.zeros(n, np.int64),
        payload_bytes=np.full(n, PAYLOAD_BYTES, np.uint32),
        tx_timestamp=0,
        source=np.zeros(PAYLOAD_BYTES, np.uint8),
    )
    template = FlowTemplate.for_peer(*ends, dqpn, np.array([ev(spine)], np.uint32))
    out = np.zeros((n, write_frame_bytes(PAYLOAD_BYTES)), np.uint8)
    lengths = encode_writes(template, batch, out)
    return [row[:length].tobytes() for row, length in zip(out, lengths, strict=True)]


def write_frame(opcode: Opcode = Opcode.WRITE_MIDDLE) -> bytes:
    return write_frames([1], opcode=opcode)[0]


def announcement(
    *,
    packets: int,
    start_psn: int,
    last_psn: int,
    epoch: int = 1,
    spines: int = 2,
    spine: int = 0,
    dqpn: int = DQPN,
    dst_leaf: int = DST,
    ends: Sequence[HostAddress] = ENDS,
    end_psn: int | None = None,
    sent: Sequence[int] | None = None,
    plane: int = 0,
    kind: AnnounceKind = AnnounceKind.CLOSE,
) -> bytes:
    """An announcement of the flow, as sent over one spine; with `sent` by spine, one that closes it."""
    said = Announcement(
        epoch=epoch,
        plane=plane,
        policy=SprayPolicyCode.ROTATION,
        spines=spines,
        src_leaf=SRC,
        dst_leaf=dst_leaf,
        src_host=SRC,
        dst_host=DST,
        dqpn=dqpn,
        start_psn=start_psn,
        packets=packets,
        last_psn=last_psn,
        end_psn=last_psn if end_psn is None else end_psn,
    )
    shares = None if sent is None else np.array(sent, np.int64)
    return encode_announcements(*ends, np.array([ev(spine)], np.uint32), said, shares, kind=kind)[0]
