"""Leaves with processes of their own: the monitor's connections to them, the messages, and the process of one leaf.

A round is one request to every leaf, so that the monitor never holds this round of one leaf and an older one of
another: when no leaf owes a verdict, all are known.

A message is its length (4 bytes, network order) and MessagePack. Numbers arrive exactly as they were sent.
"""

import select
import socket
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np

from agent.io.daemon import Ending, listen_at
from agent.spraycheck.errors import LeafProcessError, SprayCheckError
from agent.spraycheck.leaf.flow_reports import Key, LeafRules
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import FlowKnowledge, LeafRound, knowledge_of, round_of
from agent.spraycheck.paths import LeafId, leaf_name

_LENGTH = struct.Struct("!I")


class RoundRequest(msgspec.Struct, frozen=True, tag="turn"):
    """Request to do one round."""

    now_ns: int


class FlowsRequest(msgspec.Struct, frozen=True, tag="known"):
    """Request for a `FlowKnowledge` of each of these flows, in their order."""

    keys: tuple[Key, ...]


Request = RoundRequest | FlowsRequest


class Failure(msgspec.Struct, frozen=True, tag="failed"):
    """Reply that the leaf cannot serve a request and why; its process ends."""

    why: str


class RoundReply(msgspec.Struct, frozen=True, tag="turned"):
    """Reply to `RoundRequest`."""

    turn: LeafRound


class FlowsReply(msgspec.Struct, frozen=True, tag="flows"):
    """Reply to `FlowsRequest`."""

    known: tuple[FlowKnowledge, ...]


Reply = RoundReply | FlowsReply | Failure


def _write(line: socket.socket, message: msgspec.Struct) -> None:
    """Send one message. Raises OSError."""
    body = _encoder.encode(message)
    line.sendall(_LENGTH.pack(len(body)) + body)


def _read_request(line: socket.socket) -> Request | None:
    """Read the next request; None when the other side has closed. Raises OSError."""
    body = _read(line)
    return None if body is None else _questions.decode(body)


def _read_reply(line: socket.socket) -> Reply | None:
    """Read the next reply; None when the other side has closed. Raises OSError."""
    body = _read(line)
    return None if body is None else _answers.decode(body)


def _read(line: socket.socket) -> bytes | None:
    head = _exactly(line, _LENGTH.size)
    return None if head is None else _exactly(line, _LENGTH.unpack(head)[0])


def _exactly(line: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        if not (part := line.recv(min(count, 1 << 20))):
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _from_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a leaf does not send {type(value).__name__}")


def _to_numpy(_: type, value: Any) -> Any:
    kind, numbers = value
    return np.array(numbers, kind)


_encoder = msgspec.msgpack.Encoder(enc_hook=_from_numpy)
_questions = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(Reply, dec_hook=_to_numpy)


ANSWER_WITHIN_S = 60.0
"""Timeout of a reply. A round takes milliseconds; our choice, as long as the owner gives a process to start. The owner
finds a stopped process earlier."""

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True)
class _Line:
    """Connection to one leaf's process."""

    leaf: str
    socket: socket.socket

    @property
    def who(self) -> str:
        """Name and number of the process."""
        credentials = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"SprayCheck on {self.leaf} (process {_CREDENTIALS.unpack(credentials)[0]})"

    def ask(self, question: Request) -> None:
        """Send a request."""
        try:
            _write(self.socket, question)
        except OSError as error:
            raise LeafProcessError(f"{self.who} has gone: {error.strerror}") from error

    def answer(self) -> RoundReply | FlowsReply:
        """Wait for the reply to the oldest request that has none."""
        try:
            answer = _read_reply(self.socket)
        except TimeoutError as error:
            raise LeafProcessError(f"{self.who} has not answered for {ANSWER_WITHIN_S:.0f} s") from error
        except OSError as error:
            raise LeafProcessError(f"{self.who} has gone: {error.strerror}") from error
        if answer is None:
            raise LeafProcessError(f"{self.who} has gone")
        if isinstance(answer, Failure):
            raise LeafProcessError(f"{self.who} has ended: {answer.why}")
        return answer


class RemoteLeaves:
    """Leaves by their rules, each with the path of the socket at which its process answers. Use in a `with`."""

    def __init__(self, leaves: Sequence[tuple[LeafRules, str]]) -> None:
        self.rules: Mapping[LeafId, LeafRules] = {(rules.plane, rules.leaf): rules for rules, _ in leaves}
        self._paths = {(rules.plane, rules.leaf): path for rules, path in leaves}
        self._lines: dict[LeafId, _Line] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        """Connect to all. Raises LeafProcessError."""
        with ExitStack() as undo:
            for place, path in self._paths.items():
                line = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                line.settimeout(ANSWER_WITHIN_S)
                try:
                    line.connect(path)
                except OSError as error:
                    raise LeafProcessError(f"SprayCheck on {leaf_name(*place)}: {path}: {error.strerror}") from error
                self._lines[place] = _Line(leaf_name(*place), line)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Disconnect."""
        self._undo.close()

    def rounds(self, now_ns: int) -> list[LeafRound]:
        """Do one round of every leaf, all at the same time. Raises LeafProcessError."""
        for line in self._lines.values():
            line.ask(RoundRequest(now_ns))
        answers = [line.answer() for line in self._lines.values()]
        return [answer.turn for answer in answers if isinstance(answer, RoundReply)]

    def known(self, wanted: Mapping[LeafId, Collection[Key]]) -> dict[tuple[LeafId, Key], FlowKnowledge]:
        """Ask leaves about flows; a leaf of which nothing is wanted is not asked. Raises LeafProcessError."""
        asked = {place: tuple(keys) for place, keys in wanted.items() if keys}
        for place, keys in asked.items():
            self._lines[place].ask(FlowsRequest(keys))
        found: dict[tuple[LeafId, Key], FlowKnowledge] = {}
        for place, keys in asked.items():
            answer = self._lines[place].answer()
            if isinstance(answer, FlowsReply):
                found |= {(place, key): known for key, known in zip(keys, answer.known, strict=True)}
        return found


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Yield a unix socket at `path` for root alone; its file is removed at the end. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listen_at(path, listener, 1)
            yield listener
        finally:
            path.unlink(missing_ok=True)


def serve(detector: LeafDetector, listener: socket.socket, end: Ending) -> None:
    """Reply one monitor after the other until `end` is set. Raises SprayCheckError, after saying why."""
    while _comes(listener, end):
        line, _ = listener.accept()
        with line, suppress(ConnectionError):  # that monitor has gone; another may come
            _serve_one(detector, line, end)


def _serve_one(detector: LeafDetector, line: socket.socket, end: Ending) -> None:
    while _comes(line, end) and (question := _read_request(line)) is not None:
        try:
            answer = _answer(detector, question)
        except SprayCheckError as error:
            _write(line, Failure(str(error)))
            raise
        _write(line, answer)


def _answer(detector: LeafDetector, question: Request) -> Reply:
    match question:
        case RoundRequest(now_ns):
            return RoundReply(round_of(detector, now_ns))
        case FlowsRequest(keys):
            return FlowsReply(tuple(knowledge_of(detector, keys)))


def _comes(something: socket.socket, end: Ending) -> bool:
    """Report whether something comes before the end."""
    either: list[socket.socket | Ending] = [something, end]
    ready, _, _ = select.select(either, [], [])
    return end not in ready
