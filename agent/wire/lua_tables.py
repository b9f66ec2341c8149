"""Layouts and constants of the wire format as a Lua table, for the Wireshark dissector in docs/wireshark.

`python -m agent.wire.lua_tables docs/wireshark/mrc.lua` writes it between the two marker lines.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scapy.fields import (
    BitEnumField,
    BitField,
    ConditionalField,
    FieldListField,
    SignedShortField,
    X3BytesField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
    XStrFixedLenField,
)
from scapy.packet import Packet

from agent.wire import constants as c
from agent.wire import layers
from agent.wire.constants import Dscp, Ecn, EcnVerdict, Opcode
from agent.wire.ev import MAX_COPIES
from agent.wire.usid import CARRIER_USIDS, USID_BLOCK, UsidRole

BEGIN = "-- begin of what agent/wire/lua_tables.py writes"
END = "-- end of what agent/wire/lua_tables.py writes"

_FILTERS: tuple[tuple[type[Packet], str], ...] = (
    (layers.BTH, "mrc"),
    (layers.METH, "mrc.meth"),
    (layers.TSETH, "mrc.tseth"),
    (layers.RETH, "mrc.reth"),
    (layers.ImmDt, "mrc.immdt"),
    (layers.AETH, "mrc.ack"),
    (layers.SETH, "mrc.sack"),
    (layers.CC_STATE, "mrc.cc"),
    (layers.PortMask, "mrc.ports"),
    (layers.NETH, "mrc.nack"),
    (layers.PETH, "mrc.probe"),
    (layers.ERTH, "mrc.request"),
    (layers.EETH, "mrc.response"),
    (layers.Announce, "mrc.announce"),
)
"""Headers, each with the prefix of its display filters."""
_FILTER_NAMES = {"cack_psn": "cack", "entropy": "ev", "a": "ack_request", "nack_psn": "psn", "nack_reason": "reason"}
"""Display filters whose names differ from the specification's fields."""
_SHOWN_IN_HEX = (XByteField, X3BytesField, XShortField, XIntField, XLongField)


class Field(NamedTuple):
    """A header field for Wireshark: the whole bytes that hold it, and its bits within them."""

    name: str
    at: int
    """Bytes from the start of the header."""
    width: int
    """Number of bytes."""
    kind: str
    """A `ProtoField` constructor without its width; `list`: numbers of this width up to the end of the packet."""
    in_hex: bool
    mask: int | None
    values: Mapping[int, str]


def fields_of(layer: type[Packet]) -> list[Field]:
    """Return the fields of a header in wire order; without the ICRC, which ends the packet. A list comes last."""
    found: list[Field] = []
    run: list[Any] = []
    at = 0
    for field in layer.fields_desc:
        if field.name == "icrc":
            continue
        if isinstance(field, BitField | BitEnumField) and (run or field.size % 8):
            run.append(field)
            if sum(part.size for part in run) % 8 == 0:
                found += _fields_of_bits(run, at)
                at += sum(part.size for part in run) // 8
                run = []
            continue
        found.append(_field_of_bytes(field, at))
        at += found[-1].width
    return found


def _fields_of_bits(run: list[Any], at: int) -> Iterator[Field]:
    width = sum(part.size for part in run) // 8
    low = 8 * width
    for part in run:
        low -= part.size
        kind = "bool" if part.size == 1 else "uint"
        yield Field(part.name, at, width, kind, False, (1 << part.size) - 1 << low, _values_of(part))


def _field_of_bytes(field: Any, at: int) -> Field:
    if isinstance(field, ConditionalField):
        field = field.fld
    if isinstance(field, FieldListField):
        return Field(field.name, at, int(field.field.sz), "list", False, None, {})
    if isinstance(field, XStrFixedLenField):
        return Field(field.name, at, len(field.default), "bytes", False, None, {})
    kind = "int" if isinstance(field, SignedShortField) else "uint"
    return Field(field.name, at, int(field.sz), kind, isinstance(field, _SHOWN_IN_HEX), None, _values_of(field))


def _values_of(field: Any) -> Mapping[int, str]:
    return dict(getattr(field, "i2s", None) or {})


def lua_table() -> str:
    """Return Lua text that sets `local wire`."""
    lines = ["local wire = {"]
    lines += [f"  {name} = {value}," for name, value in _numbers()]
    lines.append("  headers = {")
    for layer, prefix in _FILTERS:
        lines += _header_lines(layer, prefix)
    return "\n".join([*lines, "  },", "}"])


def _numbers() -> Iterator[tuple[str, str]]:
    yield "ports", _list((c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT))
    yield "announce_port", str(c.UDP_PORT_ANNOUNCE)
    yield "announce_magic", f"{c.ANNOUNCE_MAGIC:#x}"
    yield "announce_close", str(int(c.AnnounceKind.CLOSE))
    yield "announce_elsewhere", str(int(c.AnnounceKind.ELSEWHERE))
    yield "icrc_bytes", str(c.ICRC_BYTES)
    yield "psn_modulus", str(1 << c.PSN_BITS)
    yield "bitmap_bits", str(c.SACK_BITMAP_BITS)
    yield "port_mask_nxt", f"{c.SETH_NXT_PORT_MASK:#x}"
    yield "port_mask_bits", str(8 * c.PORT_MASK_BYTES)
    yield "mpr_unit", str(c.MPR_UNIT_PSNS)
    yield "rcvd_unit", str(c.RCVD_BYTES_UNIT)
    yield "tick_ns", str(c.TX_TIMESTAMP_TICK_NS)
    yield "pkey", f"{c.PKEY:#x}"
    yield "ce", str(int(Ecn.CE))
    yield "reserved_verdict", str(max(EcnVerdict) + 1)
    yield "opcode_group", f"{Opcode.SACK >> 5:#x}"
    yield "spraycheck_mark", f"{c.SPRAYCHECK_MARK:#x}"
    yield "writes", _set(c.WRITE_OPCODES)
    yield "immediates", _set(c.IMMEDIATE_OPCODES)
    yield "behind_bth", _map(_quoted({opcode: layer.__name__ for opcode, layer in layers.CONTROL_LAYERS.items()}))
    yield "dscp", _map(_quoted({dscp.value: dscp.name for dscp in Dscp}))
    yield "trimmed", _set((Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP))
    yield "trimmed_lasthop", str(int(Dscp.TRIMMED_LASTHOP))
    yield "copies", str(MAX_COPIES)
    yield "usid_block", f"{USID_BLOCK:#x}"
    yield "usids", str(CARRIER_USIDS)
    yield "t1", f"{UsidRole.T1:#x}"
    yield "t0", f"{UsidRole.T0:#x}"
    yield "downlink", f"{UsidRole.DOWNLINK:#x}"


def _header_lines(layer: type[Packet], prefix: str) -> Iterator[str]:
    fields = fields_of(layer)
    size = max(field.at + field.width for field in fields if field.kind != "list")
    yield f'    {layer.__name__} = {{ bytes = {size}, name = "{layer().name}",'
    for field in fields:
        yield f"      {_field_line(field, prefix)},"
    yield "    },"


def _field_line(field: Field, prefix: str) -> str:
    said = [f'"{field.name}"', f'"{prefix}.{_FILTER_NAMES.get(field.name, field.name)}"']
    said += [f"at = {field.at}", f"width = {field.width}", f'kind = "{field.kind}"']
    said += ["hex = true"] if field.in_hex else []
    said += [f"mask = {field.mask:#x}"] if field.mask is not None else []
    said += [f"values = {_map(_quoted(field.values))}"] if field.values else []
    return "{ " + ", ".join(said) + " }"


def _list(numbers: tuple[int, ...]) -> str:
    return "{ " + ", ".join(str(int(number)) for number in numbers) + " }"


def _set(numbers: tuple[int, ...]) -> str:
    return _map({int(number): "true" for number in numbers})


def _quoted(names: Mapping[int, str]) -> dict[int, str]:
    return {number: f'"{name}"' for number, name in names.items()}


def _map(values: Mapping[int, str]) -> str:
    return "{ " + ", ".join(f"[{int(key):#x}] = {value}" for key, value in values.items()) + " }"


def rewritten(dissector: str) -> str:
    """Replace the table between the marker lines of the dissector's text. Raises ValueError without markers."""
    before, begin, rest = dissector.partition(BEGIN + "\n")
    _, end, after = rest.partition(END + "\n")
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return before + begin + lua_table() + "\n" + end + after


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewritten(path.read_text()))
