"""A process that runs until it is ended: by a signal or a request; and the unix socket at which it serves requests.

`threading.Event` does not work for the end, because its `wait` and `set` take a lock. A signal handler runs in the
middle of the code it interrupts. If that is `wait` with the lock taken, `set` waits for ever. (`signal`, "Execution of
Python signal handlers".)
"""

import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class Ending:
    """A flag that is set once, by a signal too; `select` then finds it readable. Takes no lock."""

    def __init__(self) -> None:
        self._is_set = False
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close its sockets."""
        self._near.close()
        self._far.close()

    def on_signals(self) -> None:
        """Set the flag on SIGTERM and SIGINT, for as long as this process lives. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        """Set the flag. Safe from any thread and signal handler, repeatedly, and after closing."""
        self._is_set = True
        with suppress(OSError):  # it is full: readable already; or closed: nothing waits any more
            self._far.send(b"x")

    def is_set(self) -> bool:
        """Report whether it is time to end."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, or `seconds` have passed; return whether it is set."""
        select.select([self], [], [], seconds)
        return self._is_set

    def fileno(self) -> int:
        """Return a descriptor that is readable once the flag is set."""
        return self._near.fileno()


def listen_at(path: Path, listener: socket.socket, waiting: int) -> None:
    """Make an unbound unix socket listen at `path`, with a backlog of `waiting` clients. Raises OSError.

    The file appears only when a connection is possible: a client that waits for the file is never refused.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    try:
        listener.bind(os.fspath(fresh))
        fresh.chmod(0o600)
        listener.listen(waiting)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
