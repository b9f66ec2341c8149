"""Formats numbers, suspects and faults for people; what is written for programs stays exact."""

from collections.abc import Sequence
from decimal import Decimal

_DIGITS = 4
"""Significant digits of a rate: nobody measures one more exactly here (our choice)."""


def count_text(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 flow`, `2,000 flows`, `3 leaves`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def share_text(share: float) -> str:
    """Return a share in percent, with four significant digits, never as a power of ten: `1%`, `9.091%`, `0.00001%`."""
    digits = Decimal(f"{100 * share:.{_DIGITS}g}")
    return f"{digits.normalize():f}%"


def suspects_text(links: Sequence[str], fewest: int = 1) -> str:
    """Describe sets of links among which the evidence cannot decide: `one of A, B`, `at least 4 of A, B, C, ...`."""
    return f"{'one' if fewest <= 1 else f'at least {fewest:,}'} of {', '.join(links)}"


def open_sets(candidates: Sequence[Sequence[str]], fewest: Sequence[int] = ()) -> list[str]:
    """Describe each set; records of older versions have no `fewest`."""
    counts = [*fewest, *[1] * len(candidates)]
    return [suspects_text(links, count) for links, count in zip(candidates, counts, strict=False)]


def untimely_text(paths: int) -> str:
    """Explain why healthy paths clear nothing."""
    clear, flows = ("clears", "its flow was") if paths == 1 else ("clear", "their flows were")
    return f"{count_text(paths, 'healthy path')} {clear} no link: {flows} not under way while packets were lost"


_WORDS = {"random-drop": "drop", "burst-drop": "gemodel", "counted-drop": "one-in"}
"""Kinds whose word is not their name in records; `faults.kinds` has both, and a test compares."""

GONE = ("nothing", "removed")
"""Text for an amount when the kernel no longer holds the fault."""


def fault_text(kind: str, amount: str = "") -> str:
    """Return `drop 1%`, `gemodel p=1%,r=10%,bad=100%,good=0%`, `down`; without an amount only the word."""
    return f"{_WORDS.get(kind, kind)} {amount}".rstrip()


def held_text(kind: str, held: str) -> str:
    """Describe what the kernel holds in the same words, or state that it holds nothing."""
    return held if held in GONE else fault_text(kind, held)


def in_force_text(kind: str, asked: str, held: str) -> str:
    """Describe the same after the request was stated: `in force as asked`, `nothing in force`, `removed`."""
    if held == asked:
        return "in force as asked"
    return held if held == "removed" else f"{held_text(kind, held)} in force"
