"""The Python API: a program's own workload on a lab that is up, its memory shared with the engines, not copied.

    with Lab("lab") as lab:
        here, there = lab.connect(lab.host("h0"), lab.host("h1"))

Shaped like verbs: regions, queue pairs in RTS that end in ERROR, posted writes and receives, completions to poll. For
one thread at a time. Whatever goes wrong is a `scenarios.errors.ScenariosError`. docs/api.md.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from agent.core.completion import Completion as Completion
from agent.core.completion import CompletionStatus as CompletionStatus
from agent.core.completion import ImmediateArrived as ImmediateArrived
from agent.core.completion import WritesDone as WritesDone
from agent.core.events import QpState as QpState
from agent.host.control import requests as ask
from agent.host.control.profile_requests import CreateProfile
from agent.host.memory import map_shared
from scenarios.api_ev_profiles import EvProfile as EvProfile
from scenarios.errors import EnvironmentLackingError, RunStalledError, ScenariosError, UsageError
from scenarios.file.qp_settings import qp_settings_of
from scenarios.file.transport import Transport
from scenarios.file.transport_checks import misfits, misfits_on
from scenarios.lab.client import Worker
from scenarios.lab.lab_dir import DEFAULT_LAB, LabDir
from scenarios.lab.processes import worker_of
from scenarios.lab.start.capacity import require_room
from scenarios.lab.start.children import started_agents
from scenarios.run.request import attached
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_node
from testbed.model.node_names import NodeId, Role

if TYPE_CHECKING:
    from testbed.emulation.network import FabricNet

WAIT_S = 60.0
"""Default timeout of `QueuePair.wait`; only a stuck transfer takes longer (our choice)."""

_POLL_S = 0.001
"""Time between two checks for a completion; a busy engine reads requests only every 5 ms."""

Row = dict[str, Any]

Agents = Callable[[LabDir, ExitStack], tuple[Sequence[Worker], Fabric]]
"""Finds or starts the engine workers of a lab; what it puts on the stack is undone at the end."""


def _of_lab_up(labdir: LabDir, undo: ExitStack) -> tuple[Sequence[Worker], Fabric]:
    lab = attached(labdir, undo)
    return lab.workers, lab.fabric


class Lab:
    """The lab that is up, exclusively for this program inside the `with`; everything it made is removed afterwards."""

    def __init__(self, name: str = DEFAULT_LAB, *, agents: Agents | None = None) -> None:
        self._labdir = LabDir(name)
        self._agents = agents or _of_lab_up
        self._undo = ExitStack()
        self._workers: tuple[Worker, ...] = ()
        self._open: list[Region | QueuePair | EvProfile] = []
        self._pairs = 0
        self.hosts: tuple[Host, ...] = ()
        """Return all hosts, by number."""

    @classmethod
    def on(cls, net: "FabricNet") -> Self:
        """Return agents for the hosts of a Mininet network that this program has started; they end with the `with`.

        They are engine workers as of `up`, one per core. There is no SprayCheck, and `spraylab` commands except `down`
        do
        not know this lab.
        """
        return cls(net.lab, agents=lambda labdir, undo: (started_agents(labdir, net.fabric, undo), net.fabric))

    def __enter__(self) -> Self:
        """Connect. Raises `EnvironmentLackingError` without root, `LabStateError` when the lab is not up or in use."""
        if os.geteuid() != 0:
            raise EnvironmentLackingError("root is needed to share memory with the lab's engines: run this with sudo")
        with ExitStack() as undo:
            workers, fabric = self._agents(self._labdir, undo)
            undo.callback(self._close_all)
            self._undo = undo.pop_all()
        self._adopt(workers, fabric)
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything that is still open, and let others use the lab."""
        self._undo.close()
        self._workers, self.hosts = (), ()

    def host(self, name: str) -> "Host":
        """Return the host of a name such as `h2`. Raises `UsageError`, with the nearest names if there is none of
        this one.
        """
        self._require_connection()
        if not isinstance(name, str):
            raise UsageError(f"{name!r} is not a host name; write one such as 'h0'")
        try:
            node = parse_node(name, self._fabric)
        except UnknownNameError as error:
            raise UsageError(str(error)) from error
        if node.role is not Role.HOST:
            raise UsageError(f"{node} is a switch; memory and queue pairs are on hosts, such as h0")
        return self.hosts[node.index]

    def ev_profile(self, host: "Host", peer: "Host", *, modify_online: bool = False) -> EvProfile:
        """Create a controlled EV profile in INIT, for what `host` sends to `peer`; with the capability to change
        it ONLINE.
        """
        told = self.request(host, CreateProfile(host.index, peer.index, modify_online, leased=True))
        profile = EvProfile(self, host, peer, told["profile"])
        self.keep(profile)
        return profile

    def connect(
        self,
        one: "Host",
        other: "Host",
        *,
        seed: int | None = None,
        profile: EvProfile | None = None,
        **transport: Any,
    ) -> "tuple[QueuePair, QueuePair]":
        """Connect a queue pair on each of two hosts, in RTS; the first sprays over `profile`, if given.

        `transport` are keys of a scenario's `transport` (docs/scenarios.md), the same for both; `seed` fixes the spray
        schedule, None: a number of its own for every call. Raises `UsageError` for settings that cannot be.
        """
        self._pairs += 1
        settings = qp_settings_of(self._checked(transport), self._pairs if seed is None else seed)
        ends = [self._create(one, other, settings, profile), self._create(other, one, settings, None)]
        for (end, _), (peer, offer) in (ends, ends[::-1]):
            self.request(end.host, ask.ConnectQp(end.host.index, end.qpn, ask.PeerEnd(peer.host.index, **offer)))
        return ends[0][0], ends[1][0]

    def set_events(self, detail: Literal["off", "default", "detail"]) -> None:
        """Set how much the agents write to their event logs from now on, `worker*.jsonl` in the lab's folder."""
        for worker in self._workers:
            worker.ask(ask.SetEvents(detail))

    def request(self, host: "Host", request: ask.Request) -> Row:
        """Return the answer of a host's engine worker (docs/architecture.md). Raises `WorkerFailedError`."""
        self._require_connection()
        return self._workers[worker_of(host.index, len(self._workers))].ask(request)

    def keep(self, made: "Region | QueuePair | EvProfile") -> None:
        """Register an object that is closed with the lab."""
        self._open.append(made)

    def forget(self, made: "Region | QueuePair | EvProfile") -> bool:
        """Unregister an object that is being closed; return False if it was closed before."""
        known = made in self._open
        if known:
            self._open.remove(made)
        return known

    def _adopt(self, workers: Sequence[Worker], fabric: Fabric) -> None:
        self._workers, self._fabric = tuple(workers), fabric
        self.hosts = tuple(Host(self, node) for node in fabric.hosts())

    def _require_connection(self) -> None:
        if not self._workers:
            raise UsageError("the lab is not connected: use it inside `with Lab(...) as lab:`")

    def _create(
        self, host: "Host", peer: "Host", settings: ask.QpSettings, profile: EvProfile | None
    ) -> "tuple[QueuePair, Row]":
        if profile is not None and (profile.host, profile.peer) != (host, peer):
            raise UsageError(f"{profile} is given for what {host} sends to {peer}")
        controlled = None if profile is None else profile.number
        request = ask.CreateQp(host.index, peer.index, settings, tells_writes=True, leased=True, controlled=controlled)
        offer = self.request(host, request)
        pair = QueuePair(self, host, peer, offer["qpn"])
        self.keep(pair)
        return pair, offer

    def _checked(self, settings: Row) -> Transport:
        try:
            transport = Transport(**settings)
        except ValidationError as error:
            told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise UsageError("; ".join(told)) from error
        spec = self._fabric.spec
        found = [*misfits(transport), *misfits_on(transport, spec.planes, spec.spines)]
        if found:
            raise UsageError("; ".join(f"{'.'.join(each.key)}: {each.wrong}; {each.right}" for each in found))
        return transport

    def _close_all(self) -> None:
        for made in reversed([*self._open]):
            with suppress(ScenariosError):
                made.close()
        self._open.clear()


class Host:
    """One host of the lab."""

    def __init__(self, lab: Lab, node: NodeId) -> None:
        self._lab = lab
        self.index = node.index
        """Number of the host; `h2` is 2."""

    def __repr__(self) -> str:
        """Return the name, such as `h2`."""
        return f"h{self.index}"

    def register(self, size: int) -> "Region":
        """Register `size` bytes of zeros, from which queue pairs of this host send and to which its peers may write.

        Raises `UsageError` for what is no whole number, `EnvironmentLackingError` when it is more than half of the free
        memory, `WorkerFailedError`.
        """
        _require_whole(size, "the size of a region")
        require_room(size, f"a region of {size} bytes")
        told = self._lab.request(self, ask.ShareRegion(self.index, size, leased=True))
        try:
            data = map_shared(told["pid"], told["fd"], size)
        except OSError as error:
            raise EnvironmentLackingError(f"the engine's memory cannot be seen: {error}") from error
        region = Region(self._lab, self, told["va"], told["rkey"], data)
        self._lab.keep(region)
        return region

    def counters(self) -> list[Row]:
        """Return a row for each queue pair, as `spraylab inspect HOST --qps --json` prints them."""
        return [row for row in self._lab.request(self, ask.Progress())["qps"] if row["host"] == self.index]

    def evs(self) -> list[Row]:
        """Return a row for each entropy value of each queue pair, as `spraylab inspect HOST --evs --json` prints
        them.
        """
        return [row for row in self._lab.request(self, ask.Counters())["evs"] if row["host"] == self.index]


class Region:
    """Registered memory of a host. Use in a `with`, or `close` it, or leave that to the lab."""

    def __init__(self, lab: Lab, host: Host, va: int, rkey: int, data: NDArray[np.uint8]) -> None:
        self._lab = lab
        self.host = host
        self.va = va
        """Address of the first byte, for peers."""
        self.rkey = rkey
        """Key that peers use."""
        self.data = data
        """(size,) the bytes themselves, shared with the engine; they stay readable after `close`."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Remove it from the host's table: later writes of peers are refused. Calling it twice is safe."""
        if self._lab.forget(self):
            self._lab.request(self.host, ask.Destroy(regions=(ask.RegionName(self.host.index, self.rkey),)))


class QueuePair:
    """One end of a reliable connection. Use in a `with`, or `close` it, or leave that to the lab."""

    def __init__(self, lab: Lab, host: Host, peer: Host, qpn: int) -> None:
        self._lab = lab
        self._arrived: deque[Completion] = deque()
        self.host = host
        self.peer = peer
        self.qpn = qpn

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Return the name, such as `h0 QP 0x1 to h2`."""
        return f"{self.host} QP {self.qpn:#x} to {self.peer}"

    def write(
        self, source: Region, offset: int, length: int, target: Region, target_offset: int, imm: int | None = None
    ) -> int:
        """Post one Write of `length` bytes; return its number, from 0 on in the order of posting.

        With `imm`, 32 bits, the peer gets an `ImmediateArrived` for it, and must have posted a receive. Raises
        `UsageError` for regions of other hosts, `WorkerFailedError` for bytes that are not in `source`, or a queue pair
        that is not in RTS. Bytes outside `target` are found out by the peer: REMOTE_ACCESS_ERROR.
        """
        return self.write_many(source, offset, length, target, target_offset, max(length, 1), imm)[0]

    def write_many(
        self,
        source: Region,
        offset: int,
        length: int,
        target: Region,
        target_offset: int,
        message_bytes: int,
        imm: int | None = None,
    ) -> range:
        """Do as `write`, cut into Writes of `message_bytes`, the last one shorter; return their numbers."""
        for region, host in ((source, self.host), (target, self.peer)):
            if region.host is not host:
                raise UsageError(f"a region of {region.host} is given to {self}, where one of {host} is wanted")
        request = ask.PostWrite(
            host=self.host.index,
            qpn=self.qpn,
            rkey=source.rkey,
            offset=offset,
            bytes=length,
            remote_va=target.va + target_offset,
            remote_rkey=target.rkey,
            message_bytes=message_bytes,
            imm=imm,
        )
        posted = self._lab.request(self.host, request)
        return range(posted["first_wr_id"], posted["first_wr_id"] + posted["messages"])

    def post_receives(self, count: int) -> None:
        """Post receives for immediates, numbered on from the last one; 65,536 may wait.

        Raises `UsageError` for what is no whole number, `WorkerFailedError` in ERROR and for a number that cannot be.
        """
        _require_whole(count, "the number of receives")
        self._lab.request(self.host, ask.PostReceives(self.host.index, self.qpn, count))

    def poll(self) -> list[Completion]:
        """Return completions since the last call, oldest first: `WritesDone` and `ImmediateArrived`."""
        told = self._lab.request(self.host, ask.Completions(self.host.index, self.qpn))["completions"]
        found = [*self._arrived, *(self._completion(row) for row in told)]
        self._arrived.clear()
        return found

    def wait(self, timeout_s: float = WAIT_S) -> Completion:
        """Return the next completion. Raises `RunStalledError` when none comes in time."""
        until = time.monotonic() + timeout_s
        while not self._arrived:
            self._arrived.extend(self.poll())
            if not self._arrived:
                if time.monotonic() > until:
                    raise RunStalledError(f"{self}: nothing completed for {timeout_s:g} s; it is in {self.state.value}")
                time.sleep(_POLL_S)
        return self._arrived.popleft()

    @property
    def state(self) -> QpState:
        """State: RTS, or ERROR once it has failed."""
        return QpState(self.counters()["state"])

    def counters(self) -> Row:
        """Return its counters, as `spraylab inspect HOST --qps --json` prints them."""
        return next(row for row in self.host.counters() if row["qpn"] == self.qpn)

    def brake(self, penalty: int) -> None:
        """Ask the peer to send less, 0..127 (`rcv_cwnd_pen`), as a slow receiver does; 0 ends it.

        64 halves the peer's congestion window in a round trip; heard only where congestion control is on.
        """
        self._lab.request(self.host, ask.Brake(self.host.index, self.qpn, penalty))

    def fail(self) -> None:
        """Go to ERROR: what is posted completes as flushed."""
        self._lab.request(self.host, ask.FailQp(self.host.index, self.qpn))

    def close(self) -> None:
        """Destroy this end; the other one fails when it writes again and nothing answers. Calling it twice is safe."""
        if self._lab.forget(self):
            self._lab.request(self.host, ask.Destroy(qps=(ask.QpName(self.host.index, self.qpn),)))

    def _completion(self, row: Row) -> Completion:
        if row["kind"] == "immediate":
            return ImmediateArrived(self.qpn, row["wr_id"], row["imm"], row["bytes"])
        status = CompletionStatus(row["status"])
        return WritesDone(self.qpn, row["first_wr_id"], row["count"], row["bytes"], status)


def _require_whole(value: object, what: str) -> None:
    """Check that `value` is an int. Raises `UsageError`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{what} is {value!r}; write a whole number such as 8")
