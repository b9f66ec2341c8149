"""Computes settings of engine workers and SprayCheck on a fabric that is up, and puts eBPF on leaf ports.

Settings are pure values; only `measured_leaves` touches the kernel.
"""

from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from agent.host.settings import FabricSettings, HostSettings, PeerSettings, PortSettings, WorkerSettings
from agent.spraycheck.leaf import bpf_layout
from agent.spraycheck.settings import LeafSettings
from agent.spraycheck.settings import Settings as SprayCheckSettings
from faults.quantities import parse_rate
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.processes import worker_of
from scenarios.lab.protocol import Measuring
from testbed.kernel.bpf import programs as bpf
from testbed.kernel.bpf import tcx
from testbed.kernel.bpf.grace_period import short_grace_periods
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import inside, namespace_path
from testbed.kernel.ports.priority import FIRST_CLASS, remove_priority, set_priority
from testbed.kernel.ports.qdisc import Direction, attach_program
from testbed.model.addressing import host_address, ifindex_of, mac_of
from testbed.model.fabric import Fabric
from testbed.model.node_config import Placed
from testbed.model.node_names import NodeId, PortId, Role, namespace_name

WORKER_MODULE = "agent.host"
SPRAYCHECK_MODULE = "agent.spraycheck"
SPRAYCHECK = "spraycheck"

DETECTOR_PRIORITY = 10
"""Handle of SprayCheck's programs among those on a port; faults are on the other side, at egress (our choice)."""

MOST_BY_TCX = 64
"""Ports of leaves, where the kernel's waits cannot be made short: by TCX counting costs less, but it then takes 12 ms
a port (measured) to attach, as long again to take a lab down, and nobody else can configure a network meanwhile. So
larger labs use clsact there. Our choice."""

ERASE_AFTER_S = 600
"""Timeout of a flow in a leaf: on a slow, emulated machine a flow may take minutes; a leaf has memory for all (our
choice).
"""


def worker_settings(
    fabric: Fabric,
    labdir: LabDir,
    workers: int,
    cpus: Sequence[int],
    seed: int,
    inside: bool = False,
    scapy_hosts: Container[int] = (),
) -> list[WorkerSettings]:
    """Return the settings of each engine worker. Workers are pinned to cores when every one can have its own.

    With `inside` there is one per host, which runs in its host's namespace.
    """
    spec = fabric.spec
    counts = FabricSettings(spec.planes, spec.leaves, spec.spines, spec.hosts_per_leaf)
    peers = tuple(_peer(fabric, host) for host in range(fabric.host_count))
    return [
        WorkerSettings(
            lab=labdir.lab,
            control_socket=str(labdir.worker_socket(index)),
            event_log=str(labdir.worker_events(index)),
            older_event_log=str(labdir.worker_older_events(index)),
            fabric=counts,
            hosts=tuple(
                host_settings(fabric, None if inside else labdir.lab, h, "scapy" if h in scapy_hosts else "ring")
                for h in range(fabric.host_count)
                if worker_of(h, workers) == index
            ),
            peers=peers,
            seed=seed,
            cpu=cpus[index] if workers <= len(cpus) else None,
        )
        for index in range(workers)
    ]


def _peer(fabric: Fabric, host: int) -> PeerSettings:
    return PeerSettings(host, str(host_address(host)), fabric.leaf_of(host), fabric.slot_of(host))


def host_settings(
    fabric: Fabric, lab: str | None, host: int, engine: Literal["ring", "scapy"] = "ring"
) -> HostSettings:
    """Return a host's ports in a namespace of the lab; `lab` None: in that of its worker."""
    node = NodeId.host(host)
    ports = tuple(
        PortSettings(port.plane, port.interface, mac_of(fabric, port), mac_of(fabric, _other_end(port)))
        for port in fabric.ports_of(node)
    )
    netns = None if lab is None else str(namespace_path(namespace_name(lab, node)))
    place = fabric.leaf_of(host), fabric.slot_of(host)
    return HostSettings(host, str(host_address(host)), *place, ports, netns, engine)


def _other_end(port: PortId) -> PortId:
    return PortId(port.peer, port.node, port.plane)


@dataclass(frozen=True)
class MeasuredLeaf:
    """A leaf whose ports count and mark; its maps live as long as the object that is held."""

    node: NodeId
    program: bpf.BpfObject

    @property
    def by_peer(self) -> dict[Role, bpf.BpfProgram]:
        """Return the program of a port, by what is at its other end."""
        return {role: self.program.program(name) for role, name in _PROGRAMS.items()}

    def settings(self, spines: int, socket: Path | None) -> LeafSettings:
        """Return where its counters are, and where its own process answers, if it has one."""
        maps = {name: self.program.map(name).id for name in _MAPS}
        return LeafSettings(
            plane=self.node.plane or 0,
            leaf=self.node.index,
            spines=tuple(range(spines)),
            flows_map=maps[bpf_layout.FLOWS],
            superseded_map=maps[bpf_layout.SUPERSEDED],
            measured_map=maps[bpf_layout.MEASURED],
            tests_map=maps[bpf_layout.TESTS],
            refused_map=maps[bpf_layout.REFUSED],
            elsewhere_map=maps[bpf_layout.ELSEWHERE],
            socket="" if socket is None else str(socket),
        )

    def placed(self, fabric: Fabric, priority_bps: int) -> dict[tuple[str, int], Placed]:
        """Return what the leaf has put on its ports, by node and interface index."""
        by_peer, root = self.by_peer, {Role.SPINE: "htb" if priority_bps else ""}
        return {
            (str(self.node), ifindex_of(fabric, port)): Placed(
                root=root.get(port.peer.role, ""), programs=frozenset({by_peer[port.peer.role].id})
            )
            for port in fabric.ports_of(self.node)
        }

    def begin(self, wanted: Measuring) -> None:
        """Clear the counters, as if nothing had been measured yet, and set which flows to measure."""
        selected = np.zeros((), bpf_layout.SELECTED)
        selected["one"] = wanted.one
        selected["reset_every_ns"] = int(wanted.reset_s * 1e9)
        selected["give_up_ns"] = ERASE_AFTER_S * 10**9
        selected["priority"] = FIRST_CLASS if wanted.priority_bps else 0
        self.program.map(bpf_layout.SELECTION).update(bytes(4), selected.tobytes())
        for name in _MAPS:
            table = self.program.map(name)
            for key in [key for key, _ in table.items()]:
                table.delete(key)


_MAPS = (
    bpf_layout.FLOWS,
    bpf_layout.SUPERSEDED,
    bpf_layout.MEASURED,
    bpf_layout.TESTS,
    bpf_layout.REFUSED,
    bpf_layout.ELSEWHERE,
)


def prioritise(fabric: Fabric, lab: str, bps: int) -> None:
    """Limit every uplink of every leaf to a rate at which measured packets go first; 0: no limit.

    Raises `KernelError`, `MissingFeatureError`.
    """
    for leaf in fabric.leaves():
        with Rtnl.inside(str(leaf), namespace_path(namespace_name(lab, leaf))) as rtnl:
            for port in fabric.ports_of(leaf):
                if port.peer.role is not Role.SPINE:
                    continue
                if bps:
                    set_priority(rtnl, ifindex_of(fabric, port), bps // 8)
                else:
                    remove_priority(rtnl, ifindex_of(fabric, port))


@contextmanager
def measured_leaves(
    fabric: Fabric, labdir: LabDir, narrow: bool, tcx_wanted: bool = True
) -> Iterator[tuple[MeasuredLeaf, ...]]:
    """Compile SprayCheck's eBPF once, with 16-bit counters if `narrow`, and put it on every port of every leaf.

    By TCX, if wanted and known to the kernel. Those programs are taken off again where that takes no time; what is in
    clsact stays until the ports are gone. Raises `MissingFeatureError`, `BpfError`, `KernelError`.
    """
    labdir.bpf.mkdir(exist_ok=True)
    first = ifindex_of(fabric, PortId(NodeId.leaf(0, 0), NodeId.spine(0, 0), 0))
    counting = bpf_layout.Counting(fabric.spec.spines, narrow)
    compiled = bpf.build(bpf_layout.SOURCE, bpf_layout.headers(first, counting), labdir.bpf)
    few = sum(len(fabric.ports_of(leaf)) for leaf in fabric.leaves()) <= MOST_BY_TCX
    with ExitStack() as held:
        leaves = tuple(MeasuredLeaf(node, held.enter_context(bpf.load(compiled))) for node in fabric.leaves())
        with short_grace_periods(labdir.grace) as short:
            by_tcx = tcx_wanted and (few or short)
            if by_tcx:
                held.callback(_detach_all, fabric, labdir, leaves)
            for leaf in leaves:
                _attach(fabric, labdir.lab, leaf, by_tcx)
        yield leaves


def _attach(fabric: Fabric, lab: str, leaf: MeasuredLeaf, by_tcx: bool) -> None:
    """Attach by TCX if the kernel supports it, else in clsact."""
    node, by_peer = str(leaf.node), leaf.by_peer
    with inside(namespace_path(namespace_name(lab, leaf.node))), Rtnl.here(node) as rtnl:
        for port in fabric.ports_of(leaf.node):
            chosen = by_peer[port.peer.role]
            index = ifindex_of(fabric, port)
            if not (by_tcx and tcx.attach(node, index, chosen.fd)):
                attach_program(rtnl, index, Direction.INGRESS, DETECTOR_PRIORITY, chosen.fd, chosen.name)


def _detach_all(fabric: Fabric, labdir: LabDir, leaves: Sequence[MeasuredLeaf]) -> None:
    """Detach what was attached by TCX, or the kernel waits long for each port when the namespaces end.

    Where this would take as long it is left to that, which is done behind our back.
    """
    with short_grace_periods(labdir.grace) as short:
        for leaf in leaves if short else ():
            with suppress(FileNotFoundError), inside(namespace_path(namespace_name(labdir.lab, leaf.node))):
                for port in fabric.ports_of(leaf.node):
                    tcx.detach(str(leaf.node), ifindex_of(fabric, port), leaf.by_peer[port.peer.role].fd)


_PROGRAMS = {Role.HOST: bpf_layout.FROM_HOST, Role.SPINE: bpf_layout.FROM_SPINE}


def leaf_process(leaf: NodeId) -> str:
    """Return the name of the SprayCheck process of one leaf: `spraycheck-p0-leaf3`."""
    return f"{SPRAYCHECK}-{leaf}"


def spraycheck_processes(fabric: Fabric) -> tuple[str, ...]:
    """Return names of all processes that SprayCheck may have."""
    return (*map(leaf_process, fabric.leaves()), SPRAYCHECK)


def leaf_process_settings(settings: SprayCheckSettings) -> tuple[SprayCheckSettings, ...]:
    """Return the settings of each leaf's own process, in the order of the leaves."""
    return tuple(msgspec.structs.replace(settings, leaves=(leaf,), serves=True) for leaf in settings.leaves)


def spraycheck_settings(
    fabric: Fabric, labdir: LabDir, leaves: Sequence[MeasuredLeaf], wanted: Measuring
) -> SprayCheckSettings:
    """Return the settings of the monitor's process, which reads all leaves' maps itself unless each has its own
    process.
    """
    return SprayCheckSettings(
        lab=labdir.lab,
        detect_log=str(labdir.detect),
        leaves=tuple(
            leaf.settings(fabric.spec.spines, labdir.leaf_socket(leaf_process(leaf.node)) if wanted.per_leaf else None)
            for leaf in leaves
        ),
        min_rate=float(parse_rate(wanted.min_rate)),
        run_tests=wanted.run_tests,
        copies=wanted.copies,
        narrow=wanted.narrow,
        one=wanted.one,
        erase_after_s=ERASE_AFTER_S,
    )
