"""The Wireshark dissector says of every packet what `decode` says of it, and bears any bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
from scapy.utils import RawPcapWriter

from agent.wire import constants as c
from agent.wire.array.columns import Columns
from agent.wire.array.decode import Decoded, decode
from agent.wire.constants import Dscp, Ecn, NackReason, NakCode
from agent.wire.lua_tables import rewritten
from tests.support import wire_frames as flow
from tests.support.tshark import number, run_tshark
from tests.unit.agent.wire.test_control import KINDS
from tests.unit.agent.wire.wire_frames import (
    EVS,
    PEER,
    SACK_TYPES,
    SOURCE_BYTES,
    block_of,
    scapy_sack,
    scapy_write,
)

LUA = Path(__file__).parents[4] / "docs" / "wireshark" / "mrc.lua"
tshark = pytest.mark.skipif(which("tshark") is None, reason="tshark is not installed (apt install tshark)")

Layers = dict[str, list[str]]
BTH = {"psn": "mrc.psn", "dqpn": "mrc.dqp"}
OF_FRAME = {"ev": "mrc.ev", "ce": "mrc.ce"}
FILTERS: dict[str, dict[str, str]] = {
    "writes": BTH
    | OF_FRAME
    | {
        "opcode": "mrc.opcode",
        "flags": "mrc.flags",
        "trimmed": "mrc.trimmed",
        "trimmed_lasthop": "mrc.trimmed_lasthop",
        "msn": "mrc.meth.msn",
        "rqmsn": "mrc.meth.rqmsn",
        "tx_timestamp": "mrc.tseth.tx_timestamp",
        "va": "mrc.reth.va",
        "rkey": "mrc.reth.rkey",
        "dmalen": "mrc.reth.dmalen",
        "imm": "mrc.immdt.imm",
        "payload_bytes": "mrc.payload_bytes",
    },
    "sacks": {
        "cack_psn": "mrc.sack.cack",
        "ack_psn_offset": "mrc.sack.ack_psn_offset",
        "pr": "mrc.sack.pr",
        "rtx": "mrc.rtx",
        "m": "mrc.sack.m",
        "ev": "mrc.sack.ev",
        "spdcid": "mrc.sack.spdcid",
        "dpdcid": "mrc.sack.dpdcid",
        "mpr": "mrc.sack.mpr",
        "sack_offset": "mrc.sack.sack_offset",
        "bitmap": "mrc.sack.sack_bitmap",
        "tx_timestamp": "mrc.cc.tx_timestamp",
        "ooo_count": "mrc.cc.ooo_count",
        "restore_cwnd": "mrc.cc.restore_cwnd",
        "rcv_cwnd_pen": "mrc.cc.rcv_cwnd_pen",
        "rcvd_bytes": "mrc.cc.rcvd_bytes",
        "port_mask": "mrc.ports.port_mask",
        "dqpn": "mrc.dqp",
    },
    "acks": BTH | {"syndrome": "mrc.ack.syndrome", "msn": "mrc.ack.msn"},
    "nacks": {
        "nack_psn": "mrc.nack.psn",
        "nack_reason": "mrc.nack.reason",
        "vendor_info": "mrc.nack.vendor_info",
        "ev": "mrc.nack.ev",
        "spdcid": "mrc.nack.spdcid",
        "dpdcid": "mrc.nack.dpdcid",
        "tx_timestamp": "mrc.nack.tx_timestamp",
        "dqpn": "mrc.dqp",
    },
    "probes": OF_FRAME
    | {name: f"mrc.probe.{name}" for name in ("probe_id", "spdcid", "dpdcid", "tx_timestamp", "tsr")}
    | {"dqpn": "mrc.dqp"},
    "endpoint_requests": {
        "op": "mrc.request.op",
        "request_id": "mrc.request_id",
        "port_status_mask": "mrc.request.port_status_mask",
        "tx_timestamp": "mrc.request.tx_timestamp",
        "ev": "mrc.ev",
        "dqpn": "mrc.dqp",
    },
    "endpoint_responses": {
        "op": "mrc.response.op",
        "request_id": "mrc.request_id",
        "tx_timestamp": "mrc.response.tx_timestamp",
        "ev": "mrc.ev",
        "dqpn": "mrc.dqp",
    },
}
"""Of every column that is a number of the packet, the display filter that must say the same."""
ELSEWHERE = {"plane", "memory", "payload_offset", "source_address", "source"}
"""Columns that tell where the packet came in and lies, and the address, which is IPv6's to show."""
ZERO_IF_ABSENT = {"va", "rkey", "dmalen", "imm", "tx_timestamp", "payload_bytes", "port_mask"}


def dissected(frames: list[bytes], folder: Path, originals: list[int] | None = None) -> list[Layers]:
    """Of each frame every field that tshark finds, by name; `originals`: bytes on the wire."""
    pcap = folder / "frames.pcap"
    write_pcap(pcap, frames, originals)
    options = ("-T", "json", "--no-duplicate-keys", "-o", "udp.ignore_ipv6_zero_checksum:TRUE")
    done = run_tshark(pcap, options, [LUA])
    assert "Lua" not in done.stderr, done.stderr
    assert "Lua Error" not in done.stdout
    return [flattened(packet["_source"]["layers"]) for packet in json.loads(done.stdout)]


def write_pcap(pcap: Path, frames: list[bytes], originals: list[int] | None = None) -> None:
    with RawPcapWriter(str(pcap), linktype=1, nano=False) as writer:
        writer.write_header(None)
        for i, frame in enumerate(frames):
            writer.write_packet(frame, sec=i, usec=0, wirelen=originals[i] if originals else len(frame))


def flattened(layers: dict[str, Any]) -> Layers:
    found: Layers = {}
    for name, value in pairs_of(layers):
        found.setdefault(name, []).append(value)
    return found


def pairs_of(tree: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        for entry in value if isinstance(value, list) else [value]:
            yield name, "" if isinstance(entry, dict) else str(entry)
            if isinstance(entry, dict):
                yield from pairs_of(entry)


def random_numbers(rng: np.random.Generator, bits: int) -> int:
    """Of so many bits, the ends often."""
    ends = (0, 1, (1 << bits) - 2, (1 << bits) - 1)
    return int(rng.choice(ends)) if rng.random() < 0.3 else int(rng.integers(0, 1 << bits, dtype=np.uint64))


SIGNED = ("ack_psn_offset", "sack_offset")
SACK_BITS = {"m": 1, "ev": 32, "bitmap": 63, "cack_psn": 24, "mpr": 8, "ooo_count": 15, "rcv_cwnd_pen": 7}
SACK_BITS |= {"rcvd_bytes": 24, "ack_psn_offset": 16, "sack_offset": 16}


def random_sack(rng: np.random.Generator) -> dict[str, int]:
    bits = {name: 1 if kind is np.bool_ else 16 for name, kind in SACK_TYPES.items()} | SACK_BITS
    row = {name: random_numbers(rng, width) for name, width in bits.items()}
    row |= {name: row[name] - (1 << 15) for name in SIGNED}
    row["bitmap"] = row["bitmap"] << 1 | row["m"]
    return row | {"ev_index": int(rng.integers(len(EVS)))}


def random_write(rng: np.random.Generator) -> dict[str, int]:
    bits = {"psn": 24, "msn": 16, "rqmsn": 16, "va": 64 - 1, "rkey": 32, "dmalen": 32, "imm": 32}
    row = {name: random_numbers(rng, width) for name, width in bits.items()}
    row["opcode"] = int(rng.choice(c.WRITE_OPCODES))
    row["flags"] = int(rng.choice([0, 0x80, 0x20, 0xA0]))
    row["ev_index"] = int(rng.integers(len(EVS)))
    row["payload_bytes"] = int(rng.choice([0, 1, 2, 3, 4, 61, 256]))
    row["source_offset"] = int(rng.integers(SOURCE_BYTES // 2))
    return row


FIXED = {
    "syndrome": (c.AETH_ACK, *(c.AETH_NAK + code for code in NakCode)),
    "nack_reason": tuple(NackReason),
    "op": (0, 1),
}
CONTROL_BITS = {np.uint8: 8, np.uint16: 16, np.uint32: 32, np.bool_: 1}
CONTROL_BITS_OF = {"psn": 24, "msn": 24, "nack_psn": 24}


def random_control(rng: np.random.Generator, kind: Any) -> bytes:
    row = {}
    for name, (dtype, _) in kind.fields.items():
        bits = CONTROL_BITS_OF.get(name, CONTROL_BITS[dtype])
        row[name] = int(rng.choice(FIXED[name])) if name in FIXED else random_numbers(rng, bits)
    frame: bytes = kind.frame(row | {"ev_index": int(rng.integers(len(EVS)))})
    return frame


def random_frames(seed: int, each: int) -> list[bytes]:
    """So many of every kind: writes with and without time stamp, congested, trimmed, marked, resent; all control."""
    rng = np.random.default_rng(seed)
    frames = []
    for i in range(each):
        row = random_write(rng)
        ecn = int(rng.choice(list(Ecn)))
        stamp = None if rng.random() < 0.3 else random_numbers(rng, 16)
        frames.append(bytes(scapy_write(row, tx_timestamp=stamp, traffic_class=Dscp.TRIMMABLE << 2 | ecn)))
        frames.append(marked(bytes(scapy_write(random_write(rng)))))
        frames.append(trimmed(bytes(scapy_write(row)), rng, Dscp.TRIMMED if i % 2 else Dscp.TRIMMED_LASTHOP))
        frames.append(bytes(scapy_sack(random_sack(rng))))
        frames.append(bytes(scapy_sack(random_sack(rng), port_mask=random_numbers(rng, 32))))
        frames += [random_control(rng, kind) for kind in KINDS]
    return frames


def marked(frame: bytes) -> bytes:
    """As a source leaf marks it for SprayCheck."""
    return frame[:106] + bytes([frame[106] | c.SPRAYCHECK_MARK]) + frame[107:]


def trimmed(frame: bytes, rng: np.random.Generator, dscp: Dscp) -> bytes:
    """As a switch would trim it: another class, the outer length rewritten, at least BTH, METH and TSETH kept."""
    kept = int(rng.integers(122, min(len(frame), 142)))
    word = 6 << 28 | dscp << 22 | int.from_bytes(frame[14:18]) & 0xFFFFF
    return frame[:14] + word.to_bytes(4) + (kept - 54).to_bytes(2) + frame[20:kept]


def decoded_rows(decoded: Decoded) -> Iterator[tuple[str, Columns, int]]:
    """Every accepted packet: its kind, the columns it is in and its row there, in order within each kind."""
    for kind in FILTERS:
        columns = getattr(decoded, kind)
        for row in range(0 if columns is None else len(columns)):
            yield kind, columns, row


KIND_OF_OPCODE = {0xD1: "acks", 0xDC: "sacks", 0xDD: "nacks", 0xDE: "probes"}
KIND_OF_OPCODE |= {0xD8: "endpoint_requests", 0xD9: "endpoint_responses"} | dict.fromkeys(c.WRITE_OPCODES, "writes")


@tshark
def test_the_dissector_says_what_decode_says(tmp_path):
    frames = random_frames(seed=1, each=40)
    decoded = decode(*block_of(frames), PEER.address, plane=0)
    assert decoded.rejected == {}
    packets = iter_by_kind(frames, dissected(frames, tmp_path))
    compared = dict.fromkeys(FILTERS, 0)
    for kind, columns, row in decoded_rows(decoded):
        packet = packets[kind].pop(0)
        compared[kind] += 1
        for column, name in FILTERS[kind].items():
            values = getattr(columns, column)
            expected = 0 if values is None else int(values[row])
            shown = packet.get(name, ["0"] if column in ZERO_IF_ABSENT else [])
            assert [number(text) for text in shown] == [expected], f"{kind} {row} {column}"
    assert not any(packets.values())
    assert min(compared.values()) >= 40


def iter_by_kind(frames: list[bytes], packets: list[Layers]) -> dict[str, list[Layers]]:
    found: dict[str, list[Layers]] = {kind: [] for kind in FILTERS}
    for frame, packet in zip(frames, packets, strict=True):
        found[KIND_OF_OPCODE[frame[102]]].append(packet)
    return found


def test_every_column_is_compared():
    decoded = decode(*block_of(random_frames(seed=2, each=1)), PEER.address, plane=0)
    for kind, names in FILTERS.items():
        columns = getattr(decoded, kind)
        assert {field.name for field in fields(columns)} - ELSEWHERE == names.keys(), kind


@tshark
def test_paths_marks_and_expert_marks(tmp_path):
    frames = random_frames(seed=3, each=10)
    for frame, packet in zip(frames, dissected(frames, tmp_path), strict=True):
        is_write, is_trimmed = frame[102] in c.WRITE_OPCODES, int.from_bytes(frame[14:18]) >> 22 & 0x3F in (12, 16)
        rtx = frame[110] & c.BTH_RETRANSMISSION != 0
        assert ("mrc.expert.trimmed" in packet) == is_trimmed
        assert ("mrc.expert.retransmission" in packet) == (rtx and is_write)
        assert packet["mrc.spraycheck_mark"] == [str(frame[106] & 1)]
        assert not [name for name in packet if name in ("mrc.expert.short", "mrc.expert.reserved", "mrc.expert.rest")]
        assert [name for name in packet if "malformed" in name.lower() and not is_trimmed] == []
        plane, spine = str(frame[44] & 0xF), str(frame[45])
        assert (packet["mrc.ev.plane"], packet["mrc.ev.spine"]) == ([plane], [spine])
        assert packet["mrc.usid.t0"] == ["3", "7"]
        assert packet["mrc.usid.t1"] == [spine]
        assert packet["mrc.usid.downlink"] == ["1"]
        assert packet["mrc.usid.plane"] == [plane] * 4


@tshark
def test_two_shifts_leave_the_rest_of_the_path(tmp_path):
    """Behind the spine only the last leaf and its downlink are left."""
    frame = bytearray(scapy_write(random_write(np.random.default_rng(4))).build())
    frame[42:54] = frame[46:54] + bytes(4)
    packet = dissected([bytes(frame)], tmp_path)[0]
    assert (packet["mrc.usid.t0"], packet["mrc.usid.downlink"], "mrc.usid.t1" in packet) == (["7"], ["1"], False)


@tshark
def test_a_sacks_bitmap_is_drawn(tmp_path):
    row = random_sack(np.random.default_rng(5)) | {"cack_psn": 0xFFFFFE, "sack_offset": 1, "bitmap": 0b1011010}
    row |= {"pr": 0, "ack_psn_offset": 5, "ev": int(EVS[7])}
    probe = row | {"pr": 1, "ack_psn_offset": -1, "bitmap": 0}
    told, silent = dissected([bytes(scapy_sack(row)), bytes(scapy_sack(probe))], tmp_path)
    assert told["mrc.sack.drawn"][0].startswith(".#.##.#. ........ ")
    assert told["mrc.sack.received"] == ["0", "2", "3", "5"]
    assert told["mrc.sack.missing"] == ["16777215", "1", "4"]
    assert told["mrc.sack.trigger_psn"] == ["3"]
    assert (told["mrc.sack.ev.spine"], told["mrc.sack.ev.plane"]) == (["3"], ["0"])
    assert silent["mrc.sack.probe_id"] == ["0xffff"]
    assert not {"mrc.sack.received", "mrc.sack.missing", "mrc.sack.trigger_psn"} & silent.keys()


@tshark
def test_announcements(tmp_path):
    said = {"packets": 1000, "start_psn": 0xFFFFFE, "last_psn": 900, "epoch": 7, "spines": 8, "dqpn": 0x3001}
    packet = dissected([flow.announcement(spine=5, **said)], tmp_path)[0]
    assert {name: number(packet[f"mrc.announce.{name}"][0]) for name in said} == said
    assert packet["mrc.usid.t1"] == ["5"]
    assert "mrc.announce.shares" not in packet


def test_what_closes_a_flow_tells_its_shares(tmp_path):
    frame = flow.announcement(packets=9, start_psn=0, last_psn=8, spines=3, sent=[4, 0, 70000])
    packet = dissected([frame], tmp_path)[0]
    assert [number(each) for each in packet["mrc.announce.shares"]] == [4, 0, 70000]


def hostile(seed: int, count: int) -> list[bytes]:
    """Frames to the three ports: cut anywhere, bytes changed behind UDP, random behind UDP."""
    rng = np.random.default_rng(seed)
    whole = [*random_frames(seed, 2), flow.announcement(packets=9, start_psn=0, last_psn=8)]
    whole.append(flow.announcement(packets=9, start_psn=0, last_psn=8, spines=2, sent=[4, 5]))
    frames = []
    for i in range(count):
        frame = bytearray(whole[i % len(whole)])
        if i % 3 == 0:
            frame = frame[: int(rng.integers(14, len(frame)))]
        elif i % 3 == 1:
            frame[int(rng.integers(14, len(frame)))] = int(rng.integers(256))
        else:
            frame[102:] = bytes([int(rng.integers(0xC0, 0xE0))]) + rng.bytes(int(rng.integers(0, 90)))
        frames.append(mended(bytes(frame)) if i % 2 else bytes(frame))
    return frames


def mended(frame: bytes) -> bytes:
    """The lengths of IPv6 and UDP made those of the bytes present, so that our headers are what is too short."""
    if len(frame) < 102:
        return frame
    udp = (len(frame) - 94).to_bytes(2)
    return frame[:18] + (len(frame) - 54).to_bytes(2) + frame[20:58] + udp + frame[60:98] + udp + frame[100:]


@tshark
def test_any_bytes_are_borne(tmp_path):
    frames = hostile(seed=6, count=1500)
    packets = dissected(frames, tmp_path)
    assert len(packets) == len(frames)
    for name in ("mrc.expert.short", "mrc.expert.reserved", "mrc.expert.rest"):
        assert any(name in packet for packet in packets), name


@tshark
def test_what_was_not_captured_is_not_malformed(tmp_path):
    """Captures hold the first bytes of a packet only."""
    whole = random_frames(seed=7, each=1)
    cuts = [(frame[:cut], len(frame)) for frame in whole for cut in range(103, len(frame), 3)]
    packets = dissected([frame for frame, _ in cuts], tmp_path, [length for _, length in cuts])
    for (frame, _), packet in zip(cuts, packets, strict=True):
        assert "mrc.expert.short" not in packet
        assert len(frame) < 114 or packet["mrc.opcode"] == [f"0x{frame[102]:02x}"]


@tshark
def test_other_opcodes_go_to_wiresharks_roce(tmp_path):
    frame = bytearray(scapy_write(random_write(np.random.default_rng(8))).build())
    frame[102] = 0x0A
    packet = dissected([bytes(frame)], tmp_path)[0]
    assert "infiniband.bth.opcode" in packet
    assert "mrc.opcode" not in packet


def packet_list(pcap: Path, *options: str, scripts: tuple[Path, ...] = (LUA,)) -> list[str]:
    """The lines of Wireshark's packet list."""
    done = run_tshark(pcap, options, scripts)
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@tshark
def test_the_packet_list_is_the_same_with_and_without_trees_of_packets(tmp_path):
    """Without a filter on MRC no tree is built for plain writes, which is faster."""
    pcap = tmp_path / "frames.pcap"
    frames = random_frames(seed=10, each=20)
    write_pcap(pcap, frames)
    lines = packet_list(pcap)
    assert lines == packet_list(pcap, "-Y", "mrc || udp")
    assert len(lines) == len(frames)
    assert sum("WRITE_" in line and "[" not in line for line in lines) >= 5
    marked = packet_list(pcap, "-q", "-z", "expert")
    assert any("Retransmission" in line for line in marked)


@tshark
def test_a_second_copy_of_the_dissector_does_no_harm(tmp_path):
    """It may lie in the plug-in folder while a command loads it by -X."""
    second = tmp_path / "second.lua"
    second.write_text(LUA.read_text())
    pcap = tmp_path / "one.pcap"
    write_pcap(pcap, [bytes(scapy_write(random_write(np.random.default_rng(9))))])
    assert packet_list(pcap, scripts=(LUA, second)) == packet_list(pcap)


@tshark
def test_the_filters_of_the_document_are_filters(tmp_path):
    text = (LUA.parent / "README.md").read_text()
    named = re.findall(r"`(mrc\.(?!lua)[a-z0-9_.]+)`", text)
    examples = [line.split("   ")[0].strip() for line in text.splitlines() if line.startswith("mrc.")]
    assert len(named) > 50
    assert len(examples) == 4
    pcap = tmp_path / "one.pcap"
    write_pcap(pcap, [bytes(scapy_write(random_write(np.random.default_rng(9))))])
    wanted = " || ".join(f"({one})" for one in dict.fromkeys([*named, *examples]))
    done = run_tshark(pcap, ("-Y", wanted), [LUA], check=False)
    assert done.returncode == 0, done.stderr
    assert "WRITE_" in done.stdout


def test_the_dissectors_table_is_that_of_the_wire():
    """`python -m agent.wire.lua_tables docs/wireshark/mrc.lua` after a change."""
    text = LUA.read_text()
    assert rewritten(text) == text


def test_a_file_without_markers_is_refused():
    with pytest.raises(ValueError, match="begin of what"):
        rewritten("-- nothing here\n")
