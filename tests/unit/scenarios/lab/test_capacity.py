"""A disk without room for captures is told before and after."""

from pathlib import Path

import pytest

from results.captures.tcpdump import ends_of
from scenarios.errors import EnvironmentLackingError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.captures import CapturePlace, Captures
from scenarios.lab.start import capacity
from scenarios.lab.start.capacity import (
    LEAST_BYTES,
    disk_free,
    full_disk_text,
    lab_bytes,
    no_room_for_fabric,
    require_disk,
    require_room,
)
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import LinkId


def test_what_is_free_is_read_and_a_file_system_without_blocks_does_not_tell(tmp_path: Path) -> None:
    free = disk_free(tmp_path)
    assert free is not None
    assert free > 0
    assert disk_free(Path("/proc")) is None


@pytest.mark.parametrize(("free", "most", "ok"), [
    (2 * LEAST_BYTES, 1 << 30, True), (2 * LEAST_BYTES - 1, 1 << 30, False), (4096, 4096, True), (4095, 4096, False),
    (None, 1 << 30, True),
])  # fmt: skip
def test_each_file_needs_its_least_or_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int | None, most: int, ok: bool
) -> None:
    monkeypatch.setattr(capacity, "disk_free", lambda _: free)
    if ok:
        require_disk(tmp_path, 2, most)
    else:
        with pytest.raises(
            EnvironmentLackingError, match=r"No space left on device: .* free, and a capture of 2 files"
        ):
            require_disk(tmp_path, 2, most)


def test_captures_on_a_full_disk_start_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(capacity, "disk_free", lambda _: 0)
    link = LinkId.named("p0:leaf0-spine1")
    assert link is not None
    captures = Captures(LabDir("x", tmp_path))
    with pytest.raises(EnvironmentLackingError, match="No space left on device"):
        captures.start(ends_of(link), CapturePlace(tmp_path / "pcap"))
    assert captures.states() == ()


def test_a_disk_that_is_full_by_the_end_is_told_and_one_that_is_gone_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert full_disk_text(tmp_path / "gone") == ""
    assert full_disk_text(Path("/proc")) == ""
    monkeypatch.setattr(capacity, "disk_free", lambda _: 100)
    assert full_disk_text(tmp_path) == f"No space left on device: 100 B free in {tmp_path}"


def test_a_folder_that_cannot_be_made_is_no_fault_of_the_lab(tmp_path: Path) -> None:
    (tmp_path / "pcap").write_text("")
    captures = Captures(LabDir("x", tmp_path))
    with pytest.raises(EnvironmentLackingError, match=rf"^{tmp_path}/pcap: "):
        captures.start([], CapturePlace(tmp_path / "pcap", None))


MIB = 1 << 20


@pytest.fixture(autouse=True)
def _four_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: 4096 * MIB)


@pytest.mark.parametrize("spec", [FabricSpec(), FabricSpec(1, 3, 5, 2), FabricSpec(4, 2, 1, 3)])
def test_nodes_and_links_are_counted_as_the_fabric_counts_them(spec: FabricSpec) -> None:
    fabric = Fabric.of(spec)
    told = no_room_for_fabric(spec, 2, 4096 * MIB)
    assert f"of {len(fabric.nodes())} nodes and {fabric.link_count} links takes about" in told


def test_a_large_fabric_is_refused_with_what_it_takes_and_what_there_is() -> None:
    told = no_room_for_fabric(FabricSpec(16, 256, 256), 2)
    assert told.startswith("a fabric of 8,448 nodes and 1,052,672 links takes about 16")
    assert "3,686 MiB are free for it" in told


def test_the_default_fabric_fits_the_least_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: 1536 * MIB)
    assert no_room_for_fabric(FabricSpec(), 2, 512 * MIB) == ""


def test_data_and_fabric_share_what_is_free() -> None:
    spec = FabricSpec()
    beside = 4096 * MIB * 9 // 10 - lab_bytes(spec, 2)
    assert no_room_for_fabric(spec, 2, beside) == ""
    assert "MiB of data" in no_room_for_fabric(spec, 2, beside + 1)


def test_data_may_take_half_of_what_is_free() -> None:
    require_room(2048 * MIB, "data")
    with pytest.raises(EnvironmentLackingError, match=r"^data takes 2,048 MiB, more than half .* \(2,048 MiB\)$"):
        require_room(2048 * MIB + 1, "data")
