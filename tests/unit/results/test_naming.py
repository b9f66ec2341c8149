"""Errors of files name the file."""

import errno
import os
from pathlib import Path

import pytest

from results.files.naming import naming


def test_a_full_disk_is_told_with_the_file() -> None:
    path = Path("/dev/full")
    with pytest.raises(OSError, match="No space left") as told, naming(path), path.open("w") as file:
        file.write("text")
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_file_that_is_named_already_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as told, naming(tmp_path / "other"):
        os.stat(tmp_path / "this")
    assert told.value.filename == str(tmp_path / "this")
