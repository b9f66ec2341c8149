"""Lines over a unix socket, many at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenarios.errors import WorkerFailedError
from scenarios.lab.line_socket import LineSocket


@contextmanager
def echoing(path: Path, most: int) -> Iterator[None]:
    """Somebody who answers every line with itself, in capitals, and hangs up after `most`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            for _ in range(most):
                if not (line := stream.readline()):
                    return
                stream.write(line.upper())
                stream.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(5)
        listener.close()


def test_many_lines_are_answered_in_their_order(tmp_path: Path) -> None:
    lines = [f"line {number}".encode() for number in range(500)]
    with echoing(tmp_path / "s", 502), LineSocket(tmp_path / "s", WorkerFailedError) as link:
        assert link.ask_all(lines) == [line.upper() for line in lines]
        assert link.ask(b"one more") == b"ONE MORE"
        assert link.ask_all([]) == []


def test_who_hangs_up_between_two_answers_is_told_of(tmp_path: Path) -> None:
    told = pytest.raises(WorkerFailedError, match="ended without an answer")
    with echoing(tmp_path / "s", 2), LineSocket(tmp_path / "s", WorkerFailedError) as link, told:
        link.ask_all([b"a", b"b", b"c"])
