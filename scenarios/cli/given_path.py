"""A path that is given to an option: one that is empty would mean the folder that the shell is in."""

from pathlib import Path
from typing import Any

import click


class GivenPath(click.Path):
    """As `click.Path`, and refuses nothing at all, as of `--runs "$UNSET"`."""

    def __init__(self, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Fails as click does."""
        if value == "":
            self.fail("is empty; name a path", param, ctx)
        return super().convert(value, param, ctx)
