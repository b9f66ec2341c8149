"""Every line of the conformance list is a module of tests of its number."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[3]
LINES = 15
ON_A_FABRIC = {14, 15}
"""These need switches."""


def test_every_line_has_its_tests() -> None:
    for number in range(1, LINES + 1):
        folder = TESTS / ("fabric/conformance" if number in ON_A_FABRIC else "unit/agent/conformance")
        (module,) = folder.glob(f"test_{number:02}_*.py")
        assert "\ndef test_" in module.read_text(), module


def test_the_document_names_tests_of_every_line() -> None:
    section = (TESTS.parent / "docs/transport.md").read_text().partition("## Conformance")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|.*$", section, re.MULTILINE)
    assert rows == [str(number) for number in range(1, LINES + 1)]
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", section)) - {"test_01_", "test_13_"}
    defined = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", path.read_text())}
    assert len(named) > 2 * LINES - 5
    assert named <= defined, named - defined
