"""The table in docs/faults.md is the model's."""

from pathlib import Path

from faults.kinds import kinds
from faults.kinds_table import kinds_table, with_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "faults.md"


def test_the_document_has_the_table_of_the_model():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text, "make it anew: python -m faults.kinds_table"


def test_every_kind_has_a_row_and_what_nothing_can_make_is_said():
    rows = kinds_table().splitlines()
    assert all(any(f"| {kind.kind} |" in row for row in rows) for kind in kinds())
    assert any("| delay |" in row and row.endswith("| netem | refused, exit 3 |") for row in rows)
