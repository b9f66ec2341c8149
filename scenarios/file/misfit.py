"""Defines one problem of a transport's settings, with a correction. Pure."""

from typing import NamedTuple


class Misfit(NamedTuple):
    """Two settings, or a setting and the fabric, that do not fit together."""

    key: tuple[str, ...]
    """Key below `transport`."""
    wrong: str
    right: str
