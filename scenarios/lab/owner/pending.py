"""Runs work of the owner that waits for other processes in steps between requests, so that no other client waits."""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Work that yields whenever it must wait, and returns its result."""

STEP_S = 0.005
"""Time between two steps of waiting work (our choice): a worker's turn takes milliseconds."""


class Pending(Generic[R]):
    """Work that may not be finished yet."""

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self._result: R | None = None
        self.is_over = False

    def step(self) -> bool:
        """Continue as far as possible without waiting; return whether it is finished."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._result, self.is_over = end.value, True
        except Exception as error:  # for who asked, in `result`
            self._error, self.is_over = error, True
        return self.is_over

    def result(self) -> R:
        """Return the result; only when the work is finished. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # the generator has returned it


class Works:
    """Work done one after another, in the order in which it was added."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Pending[Any], bool]] = deque()

    def __len__(self) -> int:
        """Return how much is left, including what runs now."""
        return len(self._waiting)

    def aside(self, steps: Steps[R]) -> Steps[R | None]:
        """Inner work, given up with None as soon as other work waits."""
        work = Pending(steps)
        while not work.step():
            if len(self) > 1:
                return None
            yield
        return work.result()

    def ask(self, steps: Steps[R]) -> Pending[R]:
        """Add work for a caller who takes its result, or its error."""
        return self._add(steps, True)

    def add(self, steps: Steps[None]) -> None:
        """Add work that nobody waits for; `run` raises its error."""
        self._add(steps, False)

    def run(self) -> None:
        """Continue as far as possible without waiting."""
        while self._waiting and self._waiting[0][0].step():
            done, is_asked_for = self._waiting.popleft()
            if not is_asked_for:
                done.result()

    def _add(self, steps: Steps[R], is_asked_for: bool) -> Pending[R]:
        work = Pending(steps)
        self._waiting.append((work, is_asked_for))
        return work


class Later(NamedTuple):
    """A result that is made of pending work."""

    work: Pending[Any]
    of: Callable[[Any], Any]
    """Make it of the work's result."""

    def result(self) -> Any:
        """Return the result; only when the work is finished. Raises what the work raised."""
        return self.of(self.work.result())
