"""One raw NETLINK_ROUTE socket inside one namespace: batches of requests out, errors per message back, dumps.

Knows messages, not what they mean; pyroute2 encodes and decodes them. Source: linux/netlink.h.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from testbed.errors import KernelError
from testbed.kernel.netns import inside

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR = 0x01, 0x04, 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_DUMP = 0x100, 0x200, 0x400, 0x300
_NLM_F_ACK_TLVS = 0x200
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLMSGERR_ATTR_MSG = 1
_NLA_TYPE_MASK = 0x3FFF
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 270, 10, 11

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ERROR = struct.Struct("=i")
_TLV = struct.Struct("=HH")
_RECEIVE_BYTES = 1 << 16
_BATCH = 64
"""Requests in one send: their acknowledgements must fit the socket's receive buffer (208 KiB by default)."""

Message = Any
"""A pyroute2 `nlmsg`; pyroute2 has no types."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message to the kernel and what it is about, for the error text. `flags` go with NLM_F_REQUEST and ACK."""

    text: str
    message: Message
    type: int
    flags: int = 0


class Rtnl:
    """Requests and dumps on one socket. Make it with `Rtnl.inside` or `Rtnl.here`."""

    def __init__(self, node: str, opened: socket.socket) -> None:
        self.node = node
        self._socket = opened
        self._sequence = 0

    @classmethod
    @contextmanager
    def inside(cls, node: str, namespace: Path) -> Iterator[Self]:
        """A socket that lives in `namespace`, closed at the end of the body. `node` names it in errors."""
        with ExitStack() as stack:
            with inside(namespace):
                rtnl = stack.enter_context(cls.here(node))
            yield rtnl

    @classmethod
    @contextmanager
    def here(cls, node: str) -> Iterator[Self]:
        """A socket in the calling thread's namespace, closed at the end of the body."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        with socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE) as opened:
            opened.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
            opened.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
            yield cls(node, opened)

    def apply(self, requests: Iterable[Request]) -> None:
        """Send all requests in batches. Raises KernelError for the first refused one, after its batch was answered."""
        for batch in _batches(requests):
            if failures := self.try_apply(batch):
                raise failures[0]

    def try_apply(self, batch: Sequence[Request]) -> tuple[KernelError, ...]:
        """Send one batch of at most 64 requests and return what the kernel refused, in the order of the answers."""
        waiting = {self._next_sequence(): request for request in batch}
        frames = (_encoded(request, NLM_F_ACK, sequence) for sequence, request in waiting.items())
        self._socket.send(b"".join(frames))
        failures = []
        while waiting:
            for kind, flags, sequence, body in self._receive():
                if kind == _NLMSG_ERROR and (request := waiting.pop(sequence, None)) is not None:
                    code = -_ERROR.unpack_from(body)[0]
                    if code:
                        failures.append(KernelError(self.node, request.text, code, _detail(flags, body)))
        return tuple(failures)

    def dump(self, request: Request, reply: type, only: frozenset[int] | None = None) -> list[Message]:
        """All answers to a dump, decoded as `reply`; asked again when the kernel says that it changed meanwhile.

        `only` names the attribute types worth decoding: a link has some fifty, and decoding is most of a read back.
        """
        while True:
            answers, interrupted = self._dump_once(request)
            if not interrupted:
                return [
                    _decoded(reply, answer if only is None else _trimmed(reply, answer, only)) for answer in answers
                ]

    def _dump_once(self, request: Request) -> tuple[list[bytes], bool]:
        wanted = self._next_sequence()
        self._socket.send(_encoded(request, NLM_F_DUMP, wanted))
        answers: list[bytes] = []
        interrupted = False
        while True:
            for kind, flags, sequence, body in self._receive():
                if sequence != wanted:
                    continue
                interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if kind in (_NLMSG_ERROR, _NLMSG_DONE):
                    if code := -_ERROR.unpack_from(body)[0]:
                        raise KernelError(self.node, request.text, code, _detail(flags, body))
                    return answers, interrupted
                answers.append(_HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body)

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Type, flags, sequence and body of each message of one receive."""
        data = self._socket.recv(_RECEIVE_BYTES)
        offset = 0
        while offset + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
            yield kind, flags, sequence, data[offset + _HEADER.size : offset + length]
            offset += _aligned(length)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence


def absent(error: KernelError) -> bool:
    """Whether the kernel said that the object does not exist."""
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


def _decoded(reply: type, data: bytes) -> Message:
    message = reply(data)
    message.decode()
    return message


def _trimmed(reply: type, data: bytes, only: frozenset[int]) -> bytes:
    """The message with the attributes of other types left out."""
    start = offset = _HEADER.size + struct.calcsize("=" + "".join(code for _, code in reply.fields))  # type: ignore[attr-defined]
    kept = []
    while offset + _TLV.size <= len(data):
        length, kind = _TLV.unpack_from(data, offset)
        end = offset + max(_aligned(length), _TLV.size)
        if kind & _NLA_TYPE_MASK in only:
            kept.append(data[offset:end])
        offset = end
    body = data[_HEADER.size : start] + b"".join(kept)
    return _HEADER.pack(_HEADER.size + len(body), *_HEADER.unpack_from(data)[1:]) + body


def _detail(flags: int, body: bytes) -> str:
    """The kernel's own text in an error message with extended acknowledgement, or nothing."""
    if not flags & _NLM_F_ACK_TLVS:
        return ""
    offset = _ERROR.size + _HEADER.size
    while offset + _TLV.size <= len(body):
        length, kind = _TLV.unpack_from(body, offset)
        if kind == _NLMSGERR_ATTR_MSG:
            return body[offset + _TLV.size : offset + length].rstrip(b"\0").decode(errors="replace")
        offset += max(_aligned(length), _TLV.size)
    return ""


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _batches(requests: Iterable[Request]) -> Iterator[tuple[Request, ...]]:
    rest = iter(requests)
    while batch := tuple(islice(rest, _BATCH)):
        yield batch
