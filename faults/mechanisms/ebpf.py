"""Makes faults by an eBPF program at a port's egress: those that select packets, and drops where netem is missing.

Every fault has its own program, in the order they were set. It drops after the sender's routing and before any
capture on the sending port: neither end's capture shows the packet.
"""

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from agent.wire.c_headers import wire_headers
from faults.kinds import By, Fault
from faults.mechanisms import ebpf_config
from faults.mechanisms.base import Applied, Tally, Target
from faults.mechanisms.ebpf_config import COUNTS, config_of, fault_of, with_priority, with_seed
from testbed.kernel.bpf.programs import BpfMap, BpfObject, build, load
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import in_nameless_namespace
from testbed.kernel.ports.qdisc import (
    Direction,
    attach_program,
    attached_programs,
    detach_program,
    qdisc_kinds,
    remove_clsact,
)
from testbed.model.node_config import LOOPBACK_IFINDEX, Placed

PRIORITY = 100
"""Priority of the first fault's program on a port; our choice, after programs that only read."""
MOST_PRIORITY = 0xFFFF
"""Highest priority of a filter: 16 bits."""

_SOURCE = Path(__file__).parent / "bpf" / "fault.bpf.c"
_PROGRAM, _CONFIG, _COUNTS, _STATE, _GATE = "fault", "config", "tally", "state", "gate"
_KEY = bytes(4)
_OFF, _ON = (int(on).to_bytes(4, sys.byteorder) for on in (False, True))


class PacketMechanism:
    """Makes faults by eBPF. Needs CONFIG_NET_CLS_BPF, clang and libbpf; compiles into `build_dir`, once, when
    first used.
    """

    name = By.EBPF

    def __init__(self, build_dir: Path) -> None:
        self._build_dir = build_dir
        self._added: set[tuple[Path, int]] = set()
        """Ports where clsact exists because of a fault."""
        self._on: dict[tuple[Path, int], list[_PacketFault]] = {}
        """The faults of each port, in the order of their programs."""

    def check(self) -> None:
        """Check for support. Raises MissingFeatureError, BpfError without it."""
        with load(self._object_file) as loaded:
            fd = loaded.program(_PROGRAM).fd
            in_nameless_namespace(lambda: _try_attach(fd))

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        """Attach a program of its own to the port. Raises MissingFeatureError, KernelError, BpfError."""
        return self._applied(target, load(self._object_file), fault, seed, _ON)

    def arm(self, targets: Sequence[Target], fault: Fault, seeds: Sequence[int]) -> "list[_PacketFault]":
        """Attach a program to every port; all share one gate, which is shut. Raises as `apply` does."""
        armed: list[_PacketFault] = []
        try:
            for target, seed in zip(targets, seeds, strict=True):
                loaded = load(self._object_file, {_GATE: armed[0].gate} if armed else None)
                armed.append(self._applied(target, loaded, fault, seed, _OFF))
        except BaseException:
            for each in reversed(armed):
                each.revert()
            raise
        return armed

    def _applied(self, target: Target, loaded: BpfObject, fault: Fault, seed: int, gate: bytes) -> "_PacketFault":
        try:
            loaded.map(_GATE).update(_KEY, gate)
            with Rtnl.inside(target.node, target.namespace) as rtnl:
                return self._attached(rtnl, target, loaded, fault, seed)
        except BaseException:
            loaded.close()
            raise

    def removed_from(self, rtnl: Rtnl, target: Target, fault: "_PacketFault | None" = None) -> None:
        """Note that a program was removed: clsact goes with the last, if it came with one."""
        there = self._on.get((target.namespace, target.ifindex), [])
        if fault in there:
            there.remove(fault)
        in_use = any(attached_programs(rtnl, target.ifindex, side) for side in Direction)
        if (target.namespace, target.ifindex) in self._added and not in_use:
            remove_clsact(rtnl, target.ifindex)
            self._added.discard((target.namespace, target.ifindex))

    def _attached(self, rtnl: Rtnl, target: Target, loaded: BpfObject, fault: Fault, seed: int) -> "_PacketFault":
        priority = self._next_priority(rtnl, target)
        loaded.map(_CONFIG).update(_KEY, config_of(fault, seed, priority))
        if "clsact" not in qdisc_kinds(rtnl, target.ifindex):
            self._added.add((target.namespace, target.ifindex))
        try:
            fd = loaded.program(_PROGRAM).fd
            attach_program(rtnl, target.ifindex, Direction.EGRESS, priority, fd, f"spraylab-{_PROGRAM}")
        except BaseException:
            self.removed_from(rtnl, target)
            self._added.discard((target.namespace, target.ifindex))
            raise
        applied = _PacketFault(self, target, loaded, fault, priority)
        self._on.setdefault((target.namespace, target.ifindex), []).append(applied)
        return applied

    def _next_priority(self, rtnl: Rtnl, target: Target) -> int:
        """Return a priority after all programs of the port. If none is left, our programs first move to the front."""
        behind = _behind_all(rtnl, target)
        if behind <= MOST_PRIORITY:
            return behind
        for at, fault in enumerate(self._on.get((target.namespace, target.ifindex), [])):
            fault.move(rtnl, PRIORITY + at)
        return _behind_all(rtnl, target)

    @cached_property
    def _object_file(self) -> Path:
        headers = {**wire_headers(), "fault.h": ebpf_config.c_header()}
        return build(_SOURCE, headers, self._build_dir)


class _PacketFault:
    """One program on one port."""

    def __init__(
        self, mechanism: PacketMechanism, target: Target, loaded: BpfObject, fault: Fault, priority: int
    ) -> None:
        self._mechanism, self._target, self._loaded, self._priority = mechanism, target, loaded, priority
        self._drops = fault.drop_rate is not None

    @property
    def gate(self) -> BpfMap:
        """Return whether it is in force, with all that were armed with it."""
        return self._loaded.map(_GATE)

    def in_force(self) -> Fault | None:
        return self.held() if self.is_on() else None

    def is_on(self) -> bool:
        return self.gate.lookup(_KEY) == _ON

    def switch(self, on: bool) -> None:
        self.gate.update(_KEY, _ON if on else _OFF)

    def prepare(self, seed: int) -> None:
        config = self._loaded.map(_CONFIG)
        config.update(_KEY, with_seed(config.lookup(_KEY) or b"", seed))
        for name in (_STATE, _COUNTS):
            table = self._loaded.map(name)
            table.update(_KEY, bytes(table.stored_bytes))

    def held(self) -> Fault | None:
        wanted = self._loaded.program(_PROGRAM).id
        with Rtnl.inside(self._target.node, self._target.namespace) as rtnl:
            attached = attached_programs(rtnl, self._target.ifindex, Direction.EGRESS)
        if not any(program.id == wanted and program.direct_action for program in attached):
            return None
        value = self._loaded.map(_CONFIG).lookup(_KEY)
        return fault_of(value) if value else None

    def is_seeded(self) -> bool:
        return True

    def placed(self) -> Placed:
        return Placed(programs=frozenset({self._loaded.program(_PROGRAM).id}))

    def tally(self) -> Tally:
        value = self._loaded.map(_COUNTS).lookup(_KEY)
        per_cpu = np.frombuffer(value or b"", COUNTS)
        passed, seen, hit, writes = (int(per_cpu[name].sum()) for name in ("passed", "seen", "hit", "hit_writes"))
        if self._drops:
            return Tally(seen, hit, writes, hit, passed)
        return Tally(seen, 0, 0, hit, passed)

    def move(self, rtnl: Rtnl, priority: int) -> None:
        """Move to another priority; during the move some packets meet the fault twice."""
        if priority == self._priority:
            return
        fd, ifindex = self._loaded.program(_PROGRAM).fd, self._target.ifindex
        attach_program(rtnl, ifindex, Direction.EGRESS, priority, fd, f"spraylab-{_PROGRAM}")
        detach_program(rtnl, ifindex, Direction.EGRESS, self._priority)
        config = self._loaded.map(_CONFIG)
        config.update(_KEY, with_priority(config.lookup(_KEY) or b"", priority))
        self._priority = priority

    def revert(self) -> Tally:
        target = self._target
        with Rtnl.inside(target.node, target.namespace) as rtnl:
            detach_program(rtnl, target.ifindex, Direction.EGRESS, self._priority)
            self._mechanism.removed_from(rtnl, target, self)
        last = self.tally()
        self._loaded.close()
        return last


def _behind_all(rtnl: Rtnl, target: Target) -> int:
    taken = (program.priority for program in attached_programs(rtnl, target.ifindex, Direction.EGRESS))
    return max([PRIORITY, *(each + 1 for each in taken)])


def _try_attach(fd: int) -> None:
    with Rtnl.here("probe") as rtnl:
        attach_program(rtnl, LOOPBACK_IFINDEX, Direction.EGRESS, PRIORITY, fd, "probe")
