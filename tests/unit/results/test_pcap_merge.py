"""Captures of many ends as one pcapng: order, interface names, directions, times, and files that are none."""

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import PcapNgReader

from results.errors import CaptureError
from results.pcap import CaptureEnd, ends_of
from results.pcap_merge import merge
from testbed.model.addressing import mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.ids import LinkId, NodeId, PortId
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
    ("content", "said"), [(b"", "empty"), (b"\x0a\x0d\x0d\x0a" + bytes(40), "not a pcap"), (b"x", "not")]
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
