"""Identifies the copy of the program that this process runs."""

from functools import cache
from pathlib import Path

from results.records.source_code import SourceCode, source_code
from scenarios.isolated import CODE_FOLDER, OWN_PACKAGES


@cache
def own_code() -> SourceCode:
    """Read the code once, as early as the caller can, because files may change later."""
    return source_code(Path(CODE_FOLDER), OWN_PACKAGES)
