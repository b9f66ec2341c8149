"""Escapes text for a terminal, whoever wrote it: no part of it moves the cursor or begins a new line."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move a terminal's cursor, ring, colour, end a line or turn its direction, and bytes that are not
UTF-8.

C0 and C1 controls but tab and line feed (ECMA-48), line and paragraph separators, marks of direction (Unicode UAX 9).
"""

_LAYOUT = re.compile(r"[\t\n]")
"""Characters that our own text has between lines and columns, and a name must not contain."""


def printable(text: str) -> str:
    """Return the text with `\x1b` in place of an escape; tabs and line feeds are ours and stay."""
    return _UNPRINTABLE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """Return a name on one line: also with `\x0a` in place of a line feed."""
    return _LAYOUT.sub(_escaped, printable(name))


def printable_message(text: str) -> str:
    """Return a message with all words of the command line, and the current folder, on one line each."""
    for name in _names_of_more_lines():
        text = text.replace(name, printable_name(name))
    return printable(text)


def _names_of_more_lines() -> Iterator[str]:
    """Yield words of the command line as messages have them: whole, after `=`, and as a path; and the current
    folder.
    """
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
