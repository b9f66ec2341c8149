"""Two agents on a fabric of the kernel, in this process, and a tap in every node: for the conformance list."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from agent.host.control import requests as ask
from agent.host.control.commands import Commands
from agent.host.queue_pairs.construction import Wiring
from agent.host.worker import opened_engine
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.start.deploy import worker_settings
from testbed.emulation.network import FabricNet
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import FabricSpec
from testbed.model.node_names import NodeId, PortId
from tests.support.namespaces import Tap, built, counters
from tests.support.queue_pairs import qp_settings

PLANES, SPINES, PMTU = 2, 4, 256
SOURCE, TARGET = 0, 3

Counts = dict[tuple[NodeId, str], tuple[int, int]]


@dataclass(frozen=True)
class Arrival:
    """A frame of an agent as it came into a node."""

    port: PortId
    frame: bytes


@dataclass(frozen=True)
class Agents:
    """Hosts 0 and 3, below different leaves, and what the fabric does with what they send."""

    net: FabricNet
    commands: Commands
    taps: dict[NodeId, Tap]

    def write(self, packets: int, denied: tuple[int, ...] = (), policy: str = "rotation") -> dict:
        """Send full packets from SOURCE to TARGET on a queue pair of its own; the row of what it counted."""
        serve, config = (
            self.commands.serve,
            qp_settings(pmtu=PMTU, window_pkts=128, policy=policy, ack_timeout_ns=5_000_000_000),
        )
        ends = [
            {"host": host, **serve(ask.CreateQp(host, peer, config))}
            for host, peer in ((SOURCE, TARGET), (TARGET, SOURCE))
        ]
        for end, other in (ends, ends[::-1]):
            serve(ask.ConnectQp(end["host"], end["qpn"], ask.PeerEnd(**other)))
        size, qpn = packets * PMTU, ends[0]["qpn"]
        sent, received = (
            serve(ask.RegisterRegion(h, size, 3, role)) for h, role in ((SOURCE, "source"), (TARGET, "target"))
        )
        serve(ask.DenyEvs(SOURCE, qpn, denied))
        serve(ask.PostWrite(SOURCE, qpn, sent["rkey"], 0, size, received["va"], received["rkey"], size))
        row = self._drive(qpn)
        assert serve(ask.Verify(TARGET, received["rkey"], 3))["wrong"] == 0
        names = tuple(ask.QpName(end["host"], end["qpn"]) for end in ends)
        row["evs"] = [ev for ev in serve(ask.Counters())["evs"] if ev["qpn"] == qpn]
        serve(ask.Destroy(names))
        return row

    def counts(self) -> Counts:
        """Received and sent packets of every interface of every node."""
        nodes = self.net.fabric.nodes()
        return {(node, name): c for node in nodes for name, c in counters(self.net.netns_path(node)).items()}

    def arrivals(self) -> list[Arrival]:
        """Frames that came in at any port since the last call."""
        ports = {
            (node, ifindex_of(self.net.fabric, port)): port
            for node in self.taps
            for port in self.net.fabric.ports_of(node)
        }
        return [
            Arrival(ports[node, packet.ifindex], packet.frame)
            for node, tap in self.taps.items()
            for packet in tap.drain()
            if not packet.outgoing and (node, packet.ifindex) in ports
        ]

    def _drive(self, qpn: int) -> dict:
        until = time.monotonic() + 60
        while True:
            self.commands.engine.step(time.monotonic_ns())
            (row,) = (qp for qp in self.commands.serve(ask.Progress())["qps"] if qp["qpn"] == qpn)
            if row["completed_messages"]:
                return row
            assert time.monotonic() < until, row


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    with ExitStack() as stack:
        net = stack.enter_context(built(FabricSpec(PLANES, 2, SPINES, 2)))
        (settings,) = worker_settings(net.fabric, LabDir(net.lab), 1, [], 5)
        engine = stack.enter_context(opened_engine(settings))
        wiring = Wiring(settings.fabric, settings.peer_addresses(), settings.seed, settings.udp_port)
        taps = {node: stack.enter_context(Tap.open(net.netns_path(node))) for node in net.fabric.nodes()}
        yield Agents(net, Commands(engine, wiring, threading.Event(), time.monotonic_ns), taps)
