"""`down` and processes that are not the lab's, whatever makes them look so; each try by an unprivileged user."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scenarios.lab.lab_dir import LabDir, LabState, owned, owner_of, run_going_on, write_state
from scenarios.lab.lifecycle import OwnerEnd, take_down
from scenarios.lab.processes import identify
from testbed.root_environment import marked_environment
from tests.support.namespaces import needs_root
from tests.support.own_mounts import in_own_mounts, mount_tmpfs
from tests.support.sudo_user import USER

pytestmark = [pytest.mark.root, needs_root]


def test_a_stranger_with_a_lock_on_another_file_of_that_number_lives_on() -> None:
    in_own_mounts(_a_stranger_with_a_lock)


def _a_stranger_with_a_lock() -> None:
    labdir = LabDir("red")
    labdir.path.mkdir(parents=True)
    for lock in (labdir.lock, labdir.run_lock):
        lock.touch()
    other = Path("/run/other")
    other.mkdir()
    mount_tmpfs(other)
    held = [_same_number(other, lock) for lock in (labdir.lock, labdir.run_lock)]
    strangers = [_holder_of(path) for path in held]
    assert owner_of(labdir) is None
    assert not run_going_on(labdir)
    began = time.monotonic()
    assert take_down(labdir).processes == 0
    assert time.monotonic() - began < 5
    for stranger in strangers:
        assert stranger.poll() is None, "ended by `down`"
        stranger.kill()
        stranger.wait()


def _same_number(folder: Path, lock: Path) -> Path:
    """A file of the user's on another tmpfs, which counts from the same number."""
    wanted = lock.stat().st_ino
    for at in range(1000):
        path = folder / str(at)
        path.touch()
        if path.stat().st_ino == wanted:
            os.chown(path, USER.uid, USER.gid)
            return path
    raise AssertionError(f"no file got the number {wanted}")


def _holder_of(path: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(("flock", path, "sleep", "60"), user=USER.uid, group=USER.gid, extra_groups=())
    with path.open("rb") as file:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return process
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.01)
    raise AssertionError("the stranger has no lock")


def test_a_stranger_who_is_named_as_the_owner_lives_on() -> None:
    in_own_mounts(_a_stranger_in_the_state)


def _a_stranger_in_the_state() -> None:
    """As by a state file that is older than the process with its number: unmarked, or marked by another user."""
    labdir = LabDir("red")
    for environment in (dict(os.environ), marked_environment("red", os.environ)):
        stranger = subprocess.Popen(("sleep", "60"), user=USER.uid, group=USER.gid, extra_groups=(), env=environment)
        owner = identify(stranger.pid)
        assert owner is not None
        labdir.path.mkdir(parents=True)
        write_state(labdir, LabState("red", owner, "", 1, 2, 1, 1, False, 9000, 1, ()))
        removed = take_down(labdir)
        assert (removed.owner, removed.processes, removed.folder) == (OwnerEnd.GONE, 0, True)
        assert stranger.poll() is None, "ended by `down`"
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()


def test_an_unprivileged_user_cannot_hold_a_labs_lock_whatever_the_umask() -> None:
    in_own_mounts(_a_lock_for_root_alone)


def _a_lock_for_root_alone() -> None:
    os.umask(0)
    labdir = LabDir("red")
    with owned(labdir):
        for attempt in (f"exec 9< {labdir.lock}", f"echo x > {labdir.path}/state.json"):
            done = subprocess.run(
                ("sh", "-c", attempt), user=USER.uid, group=USER.gid, extra_groups=(), capture_output=True, check=False
            )
            assert b"ermission denied" in done.stderr
        assert {path.name for path in labdir.path.iterdir()} == {"lock"}
