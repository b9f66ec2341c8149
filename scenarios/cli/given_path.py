"""Checks paths given to options: an empty one would mean the shell's current folder."""

from pathlib import Path
from typing import Any

import click


class GivenPath(click.Path):
    """A `click.Path` that refuses the empty path, as in `--runs "$UNSET"`."""

    def __init__(self, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails as click does."""
        if value == "":
            self.fail("is empty; name a path", param, ctx)
        return super().convert(value, param, ctx)
