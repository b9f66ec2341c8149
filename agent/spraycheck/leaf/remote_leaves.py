"""Leaves that have processes of their own, as the monitor asks them: all at once, and each for its own leaf only.

A round is one question to every leaf, so that the monitor never holds this round of one leaf and an older one of
another: what no leaf owes any more is known to be complete.
"""

import socket
import struct
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from agent.spraycheck.errors import LeafProcessError
from agent.spraycheck.leaf import messages as leaf_line
from agent.spraycheck.leaf.leaf_detector import Key, LeafRules
from agent.spraycheck.leaf.leaves import Known, Place, Turn
from agent.spraycheck.paths import leaf_name

ANSWER_WITHIN_S = 60.0
"""A round takes milliseconds. As long as the owner gives a process to start; it sees earlier who is stopped."""

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True)
class _Line:
    """The connection to one leaf's process."""

    leaf: str
    socket: socket.socket

    @property
    def who(self) -> str:
        """Name and number of the process."""
        told = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"SprayCheck on {self.leaf} (process {_CREDENTIALS.unpack(told)[0]})"

    def ask(self, question: leaf_line.Question) -> None:
        """Send a question."""
        try:
            leaf_line.write(self.socket, question)
        except OSError as error:
            raise LeafProcessError(f"{self.who} has gone: {error.strerror}") from error

    def answer(self) -> leaf_line.Turned | leaf_line.Told:
        """Wait for the answer to the oldest question that has none."""
        try:
            answer = leaf_line.read_answer(self.socket)
        except TimeoutError as error:
            raise LeafProcessError(f"{self.who} has not answered for {ANSWER_WITHIN_S:.0f} s") from error
        except OSError as error:
            raise LeafProcessError(f"{self.who} has gone: {error.strerror}") from error
        if answer is None:
            raise LeafProcessError(f"{self.who} has gone")
        if isinstance(answer, leaf_line.Failed):
            raise LeafProcessError(f"{self.who} has ended: {answer.why}")
        return answer


class RemoteLeaves:
    """Leaves by their rules, each with the path of the socket at which its process answers. Use in a `with`."""

    def __init__(self, leaves: Sequence[tuple[LeafRules, str]]) -> None:
        self.rules: Mapping[Place, LeafRules] = {(rules.plane, rules.leaf): rules for rules, _ in leaves}
        self._paths = {(rules.plane, rules.leaf): path for rules, path in leaves}
        self._lines: dict[Place, _Line] = {}
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

    def turns(self, now_ns: int) -> list[Turn]:
        """One round of every leaf, all at the same time. Raises LeafProcessError."""
        for line in self._lines.values():
            line.ask(leaf_line.TakeTurn(now_ns))
        answers = [line.answer() for line in self._lines.values()]
        return [answer.turn for answer in answers if isinstance(answer, leaf_line.Turned)]

    def known(self, wanted: Mapping[Place, Collection[Key]]) -> dict[tuple[Place, Key], Known]:
        """What leaves know of flows; those of which nothing is wanted are not asked. Raises LeafProcessError."""
        asked = {place: tuple(keys) for place, keys in wanted.items() if keys}
        for place, keys in asked.items():
            self._lines[place].ask(leaf_line.TellKnown(keys))
        found: dict[tuple[Place, Key], Known] = {}
        for place, keys in asked.items():
            answer = self._lines[place].answer()
            if isinstance(answer, leaf_line.Told):
                found |= {(place, key): known for key, known in zip(keys, answer.known, strict=True)}
        return found
