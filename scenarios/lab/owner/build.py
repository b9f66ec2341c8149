"""Builds, checks and removes a lab in order: fabric, eBPF on leaves, faults, engine workers, SprayCheck, captures.

It runs in the owner process. What is made last is removed first, on every exit.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from agent.spraycheck.settings import Settings as SprayCheckSettings
from faults.inject import injector_of
from results.captures.tcpdump import ends_of
from results.files.event_log import timestamp
from results.text import count_text
from scenarios.errors import LabStateError
from scenarios.interrupts import interrupts_wait, undoing
from scenarios.isolated import own_code
from scenarios.lab.lab_dir import LabDir, LabState, write_state
from scenarios.lab.lifecycle import OwnerSettings
from scenarios.lab.owner.captures import CapturePlace, Captures, CaptureSize
from scenarios.lab.owner.denials import Acting, Denials
from scenarios.lab.owner.injections import Injections
from scenarios.lab.owner.worker_requests import Later
from scenarios.lab.processes import ProcessId, worker_count, worker_name
from scenarios.lab.protocol import CaptureState, Checked, Epoch, LabStatus, Measuring
from scenarios.lab.start import deploy
from scenarios.lab.start.children import Children
from testbed.emulation.network import FabricNet
from testbed.kernel.comparison import compare, gone
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import inside, namespace_path
from testbed.kernel.node_state import read_state
from testbed.kernel.ports.port_state import found_ports
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link
from testbed.model.node_config import Difference, Placed, node_config
from testbed.model.node_names import NodeId, namespace_name

Show = Callable[[str], None]

MOST_DETECT_BYTES = 64 << 20
"""Size of detect.jsonl from which a new run starts a new file; as much of the earlier one is kept. On an 8 x 8
fabric a run makes about 0.2 MB, in memory where /run is. Our choice.
"""

MOST_EPOCHS = (1 << 16) - 1
"""Most runs of a lab: an announcement has 16 bits for the number of its run."""


@dataclass
class Lab:
    """Everything of a lab that is up."""

    labdir: LabDir
    settings: OwnerSettings
    owner: ProcessId
    started: str
    fabric: Fabric
    workers: int
    leaves: tuple[deploy.MeasuredLeaf, ...]
    children: Children
    injections: Injections
    captures: Captures
    denials: Denials
    epoch: int = 0
    asked: Measuring | None = None
    """Settings that SprayCheck was started with."""
    take_back: Callable[[], object] | None = None
    """Action that undoes the last request, if that is possible."""

    def status(self) -> LabStatus:
        """Return the current state."""
        return LabStatus(
            **self._shape(),
            epoch=self.epoch,
            children=self.children.statuses(),
            faults=self.injections.states(),
            captures=self.captures.states(),
            code=own_code(),
            planned=self.injections.planned(),
            expectation=self.asked.expectation if self.asked else None,
        )

    def due_in_s(self) -> float | None:
        """Return seconds until `run` has something to do; None when nothing is planned."""
        times = [each for each in (self.injections.due_in_s(), self.denials.due_in_s()) if each is not None]
        return min(times, default=None)

    def run(self) -> None:
        """Do the work between requests: pending requests and timelines."""
        self.injections.run()
        self.denials.run()

    def capture(
        self, links: tuple[str, ...], place: CapturePlace, client: int | None, size: CaptureSize
    ) -> tuple[CaptureState, ...]:
        """Record both ends of every link that is selected. Raises `UnknownNameError` and what `Captures` raises."""
        chosen = dict.fromkeys(way.link for text in links for way in parse_link(text, self.fabric))
        return self.captures.start([end for link in chosen for end in ends_of(link)], place, client, size)

    def left(self, client: int, unheard: bool) -> None:
        """Undo what a client that is gone has leased, and the order whose answer it did not get."""
        if unheard and self.take_back is not None:
            self.take_back()
        self.take_back = None
        self.captures.left(client)
        self.injections.left(client)

    def new_epoch(self, wanted: Measuring) -> Later:
        """Prepare SprayCheck for a run with these settings; return an `Epoch` with a number that no earlier run
        has had.

        Over when workers know which links to probe. Raises `LabStateError` when no number is left, or this lab cannot
        be made ready.
        """
        if self.epoch == MOST_EPOCHS:
            raise LabStateError(
                f"lab {self.labdir.lab!r} has had {MOST_EPOCHS:,} runs, more cannot be distinguished; "
                f"`{self.labdir.down_command}` and up again"
            )
        self.measure(wanted)
        self.epoch += 1
        self.denials.epoch = self.epoch
        acting = Acting(self.epoch, wanted.expectation, wanted.lift_after) if wanted.act else None
        epoch_reply = Epoch(self.epoch)
        return Later(self.denials.act_on(acting), lambda _: epoch_reply)

    def measure(self, wanted: Measuring) -> None:
        """Start SprayCheck, or restart it if its settings differ or its file is full.

        Raises `LabStateError` if this lab cannot.
        """
        is_full = _size(self.labdir.detect) > MOST_DETECT_BYTES
        if self.asked == wanted and not is_full:
            return
        if wanted.narrow != self.settings.measuring.narrow:
            has = 16 if self.settings.measuring.narrow else 32
            raise LabStateError(
                f"the leaves of this lab count in {has} bits (detector.counter_bits); take it down first"
            )
        self.children.end(deploy.spraycheck_processes(self.fabric))
        if is_full:
            self.labdir.detect.replace(self.labdir.older_detect)
        for leaf in self.leaves:
            leaf.begin(wanted)
        if wanted.priority_bps != self._priority_bps:
            deploy.prioritise(self.fabric, self.labdir.lab, wanted.priority_bps)
        self._start_spraycheck(wanted)
        self.asked = wanted

    def _start_spraycheck(self, wanted: Measuring) -> None:
        """Start all of its processes and wait until counters are read."""
        settings = deploy.spraycheck_settings(self.fabric, self.labdir, self.leaves, wanted)
        if wanted.per_leaf:
            self._start_leaf_processes(deploy.leaf_process_settings(settings))
        said = _size(self.labdir.detect)
        self.children.start(deploy.SPRAYCHECK, deploy.SPRAYCHECK_MODULE, settings)
        self.write_state()
        # Its first line says that the counters are read from here on.
        self.children.wait_until(deploy.SPRAYCHECK, lambda: _size(self.labdir.detect) > said)

    def _start_leaf_processes(self, leaf_settings: tuple[SprayCheckSettings, ...]) -> None:
        """Start the process of every leaf inside its namespace and wait until all answer."""
        names = [deploy.leaf_process(leaf.node) for leaf in self.leaves]
        for name, leaf, settings in zip(names, self.leaves, leaf_settings, strict=True):
            self.labdir.leaf_socket(name).unlink(missing_ok=True)  # of one that was killed
            self.children.start(name, deploy.SPRAYCHECK_MODULE, settings, leaf.node)
        self.write_state()
        for name in names:
            self.children.wait_until(name, self.labdir.leaf_socket(name).exists)

    def check(self) -> Checked:
        """Compare every node, read now, with its plan; timelines continue meanwhile. Raises `KernelError`."""
        counting = [leaf.placed(self.fabric, self._priority_bps) for leaf in self.leaves]

        def put() -> list[PutOn]:
            self.run()
            return [self.injections.placed(), *counting]

        found = differences_of(self.fabric, self.labdir.lab, put)
        known = {(each.node, each.port) for each in found}
        removed = (each for each in self.injections.removed() if (each.node, each.port) not in known)
        return Checked(len(self.fabric.nodes()), (*found, *removed))

    @property
    def _priority_bps(self) -> int:
        return self.asked.priority_bps if self.asked else 0

    def start_workers(self) -> None:
        """Start all engine workers and wait until they answer."""
        cpus = sorted(os.sched_getaffinity(0))
        inside = self.settings.workers == "per-host"
        settings = deploy.worker_settings(
            self.fabric, self.labdir, self.workers, cpus, self.settings.seed, inside, self.settings.scapy_hosts
        )
        for index, own_settings in enumerate(settings):
            node = NodeId.host(index) if inside else None
            self.children.start(worker_name(index), deploy.WORKER_MODULE, own_settings, node)
        self.write_state()
        for index in range(self.workers):
            self.children.wait_until(worker_name(index), self.labdir.worker_socket(index).exists)

    def write_state(self) -> None:
        """Write the lab's state for other processes."""
        write_state(self.labdir, LabState(**self._shape(), children=self.children.states()))

    def _shape(self) -> dict[str, Any]:
        """Return the fields of `LabShape`."""
        head = {"lab": self.labdir.lab, "owner": self.owner, "started": self.started, "workers": self.workers}
        head["scapy_hosts"] = self.settings.scapy_hosts
        return head | asdict(self.fabric.spec)


@contextmanager
def lab_up(settings: OwnerSettings, labdir: LabDir, owner: ProcessId, now_ns: int, show: Show) -> Iterator[Lab]:
    """Build a lab, tear it down at the end of the body and on every error."""
    fabric = Fabric.of(_spec(settings))
    cpus = len(os.sched_getaffinity(0))
    workers = worker_count(settings.workers, fabric.host_count, cpus)
    with undoing() as stack:
        show(f"1 of 4, fabric: {len(fabric.nodes())} namespaces, {fabric.link_count} links, configured and read back")
        with interrupts_wait():
            stack.enter_context(FabricNet.of(fabric, labdir.lab))
        show("2 of 4, SprayCheck: eBPF on every leaf port")
        leaves = stack.enter_context(deploy.measured_leaves(fabric, labdir, settings.measuring.narrow))
        injections = Injections(labdir, fabric, stack.enter_context(injector_of(labdir.path)))
        children = Children(labdir)
        stack.callback(children.end)
        captures = Captures(labdir)
        stack.callback(captures.end)
        denials = Denials(labdir, fabric, workers, children.status)
        lab = Lab(
            labdir, settings, owner, timestamp(now_ns), fabric, workers, leaves, children, injections, captures, denials
        )
        lab.write_state()
        show(f"3 of 4, agents: {count_text(fabric.host_count, 'host')} on {count_text(workers, 'engine worker')}")
        lab.start_workers()
        show(f"4 of 4, SprayCheck: {_processes_text(fabric, settings.measuring)}")
        lab.measure(settings.measuring)
        yield lab


def _spec(settings: OwnerSettings) -> FabricSpec:
    return FabricSpec(
        settings.planes,
        settings.leaves,
        settings.spines,
        settings.hosts_per_leaf,
        host_stack=settings.host_stack,
    )


def _processes_text(fabric: Fabric, wanted: Measuring) -> str:
    return (
        f"a process for each of {len(fabric.leaves())} leaves, one for the monitor"
        if wanted.per_leaf
        else "counter process"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


PutOn = Mapping[tuple[str, int], Placed]
"""Programs by node and interface index."""


def differences_of(fabric: Fabric, lab: str, put: Callable[[], Iterable[PutOn]]) -> tuple[Difference, ...]:
    """List differences at any node; before each node, `put` returns what the lab itself has placed on ports by then.

    Raises KernelError.
    """
    return tuple(each for node in fabric.nodes() for each in _of_node(fabric, lab, node, put()))


def _of_node(fabric: Fabric, lab: str, node: NodeId, put: Iterable[PutOn]) -> tuple[Difference, ...]:
    config, path = node_config(fabric, node), namespace_path(namespace_name(lab, node))
    if not path.exists():
        return (gone(fabric, node),)
    with inside(path), Rtnl.here(str(node)) as rtnl:
        ports = found_ports(rtnl, [each.ifindex for each in config.interfaces])
    placed: dict[int, Placed] = {}
    for (name, index), each in chain.from_iterable(some.items() for some in put):
        if name == str(node):
            placed[index] = placed.get(index, Placed()).plus(each)
    return compare(fabric, config, read_state(config, path), ports, placed)
