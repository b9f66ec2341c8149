"""What is said of a capture that has ended, by its file."""

import struct
from pathlib import Path

import pytest

from scenarios.lab.owner.captures import flaw_of, is_doubtful
from scenarios.lab.protocol import CaptureState
from scenarios.lab.start import capacity

HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 256, 1)
PACKET = struct.pack("<IIII", 1_700_000_000, 0, 60, 60) + bytes(60)
BETWEEN = "p0:leaf0-spine1 at p0-leaf0: "


def ended(file: Path, captured: int | None) -> CaptureState:
    return CaptureState("p0:leaf0-spine1", "p0-leaf0", "spine1", str(file), "2026-01-01T00:00:00Z", captured, 0)


def test_a_file_that_holds_what_tcpdump_took_has_no_flaw(tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(HEADER + 3 * PACKET)
    assert flaw_of(ended(file, 3)) is None


@pytest.mark.parametrize(
    ("data", "captured", "told"),
    [
        (HEADER + 2 * PACKET, 3, "holds 2 of the 3 packets; was the disk full?"),
        (HEADER + 2 * PACKET + PACKET[:30], 3, "holds 2 of the 3 packets"),
        (HEADER, 1, "holds 0 of the 1 packets"),
        (b"", 5, "empty"),
        (HEADER + 2 * PACKET, None, "tcpdump died before the end"),
    ],
    ids=["whole packets missing", "cut in a packet", "no packet", "nothing", "killed"],
)
def test_a_file_that_is_short_is_told(tmp_path: Path, data: bytes, captured: int | None, told: str) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(data)
    assert is_doubtful(ended(file, 10**6))
    flaw = flaw_of(ended(file, captured))
    assert flaw is not None
    assert flaw.startswith(BETWEEN)
    assert told in flaw


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    assert flaw_of(ended(tmp_path / "x.pcap", 3)) == f"{BETWEEN}the file {tmp_path / 'x.pcap'} is gone"


def test_a_full_disk_is_told_as_the_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(capacity, "disk_free", lambda _: 0)
    file = tmp_path / "x.pcap"
    for data, told in ((b"", "empty; "), (HEADER + PACKET, "holds 1 of the 3 packets; ")):
        file.write_bytes(data)
        flaw = flaw_of(ended(file, 3))
        assert flaw is not None
        assert flaw.endswith(f"{told}No space left on device: 0 B free in {tmp_path}")
