"""Checks what this machine can and cannot do for a lab, and what to install or enable. Changes nothing."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from testbed.errors import MissingFeatureError
from testbed.kernel.bpf.programs import libbpf_version
from testbed.kernel.features import probe_features
from testbed.root_environment import find_tool

LEAST_CPUS = 2
LEAST_MEMORY_BYTES = 2 << 30
"""Least memory: gray-link takes about 1 GiB: data at both ends, rings, two engines (our choice, with room)."""


@dataclass(frozen=True)
class Finding:
    """One check."""

    name: str
    present: bool
    needed: bool
    """Whether `run` needs it."""
    use: str
    advice: str
    """What to do when it is missing; empty when it is there."""
    detail: str


def examine() -> tuple[Finding, ...]:
    """Return all checks, required ones first."""
    features = tuple(
        Finding(
            f.name,
            f.present,
            f.needed or f.name in _NEEDED_FEATURES,
            f.use,
            "" if f.present else f.advice,
            f.detail,
        )
        for f in probe_features()
    )
    packages = (_package(*package) for package in _PACKAGES)
    found = (*features, *(_tool(*tool) for tool in _TOOLS), _library(), *packages, *_machine())
    return tuple(sorted(found, key=lambda finding: not finding.needed))


_NEEDED_FEATURES = ("packet sockets", "eBPF on ports (cls_bpf)")
"""Kernel features that agents and SprayCheck need, but a bare fabric does not."""

_TOOLS = (
    ("clang", True, "compiles the eBPF programs", "clang"),
    ("ip", True, "starts programs inside a node", "iproute2"),
    ("tcpdump", True, "captures", "tcpdump"),
    ("mnexec", False, "commands in nodes by Mininet's CLI and API", "mininet"),
    ("tshark", False, "the project's own tests read captures with it", "tshark"),
)


def _tool(name: str, needed: bool, use: str, package: str) -> Finding:
    path = find_tool(name)
    return Finding(name, path is not None, needed, use, "" if path else f"install the package {package}", path or "")


_PACKAGES = (
    ("Mininet", "mininet", "builds the fabric; its CLI and its API"),
    ("pyroute2", "pyroute2", "netlink: routes, links, queues"),
    ("Scapy", "scapy", "every MRC header as a readable layer"),
)


def _package(name: str, package: str, use: str) -> Finding:
    try:
        return Finding(name, True, True, use, "", f"version {version(package)}")
    except PackageNotFoundError:
        return Finding(name, False, True, use, f"install the Python package {package} (in a clone: `make setup`)", "")


def _library() -> Finding:
    return _tried("libbpf", "loads the eBPF programs", libbpf_version)


def _tried(name: str, use: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, True, use, "", attempt())
    except MissingFeatureError as error:
        return Finding(name, False, True, use, error.advice, "")


def _machine() -> tuple[Finding, ...]:
    cpus = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    headers = Path("/usr/include/bpf/bpf_helpers.h")
    return (
        Finding(
            "libbpf headers",
            headers.exists(),
            True,
            "included by the eBPF programs",
            "" if headers.exists() else "install the package libbpf-dev",
            "",
        ),
        Finding(
            f"{LEAST_CPUS} cores",
            cpus >= LEAST_CPUS,
            False,
            "an engine worker on each",
            "" if cpus >= LEAST_CPUS else "use small fabrics; runs say when the machine did not keep up",
            f"{cpus} usable",
        ),
        Finding(
            f"{LEAST_MEMORY_BYTES >> 30} GiB of memory",
            memory >= LEAST_MEMORY_BYTES,
            False,
            "data at both ends of the flows, packet rings",
            "" if memory >= LEAST_MEMORY_BYTES else "use gray-link-small",
            f"{memory / 2**30:.1f} GiB",
        ),
    )
