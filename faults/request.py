"""Reads a request for faults: `{"drop": "1%", "for": "2s"}`, as the command line and scenarios write it.

It reports every problem at once. It knows no link and no lab.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faults.errors import WordingError
from faults.grammar import Reader
from faults.kinds import Fault, kinds
from faults.selector import ONLY_WORDS
from faults.timing import TIMING_WORDS, Timing, complain_about_times, timing_of

KIND_WORDS = tuple(kind.says.word for kind in kinds())
"""Words that make one fault each; several in one order compose."""
DETAIL_WORDS = tuple(detail for kind in kinds() for detail in kind.says.details)
"""Words that specify one kind further."""
WORDS = (*KIND_WORDS, *ONLY_WORDS, *DETAIL_WORDS, *TIMING_WORDS)


@dataclass(frozen=True, slots=True)
class Worded:
    """The meaning of the words: faults that compose in this order, and when they are in force."""

    faults: tuple[Fault, ...]
    timing: Timing


def worded(words: Mapping[str, Any]) -> Worded:
    """Read `words`; values are text, or True for a flag. Raises WordingError with every problem."""
    reader = Reader({name.replace("_", "-"): value for name, value in words.items()}, WORDS)
    result = Worded(_faults(reader), timing_of(reader))
    _complain_about_combinations(reader)
    if reader.problems:
        raise WordingError(reader.problems)
    return result


def _faults(words: Reader) -> tuple[Fault, ...]:
    """Return one fault per kind word, in the order of the kinds."""
    given = [kind for kind in kinds() if kind.word in words]
    if not given:
        known = ", ".join(word.name for word in KIND_WORDS)
        words.wrong("fault", "no kind of fault is given", f"for example {known}")
    made = []
    for kind in given:
        before = len(words.problems)
        fault = kind.read(words)
        if len(words.problems) == before:
            made.append(fault)
    return tuple(made)


def _complain_about_combinations(words: Reader) -> None:
    """Report words that are valid by themselves but have no effect here."""
    for kind in kinds():
        for detail in kind.says.details:
            if detail.name in words and kind.word not in words:
                words.wrong(detail.name, f"has no effect without {kind.word}", f"add {kind.word}, or leave it out")
    selecting = [word.name for word in ONLY_WORDS if word.name in words]
    selectable = [kind.word for kind in kinds() if kind.selects()]
    if selecting and not any(word in words for word in selectable):
        words.wrong(selecting[0], "has no kind that selects packets", f"it goes with {', '.join(selectable)}")
    complain_about_times(words)
