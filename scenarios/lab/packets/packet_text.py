"""Describes a packet on a link in words and as a record, and matches it with a filter. Pure, but loads Scapy.

It uses the layers' own names (`agent.wire.layers`); hosts and paths are those of the fabric.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from agent.wire.ev import EvCodec, EvError
from agent.wire.layers import (
    AETH,
    BTH,
    EETH,
    ENDPOINT_OPS,
    ERTH,
    METH,
    NETH,
    OPCODES,
    PETH,
    RETH,
    SETH,
    Announce,
    ImmDt,
    PortMask,
    ev_of,
    is_trimmed,
    ports_text,
    ranges_text,
    sack_ranges,
)
from scenarios.errors import UsageError
from testbed.model.addressing import host_address
from testbed.model.fabric import Fabric
from testbed.model.node_names import those_there_are

Record = dict[str, Any]

KINDS = {
    "write": tuple(code for code, name in OPCODES.items() if name.startswith("WRITE")),
    "ack": (0xD1,),
    "endpoint": (0xD8, 0xD9),
    "sack": (0xDC,),
    "nack": (0xDD,),
    "probe": (0xDE,),
}
"""Words of a filter, and the opcodes that they mean."""

WORDS = (
    *KINDS, "announce", "rtx", "trimmed",
    "plane=0", "spine=5", "psn=10-20", "qp=0x3001", "ev=0xc0001105", "from=h0", "to=h5",
)  # fmt: skip
"""All words of a filter, with an example of the value."""


class PacketWords:
    """Describes packets of one fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._hosts = {str(host_address(host)): host for host in range(fabric.host_count)}
        self._codec = EvCodec()

    def record(self, packet: Packet, time_s: float, where: str) -> Record:
        """Return a packet's fields; missing fields are left out."""
        found: Record = {"time": _time_text(time_s), "link": where, "bytes": len(packet)}
        inner = packet[IPv6].payload if IPv6 in packet and isinstance(packet[IPv6].payload, IPv6) else None
        if inner is None or not (BTH in packet or Announce in packet):
            return found | {"opcode": "not MRC", "summary": packet.summary()}
        found |= {"source": self._host(inner.src), "destination": self._host(inner.dst)}
        if Announce in packet:
            return found | {"opcode": "ANNOUNCE", "summary": packet[Announce].mysummary()}
        bth, ev = packet[BTH], ev_of(packet)
        found |= {"opcode": OPCODES.get(bth.opcode, f"{bth.opcode:#04x}"), "qp": bth.dqp, "psn": bth.psn}
        if ev is not None:
            found |= {"ev": f"{ev:#010x}"} | self._path(ev, inner)
        found |= {"rtx": True} if bth.rtx else {}
        found |= {"trimmed": True} if is_trimmed(bth) else {}
        return found | _said(packet)

    def _host(self, address: str) -> str:
        host = self._hosts.get(address)
        return address if host is None else f"h{host}"

    def _path(self, ev: int, inner: Packet) -> Record:
        try:
            path = self._codec.path_of(ev)
        except EvError:
            return {}
        ends = self._hosts.get(inner.src), self._hosts.get(inner.dst)
        near, far = (None if host is None else self._fabric.leaf_of(host) for host in ends)
        turn = f"leaf{near} > spine{path.spine} > leaf{far}" if path.spine is not None else f"leaf{path.leaf}"
        return {"plane": path.plane, "spine": path.spine, "path": f"p{path.plane}: {turn}"}


def line_of(record: Record) -> str:
    """Format a record in one line."""
    said = [record["time"].partition("T")[2], f"{record['link']:<18}"]
    if "summary" in record:
        return " ".join([*said, record["summary"]])
    said.append(f"{record['source']} > {record['destination']} {record['opcode']:<17}")
    said.append(f"qp {record['qp']:#06x} psn {record['psn']:<8}")
    if "path" in record:
        said.append(f"ev {record['ev']} ({record['path']})")
    said += [f"{name.replace('_', ' ')} {value}" for name, value in record.items() if name in _SHOWN]
    return " ".join([*said, *(name for name in ("rtx", "trimmed") if record.get(name))])


_SHOWN = (
    "message",
    "va",
    "imm",
    "cack",
    "arrived",
    "answers",
    "probe_id",
    "reason",
    "syndrome",
    "messages_done",
    "of_ev",
    "op",
    "ports",
)


def _said(packet: Packet) -> Record:
    """Return fields of the headers after the BTH."""
    found: Record = {}
    for layer, say in _SAID:
        if layer in packet:
            found |= say(packet[layer])
    return found


def _sack_said(seth: Packet) -> Record:
    ranges = sack_ranges(seth.cack_psn, seth.sack_offset, seth.sack_bitmap)
    found: Record = {"cack": seth.cack_psn, "ranges": ranges}
    found |= {"arrived": ranges_text(ranges)} if ranges else {}
    found |= {"of_ev": f"{seth.entropy:#010x}"}
    return found | ({"answers": f"probe {seth.ack_psn_offset & 0xFFFF}"} if seth.pr else {})


def _ports(mask: int) -> str:
    """Format as `1, 2`."""
    return ports_text(mask).removeprefix("ports ")


def _endpoint_said(op: str, mask: int) -> Record:
    """Return the mask of a SACK; a probe has none."""
    return {"op": op} | ({"ports": _ports(mask)} if op == ENDPOINT_OPS[0] else {})


_SAID: tuple[tuple[type[Packet], Callable[[Packet], Record]], ...] = (
    (METH, lambda meth: {"message": meth.msn}),
    (RETH, lambda reth: {"va": f"{reth.va:#x}"}),
    (ImmDt, lambda immediate: {"imm": f"{immediate.imm:#x}"}),
    (SETH, _sack_said),
    (PortMask, lambda mask: {"ports": _ports(mask.port_mask)}),
    (NETH, lambda neth: {"reason": neth.sprintf("%NETH.nack_reason%"), "of_ev": f"{neth.entropy:#010x}"}),
    (PETH, lambda peth: {"probe_id": peth.probe_id}),
    (AETH, lambda aeth: {"syndrome": aeth.sprintf("%AETH.syndrome%"), "messages_done": aeth.msn}),
    (ERTH, lambda erth: _endpoint_said(erth.sprintf("%ERTH.op%"), erth.port_status_mask)),
    (EETH, lambda eeth: {"op": eeth.sprintf("%EETH.op%")}),
)


def _time_text(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Filter:
    """A filter of packets: any of the kinds, and all other conditions."""

    def __init__(self, words: Sequence[str], fabric: Fabric) -> None:
        """Parse the filter. Raises `UsageError` with all unknown words, or names that the fabric does not have."""
        self._kinds: list[str] = []
        self._rules: list[Callable[[Record], bool]] = []
        self._fabric = fabric
        wrong = [word[:40] for word in words if not self._add(word.lower())]
        if wrong:
            raise UsageError(f"{_no_words(wrong)} of a filter; these are {', '.join(WORDS)}")
        absent = [found for word in words if (found := self._absent(*word.lower().partition("=")[::2]))]
        if absent:
            raise UsageError("; ".join(absent))

    def takes(self, record: Record) -> bool:
        """Return whether a record matches."""
        named = [OPCODES[code] for kind in self._kinds for code in KINDS.get(kind, ())]
        if self._kinds and record["opcode"] not in [*named, *(["ANNOUNCE"] if "announce" in self._kinds else [])]:
            return False
        return all(rule(record) for rule in self._rules)

    def _add(self, word: str) -> bool:
        """Return whether it is a word of a filter."""
        name, mark, value = word.partition("=")
        if not mark and (name in KINDS or name == "announce"):
            self._kinds.append(name)
        elif not mark and name in ("rtx", "trimmed"):
            self._rules.append(lambda record: bool(record.get(name)))
        elif mark and name in ("from", "to") and re.fullmatch("h[0-9]+", value):
            end = "source" if name == "from" else "destination"
            self._rules.append(lambda record: record.get(end) == value)
        elif mark and (limits := _range(name, value)) is not None:
            self._rules.append(lambda record: _is_within(record.get(name), limits))
        else:
            return False
        return True

    def _absent(self, name: str, value: str) -> str | None:
        """Report a host, plane or spine that the fabric does not have; it would wait for ever."""
        spec = self._fabric.spec
        counts = {"from": self._fabric.host_count, "to": self._fabric.host_count}
        counts |= {"plane": spec.planes, "spine": spec.spines}
        if name not in counts:
            return None
        limits = _range("psn", value.removeprefix("h"))
        if limits is None or limits[0] < counts[name]:
            return None
        kind, letter = ("host", "h") if name in ("from", "to") else (name, "")
        return f"'{name}={value}': no such {kind} ({those_there_are(kind, letter, counts[name])})"


def _no_words(wrong: Sequence[str]) -> str:
    """Format `'a' is no word`, `'a' and 'b' are no words`."""
    *others, last = map(repr, wrong)
    return f"{', '.join(others)} and {last} are no words" if others else f"{last} is no word"


def _range(name: str, value: str) -> tuple[int, int] | None:
    """Return the numbers; None if the text has none."""
    number = "(0x[0-9a-f]{1,8}|[0-9]{1,10})"
    found = re.fullmatch(f"{number}(?:-{number})?", value)
    if name not in ("plane", "spine", "psn", "qp", "ev") or found is None:
        return None
    first = int(found[1], 0) if found[1].startswith("0x") else int(found[1])
    last = first if found[2] is None else int(found[2], 0) if found[2].startswith("0x") else int(found[2])
    return first, last


def _is_within(value: int | str | None, limits: tuple[int, int]) -> bool:
    if value is None:
        return False
    number = int(value, 16) if isinstance(value, str) else value
    return limits[0] <= number <= limits[1]
