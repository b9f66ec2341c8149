"""Probes on their way: which wait for an answer, and how long an answer may take where the last ones took long.

An answer that comes too late revives nobody, but tells that the path works and is slow: the next one is waited for
longer, or a queue that is longer there than elsewhere would fail every probe for as long as it stands. Our choice.
"""

from dataclasses import dataclass

_MOST = 16
"""Patience grows to so many times the least, and answers later than that are forgotten. Our choice: a process that
stood still for a second must not make a second of every lost probe."""

_KEPT_OF_8 = 7
"""Eighths of the slowest answer that are left after a faster one (the weight of RFC 6298)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One probe."""

    row: int
    """EV row it was sent on."""
    sent_ns: int
    tag: int
    """Whatever the one who asks wants to be told again."""
    where: int
    """Questions of one place share their patience: those of a row, or of a plane."""


class Questions:
    """Questions by number; whoever asks chooses numbers that are unique among those under way."""

    def __init__(self, patience_ns: int) -> None:
        self.patience_ns = patience_ns
        """Least time an answer is waited for; may be changed."""
        self._open: dict[int, Question] = {}
        self._given_up: dict[int, Question] = {}
        self._slowest_ns: dict[int, int] = {}
        """Of each place the slowest answer, fading with faster ones."""

    def __len__(self) -> int:
        """Those that wait for an answer."""
        return len(self._open)

    def ask(self, number: int, question: Question) -> None:
        """It is sent."""
        self._given_up.pop(number, None)
        self._open[number] = question

    def answered(self, number: int, now_ns: int) -> tuple[Question, bool] | None:
        """Of which question an answer has come, and whether in time; None if nobody asked, or long ago."""
        question = self._open.pop(number, None)
        in_time = question is not None
        question = question or self._given_up.pop(number, None)
        if question is None:
            return None
        slowest_ns = self._slowest_ns.get(question.where, 0) * _KEPT_OF_8 // 8
        self._slowest_ns[question.where] = max(now_ns - question.sent_ns, slowest_ns)
        return question, in_time

    def overdue(self, now_ns: int) -> list[Question]:
        """Those that have waited too long, which are given up."""
        late = [number for number, each in self._open.items() if self._until_ns(each) <= now_ns]
        if late:
            oldest_ns = now_ns - _MOST * self.patience_ns
            self._given_up = {n: each for n, each in self._given_up.items() if each.sent_ns > oldest_ns}
            self._given_up |= {number: self._open.pop(number) for number in late}
        return [self._given_up[number] for number in late]

    def is_on(self, row: int) -> bool:
        """Whether one that waits for an answer was sent on an EV row."""
        return any(each.row == row for each in self._open.values())

    @property
    def deadline_ns(self) -> int | None:
        """When one will have waited too long; None if none waits."""
        return min((self._until_ns(each) for each in self._open.values()), default=None)

    def _until_ns(self, question: Question) -> int:
        slow_ns = 2 * self._slowest_ns.get(question.where, 0)
        return question.sent_ns + max(self.patience_ns, min(slow_ns, _MOST * self.patience_ns))
