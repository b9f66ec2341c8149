"""Errors of files say which file: a full disk is noticed by a write, which does not know."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Run the body; an OSError in it that names no file gets `path` as its `filename`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
