import pytest

from results.wording import count_text


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [(1, ("flow",), "1 flow"), (0, ("flow",), "0 flows"), (2000, ("flow",), "2,000 flows"),
     (1, ("leaf", "leaves"), "1 leaf"), (3, ("leaf", "leaves"), "3 leaves")],
)  # fmt: skip
def test_one_is_told_in_the_singular(count: int, words: tuple[str, ...], text: str) -> None:
    assert count_text(count, *words) == text
