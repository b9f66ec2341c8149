"""Opens, makes and replaces files in folders where an unprivileged user may place files.

Under sudo it acts with the rights of the user who called it. So the kernel refuses whatever this user could not do
alone, even if they plant or swap a link, a pipe or another folder meanwhile, and no file changes its owner later.
In addition, nothing is written through a symbolic link, and no existing file is taken for our own.
"""

import ctypes
import errno
import functools
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Run the body; an OSError in it that names no file gets `path` as its `filename`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


_CAPABILITIES = 0b1111
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER (linux/capability.h): root's additional rights on
files.
"""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Invoker:
    """The user on whose behalf root works (`SUDO_UID`, `SUDO_GID`)."""

    uid: int
    gid: int


def invoker() -> Invoker | None:
    """Return the user behind sudo; None for root itself and for unprivileged users."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (_is_id(uid) and _is_id(gid)) or int(uid) == 0:
        return None
    return Invoker(int(uid), int(gid))


def invoker_flaw() -> str | None:
    """State why the user behind sudo is unknown, where sudo's variables are not two numbers."""
    uid, gid = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if not uid or not gid or (_is_id(uid) and _is_id(gid)):
        return None
    return "SUDO_UID and SUDO_GID are not numbers; files will belong to root"


def in_whose_name() -> str:
    """Explain an error in a place that root could write and the user behind sudo cannot; else empty."""
    user = invoker()
    return "" if user is None else f", for user {user.uid}, whose rights apply under sudo"


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 2**32 - 1


@contextmanager
def rights_of(user: Invoker | None) -> Iterator[None]:
    """Give this thread only the rights of `user` on files while inside; None and nested calls change nothing.

    Only credentials of the file system change (setfsuid(2)), with which the kernel takes away what lets root pass by
    permissions (capabilities(7)). Imports and files of a lab do not belong inside. Raises OSError.
    """
    if user is None or _fs_uid() != 0:
        yield
        return
    groups = os.getgroups()
    try:
        os.setgroups(_groups_of(user))
        _libc.setfsgid(user.gid)
        _libc.setfsuid(user.uid)
        _require_rights(user)
        yield
    finally:
        try:
            _libc.setfsuid(0)  # first: an interrupt may come behind any of these
        finally:
            _libc.setfsgid(os.getegid())
            os.setgroups(groups)


def _fs_uid() -> int:
    return int(_libc.setfsuid(-1))  # an impossible user changes nothing, and the one in force is the answer


@functools.cache
def _groups_of(user: Invoker) -> list[int]:
    with suppress(KeyError):
        return os.getgrouplist(pwd.getpwuid(user.uid).pw_name, user.gid)
    return [user.gid]


def _require_rights(user: Invoker) -> None:
    """Read back the rights in force. Raises OSError: nothing may continue with root's rights."""
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    told = dict(line.split(":", 1) for line in lines)
    uid, gid = (int(told[name].split()[3]) for name in ("Uid", "Gid"))
    if (uid, gid) != (user.uid, user.gid) or int(told["CapEff"], 16) & _CAPABILITIES:
        raise PermissionError(errno.EPERM, f"cannot take the rights of user {user.uid}")


def new_file(path: Path) -> BinaryIO:
    """Create a new file. Raises OSError; FileExistsError also for a link that points nowhere."""
    with _in_folder_of(path) as folder:
        return _new(path.name, folder)


def _new(name: str, folder: int) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb")


def open_to_append(path: Path, buffering: int = 0) -> BinaryIO:
    """Open a file, created if missing. Raises OSError, also for a link and for what is no regular file."""
    return _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab", buffering)


def open_to_change(path: Path) -> BinaryIO:
    """Open an existing file. Raises OSError, also for a link and for what is no regular file."""
    return _opened(path, os.O_RDWR, "r+b")


def _opened(path: Path, flags: int, mode: str, buffering: int = -1) -> BinaryIO:
    with _in_folder_of(path) as folder:
        more = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe opens at once, too, and is refused below
        fd = os.open(path.name, flags | more, 0o666, dir_fd=folder)
        return require_regular(fd, path, mode, buffering)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a new file beside `path` that replaces it when the body ends; after an error nothing has changed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _in_folder_of(path) as folder, suppress(FileNotFoundError):
        os.unlink(partial.name, dir_fd=folder)  # of a process that was killed, or planted
    try:
        with _in_folder_of(path) as folder:
            file = _new(partial.name, folder)
        with naming(path), file:
            yield file
        with _in_folder_of(path) as folder:
            os.replace(partial.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError), _in_folder_of(path) as folder:
            os.unlink(partial.name, dir_fd=folder)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Replace the content of a file. Raises OSError."""
    with replacing(path) as file:
        file.write(content)


def remove_file(path: Path) -> None:
    """Remove a file, or a link itself. Raises OSError."""
    with _in_folder_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)


def make_folder(path: Path) -> None:
    """Create a folder if it is missing. Raises OSError, also for a link in its place."""
    with _in_folder_of(path) as folder:
        with suppress(FileExistsError):
            os.mkdir(path.name, dir_fd=folder)
        if not stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


@contextmanager
def _in_folder_of(path: Path) -> Iterator[int]:
    """Open the folder that holds `path`, itself no link, with the invoker's rights. Errors name `path`."""
    with rights_of(invoker()):
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                yield folder
            finally:
                os.close(folder)
        except OSError as error:
            why = f"{error.strerror}{in_whose_name() if isinstance(error, PermissionError) else ''}"
            raise OSError(error.errno, why, str(path)) from error


def require_regular(fd: int, path: Path, mode: str, buffering: int = -1) -> BinaryIO:
    """Check the open file; a pipe would block for ever, a device never end. Raises OSError for what is no regular
    file.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, mode, buffering)  # type: ignore[return-value]


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it, also through a symbolic link. Raises OSError, also for what is no regular file."""
    with rights_of(invoker()):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe opens at once, too
    return require_regular(fd, path, "rb")
