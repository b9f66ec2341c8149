"""The documents as tests read them: blocks and what is marked in front of them, code in the text, headings, links.

A block is fenced and names its language, from which follows what is done with it; docs/contributing.md has the table. A
mark is an HTML comment `<!-- test: ... -->` right before the block, one a line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\S*)$")
_MARK = re.compile(r"^<!-- test: (.+) -->$")
_SPAN = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^(#+) (.+)$")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    page: str
    """Path of the document below the root."""
    line: int
    language: str
    text: str
    marks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def marked(self, word: str) -> str | None:
        """What a mark says behind its word; None without it."""
        return next((mark[len(word) :].strip(" :") for mark in self.marks if mark.startswith(word)), None)

    @property
    def lines(self) -> list[str]:
        """Without empty ones and remarks at the end."""
        found = (re.split(r"\s{2,}#\s", line)[0].rstrip() for line in self.text.splitlines())
        return [line for line in found if line]


def name_of(page: Path) -> str:
    """As `docs/quickstart.md`."""
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a document. Raises ValueError for a fence that is never closed."""
    found, marks, start, language = list[Block](), list[str](), 0, ""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fence, mark = _FENCE.match(line), _MARK.match(line)
        if start and line == "```":
            text = "\n".join(lines[start : number - 1]) + "\n"
            found.append(Block(name_of(page), start, language, text, tuple(marks)))
            start, marks = 0, []
        elif not start and fence:
            start, language = number, fence[1]
        elif not start:
            marks = [*marks, mark[1]] if mark else []
    if start:
        raise ValueError(f"{page}:{start}: a block without an end")
    return found


def prose_of(page: Path) -> str:
    """A document without its blocks, line by line as it was."""
    inside, kept = False, list[str]()
    for line in page.read_text(encoding="utf-8").splitlines():
        inside ^= line.startswith("```")
        kept.append("" if inside or line.startswith("```") else line)
    return "\n".join(kept)


def spans_of(page: Path) -> Iterator[tuple[str, str]]:
    """Every piece of code in the text, and where it stands."""
    for number, line in enumerate(prose_of(page).splitlines(), 1):
        yield from ((f"{name_of(page)}:{number}", span.replace("\\|", "|")) for span in _SPAN.findall(line))


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    """Where every link and picture of a document leads, and where it stands."""
    for number, line in enumerate(prose_of(page).splitlines(), 1):
        yield from ((f"{name_of(page)}:{number}", target) for target in _LINK.findall(line))


def anchors_of(page: Path) -> set[str]:
    """What a link to this document may name behind `#`, as GitHub makes it of headings."""
    found = dict[str, int]()
    for line in prose_of(page).splitlines():
        if heading := _HEADING.match(line):
            slug = re.sub(r"[^\w\- ]", "", heading[2].strip().lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {slug if not n else f"{slug}-{n}" for slug, most in found.items() for n in range(most + 1)}
