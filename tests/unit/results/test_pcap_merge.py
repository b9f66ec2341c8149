"""Captures of many ends as one pcapng: order, interface names, directions, times, and files that are none."""

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import PcapNgReader

from results.captures.merge import Merged, merge
from results.captures.tcpdump import CaptureEnd, ends_of
from results.errors import CaptureError
from testbed.model.addressing import mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import LinkId, NodeId, PortId
from tests.support.sudo_user import USER, as_user, needs_root

FABRIC = Fabric.of(FabricSpec(2, 8, 8, 1))
UPLINK = ends_of(LinkId(0, NodeId.leaf(0, 3), NodeId.spine(0, 5)))
DOWNLINK = ends_of(LinkId(1, NodeId.host(2), NodeId.leaf(1, 2)))
SECOND = 1_700_000_000


def pcap_bytes(packets: list[tuple[int, bytes]], order: str = "<", nano: bool = True, wire: int | None = None) -> bytes:
    """A pcap file of packets at so many nanoseconds behind SECOND."""
    magic, tick = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 256, 1)
    for at, frame in packets:
        data += (
            struct.pack(f"{order}IIII", SECOND + at // 10**9, at % 10**9 // tick, len(frame), wire or len(frame))
            + frame
        )
    return data


def frame_from(port: PortId, text: bytes) -> bytes:
    return bytes(6) + bytes.fromhex(mac_of(FABRIC, port).replace(":", "")) + b"\x86\xdd" + text


def captured(end: CaptureEnd, packets: list[tuple[int, bytes]], folder: Path, **form: Any) -> Path:
    file = folder / end.file_name
    file.write_bytes(pcap_bytes(packets, **form))
    return file


def read(path: Path) -> list[tuple[bytes, str, int, int, int]]:
    """Data, interface, direction flag, nanoseconds behind SECOND and length on the wire, by Scapy's reader."""
    with PcapNgReader(str(path)) as reader:
        reader.interfaces  # noqa: B018 - fails early where Scapy changes it
        packets = []
        while True:
            try:
                data, meta = reader._read_packet()
            except EOFError:
                return packets
            time_ns = (meta.tshigh << 32 | meta.tslow) - SECOND * 10**9
            packets.append((data, meta.ifname.decode(), meta.direction, time_ns, meta.wirelen))


@pytest.mark.parametrize("end", [*UPLINK, *DOWNLINK], ids=lambda end: end.file_name)
def test_a_files_name_tells_its_end(end):
    assert CaptureEnd.of_file_name(end.file_name) == end


@pytest.mark.parametrize(
    "name",
    ["x.pcap", "p0_leaf3-spine5.pcap", "p0_leaf3-spine5.leaf4-spine5.pcap", "p0_leaf3-leaf4.leaf3-leaf4.pcap", ""],
)
def test_other_names_tell_none(name):
    assert CaptureEnd.of_file_name(name) is None


def test_ends_become_directions_in_the_order_of_time(tmp_path):
    low, high = UPLINK
    up, down = frame_from(low.port, b"up"), frame_from(high.port, b"down")
    files = [
        captured(low, [(1_000_000_001, up), (3_000_000_000, down)], tmp_path),
        captured(high, [(1_000_000_002, up), (2_999_999_999, down)], tmp_path, order=">"),
    ]
    merged = merge(files, tmp_path / "all.pcapng")
    assert (merged.packets, merged.cut) == (4, ())
    assert read(tmp_path / "all.pcapng") == [
        (up, "p0:leaf3>spine5 at p0-leaf3", 2, 1_000_000_001, 16),
        (up, "p0:leaf3>spine5 at p0-spine5", 1, 1_000_000_002, 16),
        (down, "p0:spine5>leaf3 at p0-spine5", 2, 2_999_999_999, 18),
        (down, "p0:spine5>leaf3 at p0-leaf3", 1, 3_000_000_000, 18),
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_ports_of_hosts_and_of_leaves_to_them(tmp_path):
    host, leaf = DOWNLINK
    frame = frame_from(host.port, b"x")
    merge([captured(leaf, [(0, frame)], tmp_path), captured(host, [(0, frame)], tmp_path)], tmp_path / "o")
    assert [row[1] for row in read(tmp_path / "o")] == ["p1:h2>leaf2 at p1-leaf2", "p1:h2>leaf2 at h2"]


def test_microseconds_lengths_and_foreign_names_are_kept(tmp_path):
    file = tmp_path / "eth0.pcap"
    file.write_bytes(pcap_bytes([(5_000, b"a" * 20)], nano=False, wire=1500))
    merge([file], tmp_path / "o")
    assert [row[1:] for row in read(tmp_path / "o")] == [("eth0", None, 5_000, 1500)]


@pytest.mark.parametrize("bytes_off", [1, 5, 20, 21, 35])
def test_what_was_cut_off_ends_its_file_only_and_is_told(tmp_path, bytes_off):
    cut = captured(UPLINK[0], [(1, b"a" * 20), (2, b"b" * 20)], tmp_path)
    cut.write_bytes(cut.read_bytes()[:-bytes_off])
    whole = captured(UPLINK[1], [(3, b"c" * 20)], tmp_path)
    merged = merge([cut, whole], tmp_path / "o")
    assert (merged.packets, merged.cut) == (2, (cut,))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty"), (b"\x0a\x0d\x0d\x0a" + bytes(40), "has no byte order"), (b"x", "neither a pcap nor")],
)
def test_other_files_are_refused_and_nothing_is_left(tmp_path, content, said):
    file = tmp_path / "bad.pcap"
    file.write_bytes(content)
    with pytest.raises(CaptureError, match=said):
        merge([captured(UPLINK[0], [(1, b"a" * 20)], tmp_path), file], tmp_path / "o")
    assert not (tmp_path / "o").exists()


@needs_root
def test_under_sudo_what_is_merged_is_the_users_and_of_files_that_the_user_may_read(user_place: Path) -> None:
    end, _ = ends_of(LinkId.named("p0:leaf0-spine1"))
    own = captured(end, [(1, b"x" * 60)], user_place)
    roots = captured(end, [(1, b"x" * 60)], user_place.parent)
    roots.chmod(0o600)
    merge([own], user_place / "all.pcapng")
    assert (user_place / "all.pcapng").stat().st_uid == USER.uid
    as_user(os.symlink, roots, user_place / "planted.pcap")
    with pytest.raises(PermissionError):
        merge([own, user_place / "planted.pcap"], user_place / "more.pcapng")
    assert not (user_place / "more.pcapng").exists()


def test_packets_out_of_order_inside_a_file_are_put_in_order(tmp_path):
    port = UPLINK[0].port
    frames = [frame_from(port, bytes([at])) for at in range(5)]
    times = [3, 1, 4, 1, 2]
    file = captured(UPLINK[0], list(zip(times, frames, strict=True)), tmp_path)
    other = captured(UPLINK[1], [(2, b"b" * 20)], tmp_path)
    merge([file, other], tmp_path / "o")
    rows = read(tmp_path / "o")
    assert [row[3] for row in rows] == [1, 1, 2, 2, 3, 4]
    assert [row[0] for row in rows if row[3] == 1] == [frames[1], frames[3]]


def as_told(merged: Merged) -> list[tuple[bytes, str, int, int, int]]:
    return read(merged.path)


def test_what_it_wrote_is_read_again_also_packed(tmp_path):
    low, high = UPLINK
    up, down = frame_from(low.port, b"up"), frame_from(high.port, b"down")
    one = captured(low, [(1, up), (3, down)], tmp_path)
    two = captured(high, [(2, up), (4, down)], tmp_path)
    first = merge([one, two], tmp_path / "first.pcapng")
    again = merge([first.path], tmp_path / "again.pcapng")
    packed = tmp_path / "again.pcapng.gz"
    packed.write_bytes(gzip.compress(again.path.read_bytes()))
    unpacked = merge([packed], tmp_path / "unpacked.pcapng")
    assert as_told(first) == as_told(again) == as_told(unpacked)
    assert first.interfaces == again.interfaces == unpacked.interfaces


def test_a_packed_capture_of_a_link_is_as_the_file_itself(tmp_path):
    end = UPLINK[0]
    file = captured(end, [(1, frame_from(end.port, b"x")), (2, b"b" * 20)], tmp_path)
    plain = as_told(merge([file], tmp_path / "plain"))
    packed = tmp_path / f"{end.file_name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert as_told(merge([packed], tmp_path / "packed")) == plain
    packed.write_bytes(packed.read_bytes()[:-9])
    assert merge([packed], tmp_path / "cut").cut == (packed,)


@pytest.mark.parametrize("order", "<>")
def test_a_link_type_that_tells_of_a_checksum_is_kept_as_the_packets_flag(tmp_path, order):
    file = tmp_path / "eth0.pcap"
    data = bytearray(pcap_bytes([(1, b"a" * 20)], order=order))
    data[20:24] = struct.pack(f"{order}I", 0x24000001)
    file.write_bytes(data)
    merged = merge([file], tmp_path / "o")
    assert as_told(merged)[0][0] == b"a" * 20
    flags = merged.path.read_bytes().rpartition(struct.pack("<HH", 2, 4))[2][:4]
    assert flags == struct.pack("<I", 4 << 5), "four octets, in bits 5 to 8 of epb_flags"
    with PcapNgReader(str(merged.path)) as reader:
        reader._read_packet()
        assert reader.interfaces[0][0] == 1, "Ethernet"


def test_a_name_that_is_no_utf8_is_told_by_its_bytes(tmp_path):
    file = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    file.write_bytes(pcap_bytes([(1, b"a" * 20)]))
    assert merge([file], tmp_path / "o").interfaces == ("caf\\xe9",)


def pcapng_section(order: str, ticks: int, frame: bytes, resolution: int) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack(f"{order}I", len(body) + 12)
        return struct.pack(f"{order}I", kind) + size + body + size

    options = struct.pack(f"{order}HHB3x", 9, 1, resolution) + struct.pack(f"{order}HH", 0, 0)
    padded = frame + bytes(-len(frame) % 4)
    return (
        block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
        + block(1, struct.pack(f"{order}HHI", 1, 0, 256) + options)
        + block(0xBAD, b"????")
        + block(6, struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), 99) + padded)
    )


def test_sections_of_other_programs_have_their_own_byte_order_and_clock(tmp_path):
    file = tmp_path / "foreign.pcapng"
    late = pcapng_section(">", SECOND * 10**6 + 7, b"late1", 6)
    early = pcapng_section("<", SECOND << 10, b"early", 0x80 | 10)
    file.write_bytes(late + early)
    merged = merge([file], tmp_path / "o")
    assert [(row[0], row[3], row[4]) for row in as_told(merged)] == [(b"early", 0, 99), (b"late1", 7000, 99)]
    assert merged.interfaces == ("foreign", "foreign")


@pytest.mark.parametrize(
    ("at", "number", "said"),
    [(32, 0xFFFFFFF0, "the packet at byte 24 claims 4,294,967,280 bytes"), (16, 0, None)],
)
def test_lengths_that_cannot_be_are_damage(tmp_path, at, number, said):
    file = captured(UPLINK[0], [(1, b"a" * 20)], tmp_path)
    data = bytearray(file.read_bytes())
    data[at : at + 4] = struct.pack("<I", number)
    file.write_bytes(data)
    if said is None:
        assert merge([file], tmp_path / "o").packets == 1
        return
    with pytest.raises(CaptureError, match=said):
        merge([file], tmp_path / "o")
