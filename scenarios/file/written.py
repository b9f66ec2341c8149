"""Formats a value of a document as it is written there, for errors about it. Pure."""

from typing import Any

import yaml

_LONGEST = 60
"""Most characters (our choice)."""


def written(value: Any) -> str:
    """Return `[1, 2]`, `{a: b}`, `true`, `'text'`; `nothing` where there is none. Long values are cut."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else _flow(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20)
    return " ".join(text.removesuffix("...\n").split())
