"""A program on a pseudo-terminal, talked to line by line, as somebody who types."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class PtySession:
    """What is typed into a program and what it shows until its next prompt."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, prompt: str) -> None:
        self._process, self._master, self._prompt = process, master, prompt.encode()

    def read(self, within_s: float = 60) -> str:
        """All that is shown until the prompt; fails the test when that does not come."""
        shown, until = b"", time.monotonic() + within_s
        while not shown.endswith(self._prompt):
            ready = select.select([self._master], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, f"no prompt within {within_s} s:\n{shown.decode(errors='replace')}"
            data = self._received()
            assert data, f"the program has ended:\n{shown.decode(errors='replace')}"
            shown += data
        return _plain(shown.removesuffix(self._prompt))

    def type(self, line: str, within_s: float = 60) -> str:
        """Enter a line; what is shown then, without the line itself."""
        os.write(self._master, f"{line}\n".encode())
        return self.read(within_s).removeprefix(line).strip()

    def leave(self, keys: str, within_s: float = 30) -> int:
        """Type what ends the program; its exit code."""
        os.write(self._master, keys.encode())
        until = time.monotonic() + within_s
        while self._process.poll() is None and time.monotonic() < until:
            if select.select([self._master], [], [], 0.1)[0]:
                self._received()
        return self._process.wait(1)

    def _received(self) -> bytes:
        try:
            return os.read(self._master, 1 << 16)
        except OSError:  # EIO: nobody has the other end open any more
            return b""


@contextmanager
def pty_session(words: Sequence[str], prompt: str, env: dict[str, str] | None = None) -> Iterator[PtySession]:
    """Start a program on a terminal of its own; it is ended with the body, if it has not by itself."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (50, 500))  # else what is typed is shown in pieces
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=env)
    os.close(slave)
    try:
        yield PtySession(process, master, prompt)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(master)


def _plain(shown: bytes) -> str:
    """Without colours and carriage returns."""
    return re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", shown.decode(errors="replace")).replace("\r", "")
