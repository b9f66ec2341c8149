"""Records what a run ran on: kernel, tools, versions, command line, fabric, and which parts the seed repeats.

Reads the machine, changes nothing.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from agent.wire.record_ranges import VERSION, Count, Seed, Text, Version
from results.records.source_hash import SourceCode
from testbed.model.addressing import host_address, ifindex_of, mac_of, usid_of
from testbed.model.fabric import Fabric
from testbed.model.node_names import LinkId, NodeId, PortId, Role, namespace_name
from testbed.root_environment import clean_environment, find_tool
from testbed.version import VERSION as OWN_VERSION

PACKAGES = (
    "mininet",
    "msgspec",
    "numpy",
    "pydantic",
    "pyroute2",
    "PyYAML",
    "scapy",
    "scipy",
    "isal",
    "click",
)
"""Python packages, besides spraylab, whose version can change a result."""

TOOLS = (("iproute2", ("ip", "-V")), ("tcpdump", ("tcpdump", "--version")), ("clang", ("clang", "--version")))


@dataclass(frozen=True)
class Repeating:
    """Parts of a run that the same seed repeats, and parts that it does not, one sentence each."""

    repeats: tuple[str, ...]
    varies: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """The content of `env.json`."""

    v: Version
    started: Text
    command: tuple[Text, ...]
    scenario: Text
    seed: Seed
    kernel: Text
    kernel_build: Text
    machine: Text
    distribution: Text
    cpu: Text
    cpus: Count
    cpus_usable: Count
    memory_bytes: Count
    python: Text
    packages: dict[Text, Text]
    tools: dict[Text, Text]
    repeats_with_seed: tuple[Text, ...]
    varies: tuple[Text, ...]
    attached: bool | None = None
    """Whether the lab was already up; None where an older version did not record it."""
    code: SourceCode | None = None
    """The copy of the program that made the run."""
    lab_code: SourceCode | None = None
    """The copy that the lab's processes run; it differs if another copy started the lab."""


def manifest(
    started: str,
    command: Sequence[str],
    scenario: str,
    seed: int,
    repeating: Repeating,
    attached: bool = False,
    code: SourceCode | None = None,
    lab_code: SourceCode | None = None,
) -> Manifest:
    """Describe this machine and this run."""
    uname = platform.uname()
    return Manifest(
        VERSION,
        started,
        tuple(command),
        scenario,
        seed,
        kernel=uname.release,
        kernel_build=uname.version,
        machine=uname.machine,
        distribution=_field(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"'),
        cpu=_field(Path("/proc/cpuinfo"), "model name", ":"),
        cpus=os.cpu_count() or 0,
        cpus_usable=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=sys.version.split()[0],
        packages={"spraylab": OWN_VERSION} | {name: _package(name) for name in PACKAGES},
        tools={name: _tool(command) for name, command in TOOLS},
        repeats_with_seed=repeating.repeats,
        varies=repeating.varies,
        attached=attached,
        code=code,
        lab_code=lab_code,
    )


def _field(path: Path, key: str, separator: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    pairs = (line.partition(separator) for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "unknown")


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _tool(command: tuple[str, ...]) -> str:
    """Return the first line of a tool's version output."""
    if (file := find_tool(command[0])) is None:
        return "not installed"
    said = subprocess.run(
        (file, *command[1:]), capture_output=True, text=True, timeout=10, check=False, env=clean_environment()
    )
    lines = (said.stdout + said.stderr).strip().splitlines()
    return lines[0] if lines else "no output"


def topology_document(fabric: Fabric, lab: str) -> dict[str, Any]:
    """Return the content of `topology.json`."""
    spec = fabric.spec
    return {
        "v": VERSION,
        "lab": lab,
        "planes": spec.planes,
        "leaves": spec.leaves,
        "spines": spec.spines,
        "hosts_per_leaf": spec.hosts_per_leaf,
        "mtu": spec.mtu,
        "host_stack": spec.host_stack,
        "nodes": [_node(fabric, lab, node) for node in fabric.nodes()],
        "links": [_link(fabric, link) for link in fabric.links()],
    }


def _node(fabric: Fabric, lab: str, node: NodeId) -> dict[str, Any]:
    told = {"name": str(node), "role": node.role.name.lower(), "namespace": namespace_name(lab, node)}
    if node.role is Role.HOST:
        place = {"leaf": fabric.leaf_of(node.index), "slot": fabric.slot_of(node.index)}
        return told | {"address": str(host_address(node.index))} | place
    return told | {"plane": node.plane, "usid": f"{usid_of(node):04x}"}


def _link(fabric: Fabric, link: LinkId) -> dict[str, Any]:
    up, _down = link.directions
    return {"name": str(link), "plane": link.plane, "ends": [_end(fabric, up.egress), _end(fabric, up.ingress)]}


def _end(fabric: Fabric, port: PortId) -> dict[str, Any]:
    return {
        "node": str(port.node),
        "interface": port.interface,
        "ifindex": ifindex_of(fabric, port),
        "mac": mac_of(fabric, port),
    }
