"""Long lines go on at blanks and behind commas, and lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from scenarios.watch.folding import folded

WORDS = st.lists(st.text("abc,-", min_size=1, max_size=12), min_size=1, max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "  two"]),
        ("p0:leaf0>h0 black-hole", 12, ["p0:leaf0>h0", "  black-hole"]),
        ("a=1,b=2,c=3", 8, ["a=1,b=2,", "  c=3"]),
        ("unbreakable", 5, ["unbreakable"]),
        ("", 5, [""]),
    ],
)
def test_where_a_line_goes_on(text: str, width: int, lines: list[str]) -> None:
    assert [line.plain for line in folded(Text(text), width)] == lines


@given(WORDS, st.integers(10, 40))
def test_nothing_is_lost_and_short_pieces_fit(text: str, width: int) -> None:
    lines = [line.plain for line in folded(Text(text, "bold"), width)]
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(len(line) <= width for line in lines) or any(len(word) > width - 2 for word in text.split())


def test_without_a_width_a_line_is_a_line() -> None:
    assert [line.plain for line in folded(Text("x " * 500), None)] == ["x " * 500]
