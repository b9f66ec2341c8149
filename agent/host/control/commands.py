"""Execution of control requests on the engine. Knows records and queue pairs, not sockets or JSON."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
from msgspec import structs

from agent.core.completion import Completion, CompletionQueue, ImmediateArrived
from agent.core.config import PeerQp
from agent.core.memory_regions import MemoryRegion
from agent.host.control import requests
from agent.host.control.profile_commands import ProfileCommands
from agent.host.control.profile_requests import ProfileRequest
from agent.host.control.program_commands import ProgramCommands
from agent.host.control.program_requests import ProgramRequest
from agent.host.errors import RequestError
from agent.host.memory import SharedMemory, compare_with_stream, fill_complement, fill_stream, make_private, make_shared
from agent.host.programs.scheduler import Programs, Sending
from agent.host.queue_pairs.construction import Wiring
from agent.host.records.event_log import EventDetail, EventLog
from agent.host.records.process_counters import rejected_by, rejections, schedstat
from agent.io.daemon import Ending
from agent.io.engine import Engine
from agent.io.host_runtime import Channel, HostRuntime
from agent.wire.array.template import forget_prefixes

Reply = dict[str, Any]

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Commands:
    """Serves requests on an engine; a shutdown request sets `stop`."""

    engine: Engine
    wiring: Wiring
    stop: Ending
    now_ns: Callable[[], int]
    log: EventLog | None = None
    """Event log; None: nothing is written."""
    shared: dict[int, SharedMemory] = field(default_factory=dict)
    """Memory of regions that others can map, by key."""
    programs: Programs = field(default_factory=Programs)
    gone: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Packets that destroyed queue pairs had refused, by host and reason."""

    def serve(self, request: requests.Request) -> Reply:
        """Serve one request. Raises RequestError, CoreError or WireError when it cannot be done."""
        if isinstance(request, ProfileRequest):
            return ProfileCommands(self.engine, self.wiring, self.now_ns).serve(request)
        if isinstance(request, ProgramRequest):
            return ProgramCommands(self.engine, self.wiring, self.programs, self.now_ns).serve(request)
        serve: Callable[[Commands, Any], Reply] = _SERVE[type(request)]
        return serve(self, request)

    def hello(self, _: requests.Hello) -> Reply:
        """Report the process and its hosts."""
        return {"pid": os.getpid(), "hosts": sorted(self.engine.hosts)}

    def register_region(self, request: requests.RegisterRegion) -> Reply:
        """Allocate, fill and register memory. Raises RequestError."""
        runtime = self._host(request.host)
        key = self.wiring.next_key(runtime, request.bytes)
        data = _memory(request.bytes, make_private)
        fill = fill_stream if request.role == "source" else fill_complement
        fill(data, request.seed)
        region = MemoryRegion(*key, data)
        runtime.regions.register(region)
        return {"rkey": region.rkey, "va": region.va}

    def share_region(self, request: requests.ShareRegion) -> Reply:
        """Make and register memory that the requesting process can map. Raises RequestError."""
        runtime = self._host(request.host)
        key = self.wiring.next_key(runtime, request.bytes)
        memory = _memory(request.bytes, make_shared)
        region = MemoryRegion(*key, memory.data)
        runtime.regions.register(region)
        self.shared[region.rkey] = memory
        return {"rkey": region.rkey, "va": region.va, "pid": os.getpid(), "fd": memory.fd}

    def create_qp(self, request: requests.CreateQp) -> Reply:
        """Create a queue pair; it can receive and send once connected."""
        runtime = self._host(request.host)
        completions = CompletionQueue() if request.tells_writes else None
        if request.cq is not None:
            completions = self.programs.queue(request.host, request.cq)
        channel = self.wiring.create(
            runtime, request.peer_host, request.config, completions, request.controlled, self.now_ns()
        )
        return {**asdict(channel.qp.offer())}

    def connect_qp(self, request: requests.ConnectQp) -> Reply:
        """Connect a queue pair: take it to RTS."""
        runtime = self._host(request.host)
        end = request.peer
        fields = structs.asdict(end)
        host = fields.pop("host")
        self.wiring.connect(runtime, self._channel(request.host, request.qpn), host, PeerQp(**fields), self.now_ns())
        return {}

    def post_write(self, request: requests.PostWrite) -> Reply:
        """Post the messages of a write; with an epoch, announce it. Raises RequestError, StateError, RegionError."""
        runtime = self._host(request.host)
        channel = self._channel(request.host, request.qpn)
        region = runtime.regions.lookup(request.rkey)
        if request.bytes < 1 or request.message_bytes < 1:
            raise RequestError("bytes and message_bytes must be at least 1")
        packets = packets_of(request.bytes, request.message_bytes, channel.qp.config.pmtu)
        if request.epoch is not None:
            self.wiring.announcements.announce(runtime, channel, request.epoch, packets)
        messages = channel.qp.post_writes(
            region,
            request.offset,
            request.bytes,
            request.remote_va,
            request.remote_rkey,
            request.message_bytes,
            request.imm,
        )
        return {"first_wr_id": messages.start, "messages": len(messages), "packets": packets}

    def post_receives(self, request: requests.PostReceives) -> Reply:
        """Post receives for immediates, numbered on from the last ones."""
        qp = self._channel(request.host, request.qpn).qp
        qp.post_receives(qp.receives.next_wr_id, request.count)
        return {}

    def completions(self, request: requests.Completions) -> Reply:
        """Remove and return completions."""
        taken = self._channel(request.host, request.qpn).qp.completions.poll()
        return {"completions": [_completion(item) for item in taken]}

    def brake(self, request: requests.Brake) -> Reply:
        """Make a queue pair ask its peer to send less."""
        self._channel(request.host, request.qpn).qp.brake(request.penalty)
        return {}

    def fail_qp(self, request: requests.FailQp) -> Reply:
        """Take a queue pair to ERROR."""
        self._channel(request.host, request.qpn).qp.fail(self.now_ns())
        return {}

    def port_state(self, request: requests.PortState) -> Reply:
        """Disable a port, or enable it again. Raises RequestError."""
        runtime = self._host(request.host)
        if request.plane not in runtime.ports:
            raise RequestError(f"h{request.host} has no port in plane {request.plane}")
        runtime.hold_port(request.plane, request.up, self.now_ns())
        return {}

    def deny_evs(self, request: requests.DenyEvs) -> Reply:
        """Deny or allow EVs of a queue pair, as a controller does with a denylist."""
        channel = self._channel(request.host, request.qpn)
        rows = np.flatnonzero(np.isin(channel.profile.evs, np.array(request.evs, np.uint32)))
        if request.allow:
            channel.qp.allow(rows, self.now_ns())
        else:
            channel.qp.deny(rows, self.now_ns())
        return {}

    def set_events(self, request: requests.SetEvents) -> Reply:
        """Choose the detail of the event log. Raises RequestError."""
        if self.log is None:
            raise RequestError("this engine writes no event log")
        self.log.choose(EventDetail(request.detail), self.engine.hosts.values(), request.most_bytes)
        return {}

    def set_denied(self, request: requests.SetDenied) -> Reply:
        """Replace the list of denied links."""
        peers = self.wiring.peers
        channels = [
            (channel, runtime.address.leaf, peers[channel.peer_host].leaf) for runtime, channel in self._channels()
        ]
        self.wiring.probes.probe(request.probed)
        return {"evs": self.wiring.denylist.change(request.links, channels, self.now_ns())}

    def link_probes(self, _: requests.LinkProbesAsked) -> Reply:
        """Report the results of probes over denied links."""
        tallies = self.wiring.probes.tallies.items()
        return {
            "links": [{**structs.asdict(link), "answered": each.answered, "lost": each.lost} for link, each in tallies]
        }

    def progress(self, _: requests.Progress) -> Reply:
        """Report the progress of every queue pair."""
        sending = self.programs.sending()
        return {
            "qps": [
                _progress(runtime, channel, sending.get((runtime.host, channel.qpn)))
                for runtime, channel in self._channels()
            ]
        }

    def verify(self, request: requests.Verify) -> Reply:
        """Compare a region with its expected contents."""
        region = self._host(request.host).regions.lookup(request.rkey)
        verdict = compare_with_stream(region.data, request.seed)
        return {"bytes": verdict.bytes, "wrong": verdict.wrong, "first_wrong": verdict.first_wrong}

    def counters(self, _: requests.Counters) -> Reply:
        """Report all counters."""
        cpu_ns, wait_ns = schedstat()
        return {
            "ports": [report for runtime in self.engine.hosts.values() for report in _ports(runtime)],
            "rejected": [
                row for runtime in self.engine.hosts.values() for row in rejections(runtime, self.gone[runtime.host])
            ],
            "cpu_ns": cpu_ns,
            "sched_wait_ns": wait_ns,
            "events_cut": self.log.cut if self.log is not None else 0,
            "evs": [row for runtime, channel in self._channels() for row in self.wiring.ev_counters(runtime, channel)],
            "reordering": [
                {
                    "host": runtime.host,
                    "qpn": channel.qpn,
                    "duplicates": channel.qp.progress().responder.duplicates,
                    **asdict(channel.qp.reordering()),
                }
                for runtime, channel in self._channels()
            ],
        }

    def destroy(self, request: requests.Destroy) -> Reply:
        """Destroy queue pairs and regions after their events are written."""
        if self.log is not None:
            self.log.add(self.engine.drain_events())
            self.log.observe(self.engine.hosts.values(), self.now_ns())
        for name in request.qps:
            channel = self._channel(name.host, name.qpn)
            channel.qp.fail(self.now_ns())  # what it had in flight leaves a window that other queue pairs share
            self.gone[name.host].update(rejected_by(channel))
            del self.engine.hosts[name.host].channels[name.qpn]
            self.wiring.forget(self.engine.hosts[name.host], channel)
        if request.qps:
            forget_prefixes()
        for region in request.regions:
            self._host(region.host).regions.deregister(region.rkey)
            if (memory := self.shared.pop(region.rkey, None)) is not None:
                memory.close()
        return {}

    def shutdown(self, _: requests.Shutdown) -> Reply:
        """End the drive loop after the reply."""
        self.stop.set()
        return {}

    def _host(self, host: int) -> HostRuntime:
        runtime = self.engine.hosts.get(host)
        if runtime is None:
            raise RequestError(f"h{host} is not driven by this worker, which has {sorted(self.engine.hosts)}")
        return runtime

    def _channel(self, host: int, qpn: int) -> Channel:
        channel = self._host(host).channels.get(qpn)
        if channel is None:
            raise RequestError(f"h{host} has no queue pair {qpn:#x}")
        return channel

    def _channels(self) -> list[tuple[HostRuntime, Channel]]:
        return [(runtime, channel) for runtime in self.engine.hosts.values() for channel in runtime.channels.values()]


_SERVE: dict[type[Any], Callable[[Commands, Any], Reply]] = {
    requests.Hello: Commands.hello,
    requests.RegisterRegion: Commands.register_region,
    requests.ShareRegion: Commands.share_region,
    requests.CreateQp: Commands.create_qp,
    requests.ConnectQp: Commands.connect_qp,
    requests.PostWrite: Commands.post_write,
    requests.PostReceives: Commands.post_receives,
    requests.Completions: Commands.completions,
    requests.FailQp: Commands.fail_qp,
    requests.Brake: Commands.brake,
    requests.PortState: Commands.port_state,
    requests.SetEvents: Commands.set_events,
    requests.DenyEvs: Commands.deny_evs,
    requests.SetDenied: Commands.set_denied,
    requests.LinkProbesAsked: Commands.link_probes,
    requests.Progress: Commands.progress,
    requests.Verify: Commands.verify,
    requests.Counters: Commands.counters,
    requests.Destroy: Commands.destroy,
    requests.Shutdown: Commands.shutdown,
}


def _memory(size: int, make: Callable[[int], M]) -> M:
    """Allocate the memory of a region. Raises RequestError."""
    try:
        return make(size)
    except (OSError, ValueError, OverflowError) as error:
        raise RequestError(f"{size} bytes of memory cannot be had: {error}") from error


def packets_of(size: int, message_bytes: int, pmtu: int) -> int:
    """Count the packets of `size` bytes in messages of `message_bytes`, the last one shorter."""
    whole, rest = divmod(size, message_bytes)
    return whole * -(-message_bytes // pmtu) + -(-rest // pmtu)


def _completion(item: Completion) -> Reply:
    if isinstance(item, ImmediateArrived):
        return {"kind": "immediate", "wr_id": item.wr_id, "imm": item.imm, "bytes": item.length_bytes}
    done = {"first_wr_id": item.first_wr_id, "count": item.count, "bytes": item.length_bytes}
    return {"kind": "writes", **done, "status": item.status.value}


def _progress(runtime: HostRuntime, channel: Channel, sending: Sending | None) -> Reply:
    progress = channel.qp.progress()
    requester, responder = progress.requester, progress.responder
    return {
        "host": runtime.host,
        "qpn": channel.qpn,
        "peer": channel.peer_host,
        "peer_qpn": channel.qp.peer_qpn,
        "state": progress.state.value,
        "posted_messages": progress.posted_messages,
        "completed_messages": progress.completed_messages,
        "posted_bytes": progress.posted_bytes,
        "total_bytes": progress.posted_bytes if sending is None else sending.total_bytes,
        "only_barriers": sending is not None and sending.only_barriers,
        "acked_bytes": progress.acked_bytes,
        "backlog_pkts": progress.backlog_pkts,
        "in_flight_pkts": progress.in_flight_pkts,
        "silent_evs": list(progress.silent_evs),
        "window_psns": progress.window_psns,
        "cwnd_bytes": progress.cwnd_bytes,
        "rtt_ns": progress.rtt.smoothed_ns,
        "rtt_deviation_ns": progress.rtt.deviation_ns,
        "packets_tx": requester.packets_tx,
        "packets_rtx": requester.packets_rtx,
        "lost": requester.lost,
        "timeouts": requester.timed_out,
        "nacked": requester.nacked,
        "sacks_rx": requester.sacks,
        "probes_tx": requester.probes,
        "probes_answered": requester.probes_answered,
        "started_ns": requester.first_tx_ns,
        "finished_ns": requester.last_completed_ns if progress.completed_messages == progress.posted_messages else None,
        "held_pkts": progress.held_pkts,
        "received_pkts": responder.received,
        "received_bytes": responder.received_bytes,
        "duplicates": responder.duplicates,
        "out_of_window": responder.out_of_window,
        "access_errors": responder.access_errors,
        "sacks_tx": responder.sacks,
        "nacks_tx": responder.nacks,
        "trimmed": responder.trimmed,
        "ce_marked": responder.ce_marked,
        "immediates": responder.immediates,
    }


def _ports(runtime: HostRuntime) -> list[Reply]:
    return [{"host": runtime.host, "plane": plane, **asdict(port.counters())} for plane, port in runtime.ports.items()]
