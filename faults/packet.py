"""Random loss by an eBPF program on a port's way out, for kernels without netem, and to tell what was lost.

Drops behind the sender's routing and before any capture on the sending port: neither end's capture shows the packet.
"""

import sys
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from agent.wire import dtypes
from faults.mechanism import Applied, Tally, Target
from faults.model import RandomDrop
from faults.quantities import rate_of_threshold
from testbed.kernel.bpf import BpfObject, build, load
from testbed.kernel.qdisc import (
    Direction,
    attach_program,
    attached_programs,
    detach_program,
    qdisc_kinds,
    remove_clsact,
)
from testbed.kernel.rtnl import Rtnl

PRIORITY = 100
"""Of the program on a port; our choice, behind programs that only look."""

_SOURCE = Path(__file__).parent / "bpf" / "drop.bpf.c"
_PROGRAM, _THRESHOLD, _COUNTS = "drop", "threshold", "tally"
_KEY = bytes(4)
_TALLY = np.dtype([("seen", "u8"), ("dropped", "u8"), ("dropped_writes", "u8")])


class PacketMechanism:
    """Needs CONFIG_NET_CLS_BPF, clang and libbpf. Compiles into `build_dir`, once, when first used."""

    name = "ebpf"

    def __init__(self, build_dir: Path) -> None:
        self._build_dir = build_dir

    def apply(self, target: Target, fault: RandomDrop) -> Applied:
        """Attach a program of its own to the port. Raises MissingFeatureError, KernelError, BpfError."""
        loaded = load(self._object_file)
        try:
            loaded.map(_THRESHOLD).update(_KEY, fault.threshold.to_bytes(8, sys.byteorder))
            return _attached(target, loaded)
        except BaseException:
            loaded.close()
            raise

    @cached_property
    def _object_file(self) -> Path:
        return build(_SOURCE, {"mrc.h": dtypes.c_header(), "drop.h": _header()}, self._build_dir)


class _PacketLoss:
    """The program on the port, and whether clsact is there because of it."""

    def __init__(self, target: Target, loaded: BpfObject, added_clsact: bool) -> None:
        self._target, self._loaded, self._added_clsact = target, loaded, added_clsact

    def in_force(self) -> Fraction | None:
        wanted = self._loaded.program(_PROGRAM).id
        with Rtnl.inside(self._target.node, self._target.namespace) as rtnl:
            attached = attached_programs(rtnl, self._target.ifindex, Direction.EGRESS)
        if not any(program.id == wanted and program.direct_action for program in attached):
            return None
        value = self._loaded.map(_THRESHOLD).lookup(_KEY)
        return rate_of_threshold(int.from_bytes(value, sys.byteorder)) if value else None

    def tally(self) -> Tally:
        value = self._loaded.map(_COUNTS).lookup(_KEY)
        per_cpu = np.frombuffer(value or b"", _TALLY)
        return Tally(*(int(per_cpu[name].sum()) for name in ("seen", "dropped", "dropped_writes")))

    def revert(self) -> Tally:
        target = self._target
        with Rtnl.inside(target.node, target.namespace) as rtnl:
            detach_program(rtnl, target.ifindex, Direction.EGRESS, PRIORITY)
            in_use = any(attached_programs(rtnl, target.ifindex, side) for side in Direction)
            if self._added_clsact and not in_use:
                remove_clsact(rtnl, target.ifindex)
        last = self.tally()
        self._loaded.close()
        return last


def _attached(target: Target, loaded: BpfObject) -> _PacketLoss:
    with Rtnl.inside(target.node, target.namespace) as rtnl:
        had_clsact = "clsact" in qdisc_kinds(rtnl, target.ifindex)
        try:
            fd = loaded.program(_PROGRAM).fd
            attach_program(rtnl, target.ifindex, Direction.EGRESS, PRIORITY, fd, f"spraylab-{_PROGRAM}")
        except BaseException:
            if not had_clsact:
                remove_clsact(rtnl, target.ifindex)
            raise
    return _PacketLoss(target, loaded, not had_clsact)


def _header() -> str:
    """The C struct of _TALLY."""
    assert _TALLY.names is not None
    fields = " ".join(f"__u64 {name};" for name in _TALLY.names)
    return f"#include <linux/types.h>\nstruct tally {{ {fields} }};\n"
