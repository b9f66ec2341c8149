"""Text for a terminal, whoever wrote what is in it: nothing of it moves the cursor or begins a line of its own."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, rings, colours, ends a line or turns its direction, and bytes that are no UTF-8.

C0 and C1 controls but tab and line feed (ECMA-48), line and paragraph separators, marks of direction (Unicode UAX 9).
"""

_LAYOUT = re.compile(r"[\t\n]")
"""What our own text has between lines and columns, and a name must not bring."""


def printable(text: str) -> str:
    """The text with `\\x1b` in the place of an escape; tabs and line feeds are ours and stay."""
    return _UNPRINTABLE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """A name on one line: `\\x0a` in the place of a line feed, too."""
    return _LAYOUT.sub(_escaped, printable(name))


def printable_message(text: str) -> str:
    """A message that may hold words of the command line, or where it was given: on one line each."""
    for name in _names_of_more_lines():
        text = text.replace(name, printable_name(name))
    return printable(text)


def _names_of_more_lines() -> Iterator[str]:
    """Words of the command line as messages have them: whole, what follows `=`, and as a path; the current folder."""
    words = sys.argv[1:]
    with suppress(OSError):
        words = [*words, os.getcwd()]
    for word in words:
        for name in dict.fromkeys((word, os.path.normpath(word), word.partition("=")[2], os.path.basename(word))):
            if name.strip() and _LAYOUT.search(name):
                yield name


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is no UTF-8 (PEP 383)
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
