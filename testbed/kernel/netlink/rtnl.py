"""Netlink socket inside one namespace: batches of requests, an error per message, and dumps.

Knows messages, not their meaning. pyroute2 opens the socket, encodes requests, and parses answers. This module sends
many requests at once, waits for all answers without an event loop, and leaves unneeded attributes undecoded.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from pyroute2.netlink import (
    NETLINK_EXT_ACK,
    NETLINK_ROUTE,
    NLA_F_NESTED,
    NLA_F_NET_BYTEORDER,
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    SOL_NETLINK,
)
from pyroute2.netlink.rtnl.marshal import MarshalRtnl
from pyroute2.netns import create_socket

from testbed.errors import KernelError
from testbed.kernel.netns import inside

__all__ = ["NLM_F_CREATE", "NLM_F_EXCL", "NLM_F_REPLACE", "Message", "Request", "Rtnl", "absent"]

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ERROR = struct.Struct("=i")
_TLV = struct.Struct("=HH")
_RECEIVE_BYTES = 1 << 16
_BATCH = 64
"""Requests per send: their acknowledgements must fit the socket's receive buffer (208 KiB by default)."""

Message = Any
"""A pyroute2 `nlmsg`; pyroute2 has no types."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message to the kernel and its subject, for the error text. `flags` are added to NLM_F_REQUEST and ACK."""

    text: str
    message: Message
    type: int
    flags: int = 0


class Rtnl:
    """Requests and dumps on one socket. Create it with `Rtnl.inside` or `Rtnl.here`."""

    def __init__(self, node: str, opened: socket.socket) -> None:
        self.node = node
        self._socket = opened
        self._marshal = MarshalRtnl()
        self._sequence = 0

    @classmethod
    @contextmanager
    def inside(cls, node: str, namespace: Path) -> Iterator[Self]:
        """Open a socket in `namespace`, closed at the end of the body. `node` names it in errors.

        Raises what `netns.inside` does.
        """
        with ExitStack() as stack:
            with inside(namespace):  # pyroute2's `netns=` forks a process for every socket
                rtnl = stack.enter_context(cls.here(node))
            yield rtnl

    @classmethod
    @contextmanager
    def here(cls, node: str) -> Iterator[Self]:
        """Open a socket in the calling thread's namespace, closed at the end of the body."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        with create_socket(family=socket.AF_NETLINK, socket_type=kind, proto=NETLINK_ROUTE) as opened:
            opened.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
            yield cls(node, opened)

    def apply(self, requests: Iterable[Request]) -> None:
        """Send all requests in batches. Raises KernelError for the first refused one, after its batch was answered."""
        for batch in _batches(requests):
            if failures := self.try_apply(batch):
                raise failures[0]

    def try_apply(self, batch: Sequence[Request]) -> tuple[KernelError, ...]:
        """Send one batch of at most 64 requests and return what the kernel refused, in the order of the answers."""
        waiting = {self._next_sequence(): request for request in batch}

        def parse(data: bytes, offset: int, length: int) -> Message | None:
            _, kind, _, sequence, _ = _HEADER.unpack_from(data, offset)
            if kind == NLMSG_ERROR and _ERROR.unpack_from(data, offset + _HEADER.size) == (0,):
                waiting.pop(sequence)
                return None  # nothing to report; a message made of it would take longer than the request
            return self._parsed(data, offset, length)

        failures = []
        with self._parsing(parse, *waiting):
            self._send(_encoded(request, NLM_F_ACK, sequence) for sequence, request in waiting.items())
            while waiting:
                for answer in self._received():
                    if (request := waiting.pop(answer["header"]["sequence_number"], None)) is not None:
                        failures.append(self._failure(request, answer["header"]["error"]))
        return tuple(failures)

    def dump(self, request: Request, reply: type, only: frozenset[int] | None = None) -> list[Message]:
        """Return all answers to a dump, decoded as `reply`; repeated when the kernel reports a change meanwhile.

        `only` names the attribute types worth decoding: a link has some fifty, and decoding is most of the time of a
        read back.
        """
        while True:
            answers, interrupted = self._dump_once(request, partial(_decoded, reply, only))
            if not interrupted:
                return answers

    def _dump_once(self, request: Request, decode: Callable[[bytes], Message]) -> tuple[list[Message], bool]:
        wanted = self._next_sequence()

        def parse(data: bytes, offset: int, length: int) -> Message:
            is_end = _HEADER.unpack_from(data, offset)[1] in (NLMSG_ERROR, NLMSG_DONE)
            return self._parsed(data, offset, length) if is_end else decode(data[offset : offset + length])

        with self._parsing(parse, wanted):
            self._send([_encoded(request, NLM_F_DUMP, wanted)])
            return self._answers(request, wanted)

    def _answers(self, request: Request, wanted: int) -> tuple[list[Message], bool]:
        answers, interrupted = list[Message](), False
        while True:
            for answer in self._received():
                header = answer["header"]
                if header["sequence_number"] != wanted:
                    continue
                interrupted |= bool(header["flags"] & NLM_F_DUMP_INTR)
                if header["error"] is not None:
                    raise self._failure(request, header["error"])
                if header["type"] in (NLMSG_ERROR, NLMSG_DONE):
                    return answers, interrupted
                answers.append(answer)

    @contextmanager
    def _parsing(self, parse: Callable[[bytes, int, int], Message | None], *sequences: int) -> Iterator[None]:
        """Make pyroute2 call `parse`, with data, offset and length, for the answers of these numbers in the body."""
        parsers = self._marshal.seq_map
        parsers.update(dict.fromkeys(sequences, parse))
        try:
            yield
        finally:
            for each in sequences:
                del parsers[each]

    def _parsed(self, data: bytes, offset: int, length: int) -> Message:
        """Parse a message with pyroute2's own parser."""
        _, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        return self._marshal.parse_one_message(kind, flags, sequence, data, offset, length)

    def _received(self) -> Iterator[Message]:
        """Return the messages of one receive."""
        messages: Iterator[Message] = self._marshal.parse(self._socket.recv(_RECEIVE_BYTES))
        return messages

    def _send(self, frames: Iterable[bytes]) -> None:
        self._socket.send(b"".join(frames))

    def _failure(self, request: Request, refused: Exception) -> KernelError:
        code, said = refused.args
        detail = "" if said == os.strerror(code) else said  # pyroute2 sets this where the kernel sent no text
        return KernelError(self.node, request.text, code, detail)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence


def absent(error: KernelError) -> bool:
    """Report whether the kernel's error means that the object does not exist."""
    return error.errno in (errno.ENOENT, errno.ENODEV, errno.ESRCH)


def _encoded(request: Request, flags: int, sequence: int) -> bytes:
    message = request.message
    message["header"] = {
        "type": request.type,
        "flags": NLM_F_REQUEST | flags | request.flags,
        "sequence_number": sequence,
    }
    message.reset()
    message.encode()
    return bytes(message.data).ljust(_aligned(len(message.data)), b"\0")


def _decoded(reply: type, only: frozenset[int] | None, data: bytes) -> Message:
    message = reply(data if only is None else _trimmed(reply, data, only))
    message.decode()
    message["header"]["error"] = None
    return message


def _trimmed(reply: type, data: bytes, only: frozenset[int]) -> bytes:
    """Remove the attributes of other types from the message."""
    start = offset = _HEADER.size + struct.calcsize("=" + "".join(code for _, code in reply.fields))  # type: ignore[attr-defined]
    kept = []
    while offset + _TLV.size <= len(data):
        length, kind = _TLV.unpack_from(data, offset)
        end = offset + max(_aligned(length), _TLV.size)
        if kind & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER) in only:
            kept.append(data[offset:end])
        offset = end
    body = data[_HEADER.size : start] + b"".join(kept)
    return _HEADER.pack(_HEADER.size + len(body), *_HEADER.unpack_from(data)[1:]) + body


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _batches(requests: Iterable[Request]) -> Iterator[tuple[Request, ...]]:
    rest = iter(requests)
    while batch := tuple(islice(rest, _BATCH)):
        yield batch
