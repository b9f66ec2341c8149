"""Describes a fault to people: in the words that set it, and what the kernel holds of it."""

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
