"""One thing about a transport that does not fit, with what would. Pure."""

from typing import NamedTuple


class Misfit(NamedTuple):
    """Two settings, or a setting and the fabric, that do not fit together."""

    key: tuple[str, ...]
    """Below `transport`."""
    wrong: str
    right: str
