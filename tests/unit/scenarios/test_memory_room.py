"""What a lab takes is estimated from its counts, and what does not fit is told before anything is started."""

import pytest

from scenarios import memory_room
from scenarios.errors import EnvironmentLackingError
from scenarios.memory_room import lab_bytes, no_room_for_fabric, require_room
from testbed.model.fabric import Fabric, FabricSpec

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _four_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_room, "free_bytes", lambda: 4096 * MIB)


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
    monkeypatch.setattr(memory_room, "free_bytes", lambda: 1536 * MIB)
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
