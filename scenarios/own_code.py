"""Which copy of the program this process runs."""

from functools import cache
from pathlib import Path

from results.records.source_code import SourceCode, source_code
from scenarios.isolated import CODE_FOLDER, OWN_PACKAGES


@cache
def own_code() -> SourceCode:
    """Read once, as early as the caller can: files that change later are not what runs."""
    return source_code(Path(CODE_FOLDER), OWN_PACKAGES)
