"""An unprivileged user behind sudo, and what such a user can do meanwhile."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from results.files.run_dir import RunDir
from results.files.user_files import Invoker

USER = Invoker(12345, 23456)
"""Nobody's numbers."""

SUDO = {"SUDO_UID": str(USER.uid), "SUDO_GID": str(USER.gid)}
"""What sudo sets."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which then takes on another user's rights")


@contextmanager
def users_folder() -> Iterator[Path]:
    """An empty folder that belongs to the user; removed at the end. pytest's own are in a folder for root alone."""
    with tempfile.TemporaryDirectory(prefix="spraylab-test-") as name:
        if os.geteuid() == 0:
            os.chmod(name, 0o711)
        folder = Path(name) / "home"
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, USER.uid, USER.gid)
        yield folder


def let_in(folder: Path) -> None:
    """Give the user a folder of pytest's, which are for root alone."""
    folder.mkdir(exist_ok=True)
    os.chown(folder, USER.uid, USER.gid)
    for above in folder.parents:
        if above.is_relative_to(tempfile.gettempdir()) and above != Path(tempfile.gettempdir()):
            above.chmod(0o711)


def as_user(act: Callable[..., object], *arguments: object) -> None:
    """Do something as the user, without any right of root, in a process of its own."""
    assert os.waitpid(_started_as_user(act, *arguments), 0)[1] == 0, "the user cannot do that"


def _started_as_user(act: Callable[..., object], *arguments: object) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(USER.gid, USER.gid, USER.gid)
            os.setresuid(USER.uid, USER.uid, USER.uid)
            act(*arguments)
            code = 0
        finally:
            os._exit(code)
    return child


@contextmanager
def meanwhile_as_user(trick: Callable[[Path, Path], bool], runs: Path, target: Path) -> Iterator[Callable[[], bool]]:
    """The user tries a trick again and again, in a process of its own, as long as the body lasts.

    Yields a function that returns, once the body has ended, whether the trick was in place at least once. What lies
    in the folder does not show that: a run that the trick stops removes its folder.
    """
    done, told = os.pipe()
    result: list[bytes] = []

    def again() -> None:
        while True:
            with suppress(OSError):
                if trick(runs, target):
                    os.write(told, b"x")
                    break
        while True:
            with suppress(OSError):
                trick(runs, target)

    child = _started_as_user(again)
    os.close(told)
    try:
        yield lambda: result == [b"x"]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        result.append(os.read(done, 1))
        os.close(done)


def plant_links(runs: Path, target: Path) -> bool:
    """Put a link to `target` in the place of every file of a run that is not there yet."""
    planted = False
    for folder in runs.iterdir():
        run = RunDir(folder)
        end = run.pcap / "p0_leaf0-spine1.leaf0-spine1.pcap"
        for file in (run.agent, run.counters, run.detect, run.environment, run.topology, run.truth, run.summary, end):
            with suppress(OSError):
                file.symlink_to(target)
                planted = True
    return planted


def swap_folder(runs: Path, target: Path) -> bool:
    """Put a link to the folder of `target` in the place of a run's folder once it holds something."""
    swapped = False
    for folder in runs.iterdir():
        if not folder.is_symlink() and folder.suffix != ".away" and (folder / "counters.jsonl").exists():
            folder.rename(folder.with_suffix(".away"))
            folder.symlink_to(target.parent)
            swapped = True
    return swapped
