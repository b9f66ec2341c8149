"""Opens what a folder holds to be read: regular files only, and under sudo only what its caller may read."""

import os
from pathlib import Path
from typing import BinaryIO

from results.files.user_files import invoker, require_regular, rights_of


def open_regular(path: Path) -> BinaryIO:
    """The file to be read, also at the end of a symbolic link. Raises OSError, for what is no regular file as well."""
    with rights_of(invoker()):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe opens at once, too
    return require_regular(fd, path, "rb")
