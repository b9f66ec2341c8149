"""Provides memory of another host and a queue pair that writes into it, for packets built by hand in Scapy's
console.

The other host's agent answers as to agents; this host sends only what was typed.
"""

from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from agent.host.control import requests as ask
from agent.host.memory.shared import map_shared
from scenarios.errors import EnvironmentLackingError
from scenarios.lab.client import Worker
from testbed.model.ids import NodeId

PMTU = ask.QpSettings().core.pmtu
"""Most bytes that a packet may carry to a queue pair with the agent's own settings."""


class FarMemory:
    """Fields that a write needs: `dqp`, `va` and `rkey`; `data` shows what has arrived.

    The first packet has PSN 0 and belongs to message 0. Open until `close`, or until the console ends; no run can
    begin before.
    """

    dqp: int
    """Queue pair at the other host: goes into BTH.dqp."""
    va: int
    """Address of the first byte: RETH.va is this, or more."""
    rkey: int
    """Key: RETH.rkey."""
    data: Any
    """(size,) bytes as a numpy array; zeros where nothing has arrived."""

    def __init__(self, worker: Worker, lock: AbstractContextManager[object], host: int, size: int) -> None:
        self._worker = worker
        self._lock = lock
        self._open = ExitStack()
        self.host = NodeId.host(host)
        self.size = size

    def open(self, near: int, own_qp: int) -> Self:
        """Have the other host's agent make both, for writes of host `near`. Raises what the lab's requests raise."""
        with ExitStack() as undo:
            undo.enter_context(self._lock)
            undo.enter_context(self._worker)
            made = self._worker.ask(ask.CreateQp(self.host.index, near, leased=True))
            self._worker.ask(ask.ConnectQp(self.host.index, made["qpn"], ask.PeerEnd(near, own_qp, 0)))
            told = self._worker.ask(ask.ShareRegion(self.host.index, self.size, leased=True))
            try:
                self.data = map_shared(told["pid"], told["fd"], self.size)
            except OSError as error:
                raise EnvironmentLackingError(f"the engine's memory cannot be seen: {error}") from error
            self.dqp, self.va, self.rkey = made["qpn"], told["va"], told["rkey"]
            self._open = undo.pop_all()
        return self

    def close(self) -> None:
        """Release the queue pair and the memory. Calling it twice is safe."""
        self._open.close()

    def __repr__(self) -> str:
        """Return everything that a packet must name."""
        return f"memory of {self.host}, {self.size} bytes: dqp={self.dqp:#x} va={self.va:#x} rkey={self.rkey:#x}"
