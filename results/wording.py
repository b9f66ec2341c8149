"""How numbers are said to people; what is written for programs stays exact."""

from decimal import Decimal

_DIGITS = 4
"""Of a rate: nobody measures one better here (our choice)."""


def count_text(count: int, one: str, many: str | None = None) -> str:
    """`1 flow`, `2,000 flows`, `3 leaves`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def share_text(share: float) -> str:
    """In percent, with four digits that say something, never as a power of ten: `1%`, `9.091%`, `0.00001%`."""
    digits = Decimal(f"{100 * share:.{_DIGITS}g}")
    return f"{digits.normalize():f}%"
