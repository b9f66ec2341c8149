"""When a process shall end: a signal or a request says so, a loop looks at it, or waits for it.

`threading.Event` will not do. Its `wait` and `set` take a lock; a signal's handler runs in the middle of the code it
interrupts, and if that is `wait` with the lock taken, `set` waits for ever. (`signal`, "Execution of Python signal
handlers".)
"""

import select
import signal
import socket
from contextlib import suppress
from types import TracebackType
from typing import Self


class Ending:
    """Set once, by a signal too; something that `select` finds readable from then on. Takes no lock."""

    def __init__(self) -> None:
        self._is_set = False
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)

    def __enter__(self) -> Self:
        """As it is."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close its sockets."""
        self._near.close()
        self._far.close()

    def on_signals(self) -> None:
        """Have SIGTERM and SIGINT set it, for as long as this process lives. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        """It is time to end. From any thread and any signal handler; safe to call again, and when it is closed."""
        self._is_set = True
        with suppress(OSError):  # it is full: readable already; or closed: nobody waits any more
            self._far.send(b"x")

    def is_set(self) -> bool:
        """Whether it is time to end."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is time, or so many seconds have passed; whether it is."""
        select.select([self], [], [], seconds)
        return self._is_set

    def fileno(self) -> int:
        """Readable from `set` on."""
        return self._near.fileno()
