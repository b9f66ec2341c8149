"""A value of a document as one writes it there, for complaints about it. Pure."""

from typing import Any

import yaml

_LONGEST = 60
"""Characters (our choice)."""


def written(value: Any) -> str:
    """As `[1, 2]`, `{a: b}`, `true`, `'text'`; `nothing` where there is none. Cut to some words."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else _flow(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20)
    return " ".join(text.removesuffix("...\n").split())
