"""Execution of requests about ranks and programs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from agent.core.completion import CompletionQueue
from agent.host.control import program_requests as ask
from agent.host.errors import RequestError
from agent.host.programs.collective import Collective
from agent.host.programs.perftest import WriteBw, WriteLat
from agent.host.programs.rank import BARRIER_BYTES, Link, Opened, Rank, Volumes
from agent.host.programs.scheduler import Program, Programs, Seat
from agent.host.queue_pairs.construction import Wiring
from agent.io.engine import Engine
from agent.io.host_runtime import Channel, HostRuntime

Reply = dict[str, Any]

_PROGRAMS: dict[type[Any], Callable[..., Program]] = {
    ask.WriteBwOrder: WriteBw,
    ask.WriteLatOrder: WriteLat,
    ask.CollectiveOrder: Collective,
}


@dataclass(frozen=True, slots=True)
class ProgramCommands:
    """Serves requests about ranks and programs of an engine's hosts."""

    engine: Engine
    wiring: Wiring
    programs: Programs
    now_ns: Callable[[], int]

    def serve(self, request: ask.ProgramRequest) -> Reply:
        """Serve one request. Raises RequestError or CoreError when it cannot be done."""
        serve: Callable[[ProgramCommands, Any], Reply] = _SERVE[type(request)]
        return serve(self, request)

    def create_cq(self, request: ask.CreateCq) -> Reply:
        """Create a completion queue. Raises RequestError."""
        if request.host not in self.engine.hosts:
            raise RequestError(f"h{request.host} is not driven by this worker")
        return {"cq": self.programs.new_queue(request.host)}

    def create_rank(self, request: ask.CreateRank) -> Reply:
        """Create a rank of existing queue pairs and regions. Raises RequestError."""
        queue = self.programs.queue(request.host, request.cq)
        runtime = self.engine.hosts[request.host]
        links = {peer: _link(runtime, queue, ends) for peer, ends in request.links.items()}
        if (request.number and 0 not in links) or not 0 <= request.number < request.count:
            raise RequestError(f"rank {request.number} of {request.count} needs a link to rank 0")
        memory = {name: runtime.regions.lookup(rkey) for name, rkey in request.memory.items()}
        if "token" not in memory or len(memory["token"].data) < BARRIER_BYTES:
            raise RequestError("a rank needs memory named token")
        rank = Rank(request.number, request.count, links, memory, queue, self.now_ns)
        self.programs.seats[request.host, request.cq] = Seat(rank)
        return {}

    def start_program(self, request: ask.StartProgram) -> Reply:
        """Start a program; with an epoch, announce it. Raises RequestError."""
        seat = self.programs.seat(request.host, request.cq)
        program = _PROGRAMS[type(request.order)](**msgspec.structs.asdict(request.order))
        packets = _packets(program.volumes(seat.rank))
        announced = [] if request.epoch is None else self._announce(request, request.epoch, packets)
        seat.start(program)
        return {"packets": packets, "announced": announced}

    def _announce(self, request: ask.StartProgram, epoch: int, packets: dict[int, int] | None) -> list[int]:
        """Announce the requested queue pairs; return the numbers of those that send anything."""
        if packets is None:
            raise RequestError("a program that ends by time cannot be announced: its packets are not known")
        runtime = self.engine.hosts[request.host]
        chosen = [qpn for qpn in request.announce if packets.get(qpn)]
        for qpn in chosen:
            self.wiring.announcements.announce(runtime, runtime.channels[qpn], epoch, packets[qpn])
        return chosen

    def program_result(self, request: ask.ProgramResult) -> Reply:
        """Report the state and result of a program."""
        seat = self.programs.seat(request.host, request.cq)
        seat.check()
        report = None if seat.report is None else asdict(seat.report)
        return {"state": seat.state, "error": seat.error, "report": report}

    def destroy_rank(self, request: ask.DestroyRank) -> Reply:
        """Destroy a rank, even if its program runs."""
        self.programs.forget(request.host, request.cq)
        return {}


_SERVE: dict[type[Any], Callable[[ProgramCommands, Any], Reply]] = {
    ask.CreateCq: ProgramCommands.create_cq,
    ask.CreateRank: ProgramCommands.create_rank,
    ask.StartProgram: ProgramCommands.start_program,
    ask.ProgramResult: ProgramCommands.program_result,
    ask.DestroyRank: ProgramCommands.destroy_rank,
}


def _packets(volumes: Volumes) -> dict[int, int] | None:
    """Return packets by queue pair; None if the duration decides."""
    known = {qpn: volume.packets for qpn, volume in volumes.items() if volume.packets is not None}
    return known if len(known) == len(volumes) else None


def _link(runtime: HostRuntime, queue: CompletionQueue, ends: ask.LinkEnds) -> Link:
    channels = tuple(_channel(runtime, queue, qpn) for qpn in ends.qpns)
    if not channels:
        raise RequestError("a link needs a queue pair")
    return Link(channels, {name: Opened(memory.va, memory.rkey) for name, memory in ends.opened.items()})


def _channel(runtime: HostRuntime, queue: CompletionQueue, qpn: int) -> Channel:
    channel = runtime.channels.get(qpn)
    if channel is None or channel.qp.completions is not queue:
        raise RequestError(f"h{runtime.host} has no queue pair {qpn:#x} that reports to this completion queue")
    return channel
