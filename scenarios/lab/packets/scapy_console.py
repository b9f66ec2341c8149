"""Runs Scapy's console inside a node.

The command is `python -I scenarios/isolated.py scenarios.lab.packets.scapy_console LAB NODE [LINE]`.
`spraylab scapy` starts it in the node's namespace; `Console.names` lists what it has besides Scapy itself.
"""

import os
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack, closing
from functools import reduce
from operator import truediv
from types import TracebackType
from typing import Any, Self

from agent.io.scapy_environment import leave_home

leave_home()

import scapy.all as scapy  # noqa: E402 - it must not look for files of a user
from scapy.main import interact  # noqa: E402

from agent.host.control import requests as ask  # noqa: E402
from agent.host.memory import map_shared  # noqa: E402
from agent.io.host_runtime import by_hand_qpn  # noqa: E402
from agent.wire import layers  # noqa: E402
from agent.wire.array.template import FlowEnds, class_octet  # noqa: E402
from agent.wire.constants import ETHERNET_BYTES, TX_TIMESTAMP_TICK_NS, Dscp, Ecn, Opcode  # noqa: E402
from agent.wire.ev import EvCodec  # noqa: E402
from agent.wire.scapy import build  # noqa: E402
from scenarios.errors import EnvironmentLackingError, LabStateError, ScenariosError, UsageError  # noqa: E402
from scenarios.lab.client import Worker, not_up  # noqa: E402
from scenarios.lab.lab_dir import LabDir, LabState, busy, read_state  # noqa: E402
from scenarios.lab.processes import worker_of  # noqa: E402
from scenarios.lab.start.deploy import host_settings  # noqa: E402
from testbed.errors import TestbedError  # noqa: E402
from testbed.model.addressing import host_address  # noqa: E402
from testbed.model.name_parsing import parse_node  # noqa: E402
from testbed.model.node_names import NodeId, Role, those_there_are  # noqa: E402

PMTU = ask.QpSettings().core.pmtu
"""Most bytes that a packet may carry to a queue pair with the agent's own settings."""


_ANSWERS_S = 0.5
"""Time to wait for answers; a round trip takes a few milliseconds (our choice)."""
_TYPED = "<-c>"
"""File name of the line that `-c` was given, in tracebacks."""
_CANNOT_WRITE, _PIPE_CLOSED = 3, 141
"""Exit codes, as in `scenarios.cli.exit_codes`."""


class RemoteMemory:
    """Memory of another host and a queue pair that writes into it, for packets that the user builds.

    A write needs `dqp`, `va` and `rkey`; `data` shows what has arrived. The other host's agent answers as it answers
    agents; this host sends only what was typed. The first packet has PSN 0 and belongs to message 0. Open until
    `close`, or until the console ends; no run can begin before.
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
            shared = self._worker.ask(ask.ShareRegion(self.host.index, self.size, leased=True))
            try:
                self.data = map_shared(shared["pid"], shared["fd"], self.size)
            except OSError as error:
                raise EnvironmentLackingError(f"the engine's memory cannot be seen: {error}") from error
            self.dqp, self.va, self.rkey = made["qpn"], shared["va"], shared["rkey"]
            self._open = undo.pop_all()
        return self

    def close(self) -> None:
        """Release the queue pair and the memory. Calling it twice is safe."""
        self._open.close()

    def __repr__(self) -> str:
        """Return everything that a packet must name."""
        return f"memory of {self.host}, {self.size} bytes: dqp={self.dqp:#x} va={self.va:#x} rkey={self.rkey:#x}"


class Console:
    """State of the console's functions: the lab, and the node it is in."""

    def __init__(self, labdir: LabDir, state: LabState, node: NodeId) -> None:
        self.labdir = labdir
        self.fabric = state.fabric()
        self.workers = state.workers
        self.node = node
        self._codec = EvCodec()
        self._own_qp = by_hand_qpn(node.index)
        self._far = ExitStack()
        """The open memory, if there is one."""

    def names(self) -> dict[str, Any]:
        """Return all names of the console besides Scapy's."""
        fields = {name: value for name, value in vars(layers).items() if not name.startswith("_") and name != "Any"}
        nodes = {str(node).replace("-", "_"): node for node in self.fabric.nodes()}
        own = {"fabric": self.fabric, "me": self.node, "Opcode": Opcode, "Dscp": Dscp}
        functions = {
            each.__name__: each
            for each in (self.path, self.mrc_write, self.memory, self.exchange, self.transmit, self.lab)
        }
        return fields | nodes | own | functions

    def lab(self) -> None:
        """Print nodes, addresses and functions."""
        print(self.text())

    def text(self) -> str:
        """Return what `lab()` prints."""
        spec = self.fabric.spec
        hosts = f"h0 to h{self.fabric.host_count - 1}"
        switch = self.node.role is not Role.HOST
        port = {Role.HOST: "plane0", Role.LEAF: "spine0", Role.SPINE: "leaf0"}[self.node.role]
        sending = (
            ("  a switch sends nothing of its own: for the functions that send, `spraylab scapy h0`",)
            if switch
            else (
                '  mrc_write(h1, b"data", plane=0, spine=1)  a real write from this host, and what answers',
                "  there = memory(h1, 4096)                  memory to write to: there.dqp, .va, .rkey, .data",
                "  exchange(packet, ...)                     send packets that you built, and what answers",
            )
        )
        own = "" if switch else f"Answers come to queue pair {self._own_qp:#x}, which is this console. "
        return "\n".join(
            (
                f"You are in {self.node} of lab {self.labdir.lab}: {spec.planes} planes of {spec.leaves} leaves and "
                f"{spec.spines} spines, hosts {hosts}; h0 is {host_address(0)}.",
                "  path(h0, h1, plane=0, spine=1)            Ethernet to UDP over that path; add headers by /",
                *sending,
                "  BTH METH RETH SETH ... ls(SETH)           MRC's headers; packet.show2(), packet.summary()",
                f"  sniff(iface='{port}', count=5)            Scapy's own functions, here",
                f"{own}Files without a folder go to /.",
            )
        )

    def close(self) -> None:
        """Release the open memory."""
        self._far.close()

    def path(
        self, source: NodeId | str | int, target: NodeId | str | int, plane: int = 0, spine: int = 0, copy: int = 0,
        dscp: Dscp = Dscp.NO_TRIM,
    ) -> Any:  # fmt: skip
        """Return Ethernet / IPv6 / IPv6 / UDP between two hosts over one spine of a plane, or the leaf that both share.

        The outer destination is the path as uSIDs; source port and flow label are the entropy value.
        """
        own, peer = self._host(source), self._host(target)
        if own == peer:
            raise UsageError(f"h{own} has no path to itself")
        for name, value, count in (
            ("plane", plane, self.fabric.spec.planes),
            ("spine", spine, self.fabric.spec.spines),
        ):
            if not 0 <= value < count:
                raise UsageError(f"{name} {value}: there are {name}s 0 to {count - 1}")
        here, there = (host_settings(self.fabric, self.labdir.lab, host).wire_address() for host in (own, peer))
        ev = self._codec.ev_of(plane, None if here.leaf == there.leaf else spine, here.leaf, copy)
        octet = class_octet(dscp, Ecn.ECT0)
        flow = FlowEnds(here, there, layers.MRC_PORTS[0], octet, self._codec)
        return reduce(truediv, build.tunnel(flow, ev, octet))

    def transmit(self, packet: Any) -> None:
        """Send a packet made with `path` by the port of its plane; only from the host that it is from."""
        self._require_host()
        own = str(host_address(self.node.index))
        if scapy.IPv6 not in packet or packet[scapy.IPv6].src != own:
            raise UsageError(f"a packet of {self.node} begins with path({self.node}, ...), which has its address {own}")
        plane = self._codec.path_of(layers.ev_of(packet) or 0).plane
        if (size := len(packet) - ETHERNET_BYTES) > self.fabric.spec.mtu:
            raise UsageError(
                f"the packet has {size} bytes of IPv6, a link takes {self.fabric.spec.mtu}: send less data"
            )
        scapy.sendp(packet, iface=f"plane{plane}", verbose=False)

    def memory(self, target: NodeId | str | int, size: int = 4096) -> RemoteMemory:
        """Allocate memory of another host with a queue pair, for writes that you build: `dqp`, `va`, `rkey`, `data`.

        Until its `close()` or the end of the console, runs cannot begin. A second one or `mrc_write` closes the first.
        """
        self._require_host()
        self._far.close()
        peer = self._host(target)
        worker = Worker(self.labdir.worker_socket(worker_of(peer, self.workers)))
        far = RemoteMemory(worker, busy(self.labdir), peer, size).open(self.node.index, self._own_qp)
        self._far.callback(far.close)
        return far

    def exchange(self, *packets: Any) -> Any:
        """Send packets in this order; print them and what MRC answers within half a second; return the answers."""
        self._require_host()
        listening = threading.Event()
        listener = scapy.AsyncSniffer(
            iface=[f"plane{plane}" for plane in range(self.fabric.spec.planes)],
            lfilter=self._is_answer,
            promisc=False,
            started_callback=listening.set,
        )
        listener.start()
        listening.wait(_ANSWERS_S)
        try:
            for packet in packets:
                self.transmit(packet)
                print("sent    ", packet.summary())
            time.sleep(_ANSWERS_S)
        finally:
            answers = listener.stop()
        for answer in answers:
            print("answer  ", answer.summary())
        if not answers:
            print(f"no answer within {_ANSWERS_S} s: lost, or nothing that the other host answers")
        return answers

    def mrc_write(self, target: NodeId | str | int, data: bytes = b"hello, MRC", plane: int = 0, spine: int = 0) -> Any:
        """Write `data` into memory of another host: one packet. Prints it and what answers; returns the answers.

        The same as `memory`, a packet built on `path`, and `exchange`; the memory goes afterwards. Nobody sends again:
        what is lost stays lost, and no SACK comes.
        """
        if len(data) > PMTU:
            raise UsageError(f"{len(data)} bytes are more than a packet's: at most {PMTU} bytes, the queue pair's PMTU")
        base = self.path(self.node, target, plane, spine)
        far = self.memory(target, max(1, len(data)))
        try:
            packet = base / layers.BTH(opcode=Opcode.WRITE_ONLY, dqp=far.dqp, a=1, psn=0)
            packet /= layers.METH(msn=0) / layers.TSETH(
                tx_timestamp=time.monotonic_ns() // TX_TIMESTAMP_TICK_NS & 0xFFFF
            )
            packet /= layers.RETH(va=far.va, rkey=far.rkey, dmalen=len(data)) / scapy.Raw(data)
            return self.exchange(packet)
        finally:
            far.close()

    def _is_answer(self, found: Any) -> bool:
        """Return whether it came to this host, for our queue pair or as the answer to an endpoint request."""
        if layers.BTH not in found or found[scapy.UDP].underlayer.dst != str(host_address(self.node.index)):
            return False
        header = found[layers.BTH]
        return bool(header.dqp == self._own_qp or header.opcode == Opcode.ENDPOINT_RESPONSE)

    def _host(self, host: NodeId | str | int) -> int:
        node = (
            host if isinstance(host, NodeId) else parse_node(f"h{host}" if isinstance(host, int) else host, self.fabric)
        )
        if node.role is not Role.HOST:
            raise UsageError(f"{node} is a switch; {those_there_are('host', 'h', self.fabric.host_count)}")
        return node.index

    def _require_host(self) -> None:
        if self.node.role is not Role.HOST:
            raise UsageError(f"{self.node} is a switch; only hosts send: `spraylab scapy h0`")


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print our own errors in one line; those of typed code as Python does, and the console continues."""
    if isinstance(error, ScenariosError | TestbedError):
        print(f"spraylab: {error}", file=sys.stderr)
    else:
        typed = trace
        while typed is not None and typed.tb_frame.f_code.co_filename != _TYPED:
            typed = typed.tb_next
        error.__traceback__ = None if isinstance(error, SyntaxError) else typed or trace
        sys.__excepthook__(kind, error, error.__traceback__)


def _flushed() -> int:
    """Write remaining output; return the exit code of other commands if nobody can read it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its end
        return _PIPE_CLOSED if isinstance(error, BrokenPipeError) else _CANNOT_WRITE
    return 0


def main(arguments: list[str]) -> int:
    """Run the console, or one line in it."""
    labdir = LabDir(arguments[0])
    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    scapy.conf.ifaces.reload()
    scapy.conf.verb = 0
    console = Console(labdir, state, parse_node(arguments[1], state.fabric()))
    names = vars(scapy) | console.names()
    sys.excepthook = _told
    with closing(console):
        if len(arguments) > 2:
            exec(compile(arguments[2], _TYPED, "single"), names)
            return _flushed()
        scapy.conf.interactive_shell = "python"
        console.lab()
        interact(names, ["scapy", "-P", "-C", "-H"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
