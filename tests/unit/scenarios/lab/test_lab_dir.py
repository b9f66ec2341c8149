"""The lab's folder: one owner at a time, one run at a time, a state file that survives anything."""

import multiprocessing
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from scenarios.errors import EnvironmentLackingError, LabStateError
from scenarios.lab.lab_dir import (
    ChildState,
    LabDir,
    LabShape,
    LabState,
    busy,
    labs_up,
    owned,
    owner_of,
    read_state,
    run_going_on,
    write_state,
)
from scenarios.lab.processes import ProcessId, identify
from testbed.model.fabric import Fabric, FabricSpec

STATE = LabState(
    "x",
    ProcessId(1, 2),
    "2026-01-01T00:00:00Z",
    2,
    4,
    4,
    1,
    False,
    9000,
    2,
    (),
    (ChildState("worker0", ProcessId(3, 4)),),
)


def test_a_lab_has_one_owner(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path / "spraylab")
    with owned(labdir):
        assert labs_up(labdir.root) == ("x",)
        with pytest.raises(LabStateError, match="already up"), owned(labdir):
            pass
        assert labdir.path.exists(), "the second attempt must not take the first one's folder away"
    assert not labdir.root.exists()
    with owned(labdir):
        pass


def test_labs_do_not_touch_each_other(tmp_path: Path) -> None:
    one, other = LabDir("one", tmp_path), LabDir("other", tmp_path)
    with owned(one):
        with owned(other):
            pass
        assert labs_up(tmp_path) == ("one",)


def test_the_folder_of_a_dead_owner_can_be_taken_over(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    process = multiprocessing.get_context("fork").Process(target=_die_owning, args=(labdir,))
    process.start()
    process.join()
    assert labdir.lock.exists()
    with owned(labdir):
        pass


def test_what_a_dead_owner_left_is_for_down(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    write_state(labdir, STATE)
    with pytest.raises(LabStateError, match="`spraylab down --lab x` removes what is left"), owned(labdir):
        pass
    assert read_state(labdir) == STATE


def test_the_owner_is_known_by_its_lock(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    assert owner_of(labdir) is None
    with owned(labdir):
        assert owner_of(labdir) == identify(os.getpid())
        assert not run_going_on(labdir)
        with busy(labdir):
            assert run_going_on(labdir)
    assert owner_of(labdir) is None


def test_a_folder_that_cannot_be_made_is_the_machine_s_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(EnvironmentLackingError, match="cannot be made: Not a directory"),
        owned(LabDir("x", tmp_path / "file")),
    ):
        pass


def test_commands_name_the_lab_unless_it_is_the_default() -> None:
    assert LabDir("lab").down_command == "spraylab down"
    assert LabDir("u1").down_command == "spraylab down --lab u1"


def _die_owning(labdir: LabDir) -> None:
    with owned(labdir):
        os._exit(9)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    with owned(labdir):
        with busy(labdir), pytest.raises(LabStateError, match="a run is going on"), busy(labdir):
            pass
        with busy(labdir):
            pass


def test_state_reads_back(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    with owned(labdir):
        assert read_state(labdir) is None
        write_state(labdir, STATE)
        assert read_state(labdir) == STATE
        labdir.state.write_bytes(b"{half")
        assert read_state(labdir) is None


def test_socket_paths_fit_the_kernel() -> None:
    longest = LabDir("a123456789")
    assert len(str(longest.worker_socket(9999))) < 108  # sun_path in linux/un.h


def test_the_fabric_is_the_one_that_was_built() -> None:
    spec = FabricSpec(planes=2, leaves=3, spines=4, hosts_per_leaf=2, mtu=4000, host_stack=True)
    shape = LabShape(lab="red", owner=ProcessId(1, 1), started="", workers=2, scapy_hosts=(), **asdict(spec))
    assert shape.fabric() == Fabric.of(spec)
    assert shape.fabric() != Fabric.of(FabricSpec(2, 3, 4, 2))
