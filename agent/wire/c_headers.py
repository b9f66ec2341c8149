"""The wire format for programs in C: a generated header of offsets and constants.

How a frame is read is a hand-written header. `c_struct` converts layouts that such a program shares with Python.
Compiles nothing.
"""

from collections.abc import Iterator
from pathlib import Path

from agent.wire import constants as c
from agent.wire.dtypes import ANNOUNCE_FRAME, SACK_FRAME, SHARE, WRITE_FRAME, Record

_FRAME_HEADER = Path(__file__).parent / "bpf" / "mrc_frame.h"
_C_TYPES = {1: "__u8", 2: "__u16", 4: "__u32", 8: "__u64"}


def wire_headers() -> dict[str, str]:
    """Return the headers, by file name, that an eBPF program includes to read MRC frames."""
    return {"mrc.h": mrc_header(), _FRAME_HEADER.name: _FRAME_HEADER.read_text(encoding="utf-8")}


def c_struct(name: str, layout: Record) -> list[str]:
    """Return a C struct of the layout, and a compile-time check that both sides have the same size.

    A field called `lock` is a kernel spin lock.
    """
    assert layout.fields is not None
    lines = [f"struct {name} {{"]
    for field, (kind, *_) in layout.fields.items():
        many = f"[{kind.shape[0]}]" if kind.shape else ""
        type_name = "struct bpf_spin_lock" if field == "lock" else _C_TYPES[kind.base.itemsize]
        lines.append(f"\t{type_name} {field}{many};")
    return [*lines, "};", f'_Static_assert(sizeof(struct {name}) == {layout.itemsize}, "{name}");', ""]


def mrc_header() -> str:
    """Return `#define` lines: offsets in the frame (`MRC_OFF_BTH_OPCODE`), lengths, ports, opcodes, flag bits.

    Offsets hold for IPv6-in-IPv6 without routing header; RETH's for a write with TSETH. Words that mix bit fields have
    the name they have here: `MRC_OFF_BTH_PSN_WORD` is flags(8) psn(24).
    """
    lines = ["/* Generated from agent.wire.dtypes and agent.wire.constants; do not edit. */"]
    lines += ["#ifndef SPRAYLAB_MRC_H", "#define SPRAYLAB_MRC_H", ""]
    lines += [f"#define {name} {value}" for name, value in _offsets()]
    lines += [""]
    lines += [f"#define {name} {value:#x}" for name, value in _constants()]
    lines += ["", "#endif", ""]
    return "\n".join(lines)


def _offsets() -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for frame in (WRITE_FRAME, SACK_FRAME, ANNOUNCE_FRAME):
        for name, offset in _fields_of(frame):
            if name not in seen:
                seen.add(name)
                yield name, offset
    yield "MRC_WRITE_HEADERS_BYTES", WRITE_FRAME.itemsize
    yield "MRC_SACK_FRAME_BYTES", SACK_FRAME.itemsize
    yield "MRC_ANNOUNCE_FRAME_BYTES", ANNOUNCE_FRAME.itemsize
    yield "MRC_OFF_SHARES", ANNOUNCE_FRAME.itemsize
    yield "MRC_SHARE_BYTES", SHARE.itemsize


def _fields_of(frame: Record) -> Iterator[tuple[str, int]]:
    assert frame.fields is not None
    for header, (layout, start, *_) in frame.fields.items():
        if layout.fields is None:
            continue  # the trailing ICRC: its place depends on the payload
        yield f"MRC_OFF_{header.upper()}", start
        for name, (_, offset, *_) in layout.fields.items():
            yield f"MRC_OFF_{header.upper()}_{name.upper()}", start + offset


def _constants() -> Iterator[tuple[str, int]]:
    yield "MRC_ETHERTYPE_IPV6", c.ETHERTYPE_IPV6
    yield "MRC_NH_IPV6", c.NEXT_HEADER_IPV6
    yield "MRC_NH_UDP", c.NEXT_HEADER_UDP
    yield "MRC_PORT", c.UDP_PORT_MRC
    yield "MRC_PORT_ALT", c.UDP_PORT_MRC_ALT
    yield "MRC_PORT_ANNOUNCE", c.UDP_PORT_ANNOUNCE
    yield "MRC_ANNOUNCE_MAGIC", c.ANNOUNCE_MAGIC
    yield "MRC_ANNOUNCE_VERSION", c.ANNOUNCE_VERSION
    yield "MRC_ANNOUNCE_OPEN", c.AnnounceKind.OPEN
    yield "MRC_ANNOUNCE_CLOSE", c.AnnounceKind.CLOSE
    yield "MRC_ANNOUNCE_ELSEWHERE", c.AnnounceKind.ELSEWHERE
    yield "MRC_PSN_MASK", c.PSN_MASK
    yield "MRC_QPN_MASK", c.QPN_MASK
    yield "MRC_SPRAYCHECK_MARK", c.SPRAYCHECK_MARK
    yield "MRC_FLAG_ACK_REQUEST", c.BTH_ACK_REQUEST
    yield "MRC_FLAG_RTX", c.BTH_RETRANSMISSION
    yield "MRC_FLAG_TS", c.BTH_TIMESTAMP
    for opcode in c.Opcode:
        yield f"MRC_OP_{opcode.name}", opcode
    for dscp in c.Dscp:
        yield f"MRC_DSCP_{dscp.name}", dscp
