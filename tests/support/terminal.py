"""A terminal of a chosen size, by tmux: what a program shows on it, which keys it is given, how it leaves it."""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

TMUX = which("tmux")


class Terminal:
    """A program on a terminal, the only one of a tmux server of its own."""

    def __init__(self, socket: Path, folder: Path) -> None:
        self._socket, self._folder = socket, folder

    def start(self, words: Sequence[str], width: int, height: int) -> None:
        """Start a program as from a shell that exports its size; the terminal's settings and its exit code are kept."""
        kept = {name: shlex.quote(str(self._folder / name)) for name in ("before", "after", "code")}
        line = f"export COLUMNS={width} LINES={height}; stty -g > {kept['before']}; "
        line += f"{shlex.join(words)}; echo $? > {kept['code']}; stty -g > {kept['after']}"
        self._tmux("new-session", "-d", "-x", str(width), "-y", str(height), f"{line}; exec sleep 600")

    def screen(self) -> list[str]:
        """The lines that are shown now, without blanks at their ends."""
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").split("\n")]

    def resize(self, width: int, height: int) -> None:
        """As a user who drags the window."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def press(self, *keys: str) -> None:
        """Keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def wait(self, shown: Callable[[str], bool], within_s: float, what: str) -> list[str]:
        """The first screen of which something holds."""
        until = time.monotonic() + within_s
        while not shown("\n".join(screen := self.screen())):
            assert time.monotonic() < until, f"not within {within_s} s: {what}\n" + "\n".join(screen)
            time.sleep(0.1)
        return screen

    def exit_code(self, within_s: float = 20) -> int:
        """Of the program, once it has ended; the terminal is as it was, and the program's screen is gone."""
        until = time.monotonic() + within_s
        while not (self._folder / "after").exists() or not (self._folder / "after").read_text().strip():
            assert time.monotonic() < until, "the program has not ended:\n" + "\n".join(self.screen())
            time.sleep(0.05)
        assert (self._folder / "after").read_text() == (self._folder / "before").read_text()
        assert self._tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split() == ["0", "1"]
        return int((self._folder / "code").read_text())

    def _tmux(self, *words: str) -> str:
        command = (TMUX or "tmux", "-S", str(self._socket), "-f", "/dev/null", *words)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout

    def end(self) -> None:
        """End the program and the server; twice is safe."""
        command = (TMUX or "tmux", "-S", str(self._socket), "kill-server")
        subprocess.run(command, check=False, capture_output=True, timeout=30)


@contextmanager
def terminal(words: Sequence[str], width: int, height: int) -> Iterator[Terminal]:
    """A program on a terminal of so many columns and lines; both are gone in the end."""
    with TemporaryDirectory() as folder:
        shown = Terminal(Path(folder) / "tmux", Path(folder))
        try:
            shown.start(words, width, height)
            yield shown
        finally:
            shown.end()
