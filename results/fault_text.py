"""A fault as people are told of it, wherever that is: in the words that set it, and what the kernel holds of it."""

_WORDS = {"random-drop": "drop", "burst-drop": "gemodel", "counted-drop": "one-in"}
"""Kinds whose word is not their name in records; `faults.kinds` has both, and a test compares."""

GONE = ("nothing", "removed")
"""What stands for an amount where the kernel holds the fault no more."""


def fault_text(kind: str, amount: str = "") -> str:
    """As `drop 1%`, `gemodel p=1%,r=10%,bad=100%,good=0%`, `down`; without an amount its word alone."""
    return f"{_WORDS.get(kind, kind)} {amount}".rstrip()


def held_text(kind: str, held: str) -> str:
    """What the kernel holds, in the same words, or that it holds nothing."""
    return held if held in GONE else fault_text(kind, held)


def in_force_text(kind: str, asked: str, held: str) -> str:
    """The same in a sentence that has said what was asked for: `in force as asked`, `nothing in force`, `removed`."""
    if held == asked:
        return "in force as asked"
    return held if held == "removed" else f"{held_text(kind, held)} in force"
