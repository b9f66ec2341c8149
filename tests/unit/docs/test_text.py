"""What the text of the documents names exists: commands, options, modules, files, pages, anchors."""

import importlib.util
import re
import shlex

from tests.support.command_words import commands, complaint_about, options_of
from tests.support.documents import PAGES, ROOT, anchors_of, blocks_of, links_of, spans_of

SPANS = [(where, span) for page in PAGES for where, span in spans_of(page)]
FIRST_WORDS = {name.split()[0] for name, _ in commands()} | {"destroy"}
FOREIGN = {"--only"}
"""Options of other programs that the text names: of the bench."""


def words_of(span: str) -> list[str] | None:
    """The words of a command line of ours in the text, without the program's name; None if it is none."""
    try:
        words = shlex.split(span.removeprefix("sudo ").split(" | ")[0])
    except ValueError:
        return None
    if not words or words[0] == "spraylab":
        return words[1:] or None
    of_ours = words[0] in FIRST_WORDS and len(words) > 1 and (words[1].startswith("--") or words[0] in GROUPS)
    return words if of_ours else None


GROUPS = {"fault", "capture", "deny", "perf", "pcap"}


def test_commands_in_the_text_exist_with_their_options() -> None:
    lines = [(where, span, words) for where, span in SPANS if (words := words_of(span))]
    assert len(lines) > 60
    wrong = [f"{where}: {span}: {said}" for where, span, words in lines if (said := complaint_about(words))]
    assert wrong == []


def test_options_in_the_text_exist() -> None:
    known = set[str]().union(*(options_of(command) for _, command in commands()))
    named = [(where, re.match(r"--[a-z][a-z-]*", span)) for where, span in SPANS]
    assert [f"{where}: {found[0]}" for where, found in named if found and found[0] not in known | FOREIGN] == []


def test_targets_and_modules_in_the_text_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    code = SPANS + [(str(block), line) for page in PAGES for block in blocks_of(page) for line in block.lines]
    targets = [(where, found[1]) for where, text in code if (found := re.match(r"(?:sudo )?make ([a-z][a-z-]*)", text))]
    assert [f"{where}: make {name}" for where, name in targets if f"\n{name}:" not in makefile] == []
    modules = [(where, found[1]) for where, text in code if (found := re.search(r"python -m ([a-z_.]+)", text))]
    ours = [(where, name) for where, name in modules if (ROOT / name.split(".")[0]).is_dir()]
    assert [f"{where}: {name}" for where, name in ours if importlib.util.find_spec(name) is None] == []


def test_files_in_the_text_exist() -> None:
    path = re.compile(r"(?:agent|testbed|faults|scenarios|results|docs|tests)/[\w./-]*\w/?")
    named = [(where, span) for where, span in SPANS if path.fullmatch(span) and "NAME" not in span]
    assert len(named) > 30
    assert [f"{where}: {name}" for where, name in named if not (ROOT / name).exists()] == []


def test_links_lead_to_pages_and_headings() -> None:
    broken = []
    for page in PAGES:
        for where, link in links_of(page):
            path, _, anchor = link.partition("#")
            target = page if not path else (page.parent / path).resolve()
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors_of(target)):
                broken.append(f"{where}: {link}")
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs/README.md"
    told = {(index.parent / link.partition("#")[0]).resolve() for _, link in links_of(index)}
    assert [str(page) for page in PAGES if page not in told | {index, ROOT / "README.md"}] == []


def test_the_symptoms_that_are_quoted_are_what_the_program_says() -> None:
    folders = ("agent", "faults", "results", "scenarios", "testbed", ".ci")
    sources = [
        path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in ("", ".py") and path.is_file()
    ]
    said = re.sub(r"\"\s*f?\"", "", " ".join(path.read_text() for path in sources))
    rows = [row for row in (ROOT / "docs/troubleshooting.md").read_text().splitlines() if row.startswith("| `")]
    quoted = [span for row in rows for span in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    pieces = [piece.strip(" :;,") for span in quoted for piece in span.split("...")]
    assert len(pieces) > 30
    assert [piece for piece in pieces if len(piece) > 3 and piece not in said] == []
