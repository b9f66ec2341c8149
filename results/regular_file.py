"""Opens what a folder holds to be read: regular files only, since a pipe would wait for ever and a device never end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file to be read, also at the end of a symbolic link. Raises OSError, for what is no regular file as well."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe opens at once, too
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, "rb")


def read_regular(path: Path) -> bytes:
    """All of it. Raises OSError."""
    with open_regular(path) as file:
        return file.read()
