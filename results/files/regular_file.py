"""Opens files to read: regular files only, and under sudo only those that the caller may read."""

import os
from pathlib import Path
from typing import BinaryIO

from results.files.user_files import invoker, require_regular, rights_of


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it, also through a symbolic link. Raises OSError, also for what is no regular file."""
    with rights_of(invoker()):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe opens at once, too
    return require_regular(fd, path, "rb")
