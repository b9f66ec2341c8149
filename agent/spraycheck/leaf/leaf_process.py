"""The process of one leaf: does a round when its monitor asks, and answers with what it counted and judged."""

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.io.service import Ending, listen_at
from agent.spraycheck.errors import SprayCheckError
from agent.spraycheck.leaf import messages as leaf_line
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import known_of, turn_of


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A unix socket at `path` for root alone; its file is removed at the end of the body. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listen_at(path, listener, 1)
            yield listener
        finally:
            path.unlink(missing_ok=True)


def serve(detector: LeafDetector, listener: socket.socket, end: Ending) -> None:
    """Answer one monitor after the other until `end` is set. Raises SprayCheckError, after saying why."""
    while _comes(listener, end):
        line, _ = listener.accept()
        with line, suppress(ConnectionError):  # that monitor has gone; another may come
            _serve_one(detector, line, end)


def _serve_one(detector: LeafDetector, line: socket.socket, end: Ending) -> None:
    while _comes(line, end) and (question := leaf_line.read_question(line)) is not None:
        try:
            answer = _answer(detector, question)
        except SprayCheckError as error:
            leaf_line.write(line, leaf_line.Failed(str(error)))
            raise
        leaf_line.write(line, answer)


def _answer(detector: LeafDetector, question: leaf_line.Question) -> leaf_line.Answer:
    match question:
        case leaf_line.TakeTurn(now_ns):
            return leaf_line.Turned(turn_of(detector, now_ns))
        case leaf_line.TellKnown(keys):
            return leaf_line.Told(tuple(known_of(detector, keys)))


def _comes(something: socket.socket, end: Ending) -> bool:
    """Whether something comes before the end."""
    either: list[socket.socket | Ending] = [something, end]
    ready, _, _ = select.select(either, [], [])
    return end not in ready
