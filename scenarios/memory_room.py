"""Checks whether this machine has memory for a fabric, and for the data that agents must hold."""

from fractions import Fraction
from pathlib import Path

from agent.host.settings import RX_SLOTS, TX_SLOTS
from agent.io.packet_ring import rings_bytes
from scenarios.errors import EnvironmentLackingError
from testbed.model.fabric import FabricSpec

MEMORY_SHARE = Fraction(1, 2)
"""Share of the free memory that a run's data may take (our choice)."""

ALL_SHARE = Fraction(9, 10)
"""Share of it that data and fabric may take together (our choice)."""

NAMESPACE_BYTES = 256 << 10
"""Memory of a namespace with its routes: 0.22 to 0.25 MiB measured on kernel 6.18, fabrics of 48 to 129 nodes."""

LINK_BYTES = 96 << 10
"""Memory of a veth pair with its addresses and neighbours: 70 to 90 KiB measured there, 128 to 544 links."""

PROCESS_BYTES = 80 << 20
"""Memory of the owner, of each SprayCheck process and of each engine worker: 55 to 80 MiB measured, without data."""


def require_room(wanted_bytes: int, what: str) -> None:
    """Check the memory. Raises `EnvironmentLackingError` when `what` takes more than half of the free memory."""
    if lack := no_room(wanted_bytes, what):
        raise EnvironmentLackingError(lack)


def no_room(wanted_bytes: int, what: str) -> str:
    """State that `what` takes more than half of the free memory; empty when it does not."""
    most = int(free_bytes() * MEMORY_SHARE)
    if wanted_bytes <= most:
        return ""
    return f"{what} takes {wanted_bytes >> 20:,} MiB, more than half of the free memory ({most >> 20:,} MiB)"


def no_room_for_fabric(spec: FabricSpec, processes: int, data_bytes: int = 0) -> str:
    """State that a lab of this fabric and this many agents' processes does not fit beside `data_bytes`; empty if
    it does.

    Agents' processes are the engine workers, and where every leaf has a SprayCheck process, those.
    """
    fabric, most = lab_bytes(spec, processes), int(free_bytes() * ALL_SHARE)
    if fabric + data_bytes <= most:
        return ""
    beside = f" beside {data_bytes >> 20:,} MiB of data" if data_bytes else ""
    nodes, links = _counts(spec)
    return (
        f"a fabric of {nodes:,} nodes and {links:,} links takes about {fabric >> 20:,} MiB (estimated){beside}, and "
        f"{most >> 20:,} MiB are free for it; ask for fewer leaves, spines or planes"
    )


def lab_bytes(spec: FabricSpec, processes: int) -> int:
    """Estimate the memory of a lab before it carries data: namespaces, links, the hosts' packet rings, processes."""
    nodes, links = _counts(spec)
    ports = spec.leaves * spec.hosts_per_leaf * spec.planes
    rings = ports * rings_bytes(RX_SLOTS, TX_SLOTS)
    return nodes * NAMESPACE_BYTES + links * LINK_BYTES + rings + (2 + processes) * PROCESS_BYTES


def _counts(spec: FabricSpec) -> tuple[int, int]:
    """Return the number of nodes and links."""
    hosts = spec.leaves * spec.hosts_per_leaf
    return hosts + spec.planes * (spec.leaves + spec.spines), spec.planes * (spec.leaves * spec.spines + hosts)


def free_bytes() -> int:
    """Return the memory that the kernel can give without swapping (MemAvailable)."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10
