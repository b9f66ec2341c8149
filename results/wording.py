"""How numbers are said to people."""


def count_text(count: int, one: str, many: str | None = None) -> str:
    """`1 flow`, `2,000 flows`, `3 leaves`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
