"""Wraps lines that are too long for their place, at a blank or after a comma. Pure."""

import re
from collections.abc import Iterator

from rich.text import Text

_INDENT = "  "
_BEHIND_COMMA = re.compile(r"(?<=,)(?=\S)")


def folded(line: Text, width: int | None) -> list[Text]:
    """Return as many lines as needed, later ones indented; one for a width of None. A longer word stays whole."""
    if width is None or len(line.plain) <= width:
        return [line]
    lines, now = list[str](), ""
    for gap, piece in _pieces(line.plain, width - len(_INDENT)):
        if now.strip() and len(now) + len(gap) + len(piece) > width:
            lines.append(now)
            now, gap = _INDENT, ""
        now += gap + piece
    return [Text(part, line.style) for part in (*lines, now)]


def _pieces(text: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield words with the blank before them; a word longer than a line is split after commas."""
    for at, word in enumerate(text.split(" ")):
        gap = " " if at else ""
        for part in _BEHIND_COMMA.split(word) if len(word) > width else (word,):
            yield gap, part
            gap = ""
