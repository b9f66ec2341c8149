"""Work of the owner that waits for other processes: done in steps between requests, so that no other client waits."""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Yields whenever there is nothing to do but wait; returns what the work is for."""

STEP_S = 0.005
"""Between two looks at work that waits (our choice): a worker's turn takes milliseconds."""


class Pending(Generic[R]):
    """Work that may not be over yet."""

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self._result: R | None = None
        self.is_over = False

    def step(self) -> bool:
        """Go on as far as possible without waiting; whether it is over."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._result, self.is_over = end.value, True
        except Exception as error:  # for who asked, in `result`
            self._error, self.is_over = error, True
        return self.is_over

    def result(self) -> R:
        """What it is for; only when it is over. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # the generator has returned it


class Works:
    """Work done one after another, in the order in which it was added."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Pending[Any], bool]] = deque()

    def __len__(self) -> int:
        """How much is left, with what goes on now."""
        return len(self._waiting)

    def aside(self, steps: Steps[R]) -> Steps[R | None]:
        """Work inside of work that is given up, with None, as soon as other work waits."""
        work = Pending(steps)
        while not work.step():
            if len(self) > 1:
                return None
            yield
        return work.result()

    def ask(self, steps: Steps[R]) -> Pending[R]:
        """Add work for somebody who takes its result, or its error."""
        return self._add(steps, True)

    def add(self, steps: Steps[None]) -> None:
        """Add work that nobody waits for; its error is raised by `run`."""
        self._add(steps, False)

    def run(self) -> None:
        """Go on as far as possible without waiting."""
        while self._waiting and self._waiting[0][0].step():
            done, is_asked_for = self._waiting.popleft()
            if not is_asked_for:
                done.result()

    def _add(self, steps: Steps[R], is_asked_for: bool) -> Pending[R]:
        work = Pending(steps)
        self._waiting.append((work, is_asked_for))
        return work


class Later(NamedTuple):
    """A result that is to be made of pending work."""

    work: Pending[Any]
    of: Callable[[Any], Any]
    """Makes it of what the work is for."""

    def result(self) -> Any:
        """The result; only when the work is over. Raises what the work raised."""
        return self.of(self.work.result())
