"""Rates for people have four digits that say something, however small they are."""

import pytest

from results.numbers_text import count_text, share_text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"), (1, "100%"), (0.01, "1%"), (1 / 11, "9.091%"), (0.999999, "100%"), (0.123456, "12.35%"),
        (1e-7, "0.00001%"), (2.3283064365386963e-10, "0.00000002328%"),
    ],
)  # fmt: skip
def test_a_share(share: float, text: str) -> None:
    assert share_text(share) == text


def test_one_is_not_many() -> None:
    assert [count_text(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert count_text(3, "leaf", "leaves") == "3 leaves"
