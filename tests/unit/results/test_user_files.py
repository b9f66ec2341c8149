"""Files in a place that an unprivileged user controls: root does there what this user could do, and nothing else."""

import errno
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from results.files import user_files
from results.files.event_log import EventLog, merge_records, write_records
from results.files.reading import read_limited
from results.files.run_dir import RunDir, create, point_latest
from results.files.user_files import (
    Invoker,
    invoker,
    make_folder,
    naming,
    new_file,
    open_regular,
    open_to_append,
    open_to_change,
    replacing,
    rights_of,
    write_file,
)
from tests.support.sudo_user import USER, as_user, needs_root

REFUSED = r"symbolic links|exists|No such (file|device)|Not a directory|not a regular file"
"""In the words of the kernel, and of us for a pipe that somebody reads."""

SECRET = "only root may read or write this"


@pytest.fixture
def roots(user_place: Path) -> Path:
    """A file of root alone, in a folder that everybody may enter."""
    folder = user_place.parent / "root"
    folder.mkdir(mode=0o755)
    file = folder / "file"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


def _written(path: Path) -> None:
    write_file(path, b"x")


def _appended(path: Path) -> None:
    with open_to_append(path) as file:
        file.write(b"x")


def _changed(path: Path) -> None:
    with open_to_change(path) as file:
        file.write(b"x")


def _new(path: Path) -> None:
    with new_file(path) as file:
        file.write(b"x")


def _logged(path: Path) -> None:
    with EventLog(path) as log:
        log.append({"event": "X"})


def _recorded(path: Path) -> None:
    write_records(path, [{"event": "X", "ts": "", "mono_ns": 1, "v": 1}], "run", 1)


def _merged(path: Path) -> None:
    merge_records(path, (), 0, [{"event": "X", "ts": "", "mono_ns": 1, "v": 1}], "run", 1)


WRITERS: tuple[Callable[[Path], None], ...] = (_written, _appended, _changed, _new, _logged, _recorded, _merged)


@needs_root
@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_written_through_a_link(write: Callable[[Path], None], user_place: Path, roots: Path) -> None:
    for name, target in (("there", roots), ("absent", roots.with_name("absent"))):
        as_user(os.symlink, target, user_place / name)
        if write is _written:
            write(user_place / name)
            assert not (user_place / name).is_symlink(), "the link itself is replaced"
        else:
            with pytest.raises(OSError, match=REFUSED):
                write(user_place / name)
    assert roots.read_text() == SECRET
    assert [each.name for each in roots.parent.iterdir()] == ["file"]


@needs_root
@pytest.mark.parametrize("write", WRITERS)
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(
    write: Callable[[Path], None], user_place: Path, roots: Path
) -> None:
    as_user(os.symlink, roots.parent, user_place / "run")
    with pytest.raises(OSError, match=REFUSED):
        write(user_place / "run/file")
    as_user(os.mkdir, user_place / "a")
    as_user(os.symlink, roots.parent.parent, user_place / "a/up")
    with pytest.raises(OSError, match=r"Permission denied|exists"):
        write(user_place / "a/up/root/file")
    assert roots.read_text() == SECRET
    assert [each.name for each in roots.parent.iterdir()] == ["file"]


@needs_root
@pytest.mark.parametrize("write", WRITERS)
def test_what_is_written_is_the_users_from_the_first_moment(write: Callable[[Path], None], user_place: Path) -> None:
    if write is _changed:
        write_file(user_place / "file", b"old")
    write(user_place / "file")
    found = (user_place / "file").lstat()
    assert (found.st_uid, found.st_gid) == (USER.uid, USER.gid)
    assert found.st_size > 0


@pytest.mark.parametrize("write", [write for write in WRITERS if write is not _written])
def test_a_pipe_stops_nobody(write: Callable[[Path], None], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=REFUSED):
        write(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match=REFUSED):
        write(tmp_path / "pipe")
    os.close(reader)


@needs_root
def test_a_part_that_was_planted_is_not_followed(user_place: Path, roots: Path) -> None:
    part = user_place / f".out.{os.getpid()}.part"
    for plant in (partial(os.symlink, roots), os.mkfifo):
        as_user(plant, part)
        write_file(user_place / "out", b"new")
        assert (user_place / "out").read_bytes() == b"new"
    assert roots.read_text() == SECRET
    assert [each.name for each in user_place.iterdir()] == ["out"]


@needs_root
def test_an_error_names_the_file_that_was_meant_and_whose_rights_were_not_enough(roots: Path) -> None:
    with pytest.raises(PermissionError, match=f"Permission denied, for user {USER.uid}") as raised:
        write_file(roots.with_name("page.html"), b"x")
    assert raised.value.filename == str(roots.with_name("page.html"))


def test_after_an_error_the_old_file_stands(tmp_path: Path) -> None:
    write_file(tmp_path / "file", b"old")
    with pytest.raises(TypeError), replacing(tmp_path / "file") as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


@needs_root
def test_what_root_alone_may_read_is_not_read_for_the_user(user_place: Path, roots: Path) -> None:
    (user_place / "link").symlink_to(roots)
    for path in (roots, user_place / "link"):
        with pytest.raises(PermissionError):
            open_regular(path)


@needs_root
def test_a_user_of_a_group_may_what_the_group_may(user_place: Path) -> None:
    shared = user_place.parent / "shared"
    shared.mkdir(mode=0o770)
    os.chown(shared, 0, USER.gid)
    shared.chmod(0o770)
    write_file(shared / "file", b"x")
    os.chown(shared, 0, 0)
    with pytest.raises(PermissionError):
        read_limited(shared / "file", 100)


@needs_root
def test_rights_are_given_back_also_after_an_error_and_when_nested() -> None:
    before = _credentials()
    with rights_of(USER), rights_of(Invoker(1, 1)):
        inside = _credentials()
    assert inside["Uid"].split() == ["0", "0", "0", str(USER.uid)]
    assert int(inside["CapEff"], 16) & 0xF == 0
    assert _credentials() == before
    with pytest.raises(FileNotFoundError), rights_of(USER):
        os.stat("/nowhere")
    assert _credentials() == before


@needs_root
def test_rights_that_are_not_taken_on_stop_everything(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_files._libc, "setfsuid", lambda _: 0)
    with pytest.raises(PermissionError, match="cannot take the rights"):
        write_file(user_place / "file", b"x")


def _credentials() -> dict[str, str]:
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    told = dict(line.split(":\t", 1) for line in lines)
    return {name: told[name] for name in ("Uid", "Gid", "Groups", "CapEff")}


@pytest.mark.parametrize(("uid", "known"), [("1000", True), ("0", False), ("", False), ("²", False), ("-1", False)])
def test_who_is_behind_sudo(uid: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", uid)
    monkeypatch.setenv("SUDO_GID", "1000")
    assert (invoker() is not None) == known
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert invoker() is None


@needs_root
def test_latest_and_folders_of_a_run_that_is_swapped_meanwhile(user_place: Path, roots: Path) -> None:
    run = create(user_place / "runs", "a", "1")
    as_user(os.rename, run.path, user_place / "away")
    as_user(os.symlink, roots.parent, run.path)
    for folder in (run.figures, run.pcap, run.logs):
        with pytest.raises(OSError, match=REFUSED):
            make_folder(folder)
    point_latest(RunDir(run.path))
    with pytest.raises(OSError, match=f"symbolic link|{re.escape(str(run.path))}"):
        run.remove()
    assert [each.name for each in roots.parent.iterdir()] == ["file"]
    assert roots.lstat().st_uid == roots.parent.lstat().st_uid == 0


def test_a_full_disk_is_told_with_the_file() -> None:
    path = Path("/dev/full")
    with pytest.raises(OSError, match="No space left") as told, naming(path), path.open("w") as file:
        file.write("text")
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_file_that_is_named_already_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as told, naming(tmp_path / "other"):
        os.stat(tmp_path / "this")
    assert told.value.filename == str(tmp_path / "this")
