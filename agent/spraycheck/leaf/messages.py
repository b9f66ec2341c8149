"""Messages between the monitor and a leaf's own process: what is asked, what is answered, as bytes on a unix socket.

A message is its length (4 bytes, network order) and MessagePack. Numbers arrive exactly as they were sent.
"""

import socket
import struct
from typing import Any

import msgspec
import numpy as np

from agent.spraycheck.leaf.leaf_detector import Key
from agent.spraycheck.leaf.leaves import Known, Turn

_LENGTH = struct.Struct("!I")


class TakeTurn(msgspec.Struct, frozen=True, tag="turn"):
    """Do one round: `Turn`."""

    now_ns: int


class TellKnown(msgspec.Struct, frozen=True, tag="known"):
    """What the leaf knows of these flows: a `Known` each, in their order."""

    keys: tuple[Key, ...]


Question = TakeTurn | TellKnown


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Why the leaf cannot answer; its process ends."""

    why: str


class Turned(msgspec.Struct, frozen=True, tag="turned"):
    """The answer to `TakeTurn`."""

    turn: Turn


class Told(msgspec.Struct, frozen=True, tag="told"):
    """The answer to `TellKnown`."""

    known: tuple[Known, ...]


Answer = Turned | Told | Failed


def write(line: socket.socket, message: msgspec.Struct) -> None:
    """Send one message. Raises OSError."""
    body = _encoder.encode(message)
    line.sendall(_LENGTH.pack(len(body)) + body)


def read_question(line: socket.socket) -> Question | None:
    """The next question; None when the other side has closed. Raises OSError."""
    body = _read(line)
    return None if body is None else _questions.decode(body)


def read_answer(line: socket.socket) -> Answer | None:
    """The next answer; None when the other side has closed. Raises OSError."""
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
_questions = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer, dec_hook=_to_numpy)
