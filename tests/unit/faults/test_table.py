"""The table in docs/faults.md is the model's."""

from pathlib import Path

from faults.kinds import kinds
from faults.kinds.reference import kinds_table, with_table
from faults.request import WORDS

DOCUMENT = Path(__file__).parents[3] / "docs" / "faults.md"


def test_the_document_has_the_table_of_the_model():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text, "make it anew: python -m faults.kinds.reference"


def test_every_kind_has_a_row_and_every_other_word_is_named():
    lines = kinds_table().splitlines()
    assert all(any(line.startswith(f"| {kind.kind} |") for line in lines) for kind in kinds())
    words = {name.split()[0] for line in lines for name in line.split("`")[1::2]}
    assert words >= {word.name for word in WORDS}
