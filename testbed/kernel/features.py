"""Features of this machine's kernel, tried in a nameless namespace and read back, never guessed from a version.

Leaves nothing behind. Each probe says which kernel option to enable when it fails. Tools (clang, tcpdump) are not
checked here.
"""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from testbed.errors import MissingFeatureError, TestbedError
from testbed.kernel.bpf import tcx
from testbed.kernel.bpf.tcx import load_smallest_program
from testbed.kernel.netlink import dumps, requests
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import in_nameless_namespace
from testbed.kernel.ports import qdisc, shaping
from testbed.kernel.ports.qdisc import Direction
from testbed.kernel.ports.shaping import Netem, Tbf
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    TABLE_LOCAL,
    Cable,
    EncapRed,
    EndDt6,
    EndNextCsid,
    Interface,
    Route,
)
from testbed.model.node_names import NodeId

_PORT = Interface("probe0", 100, "02:00:00:00:00:01", 9000, 101)
_PEER = Interface("probe1", 101, "02:00:00:00:00:02", 9000, 100)
_SEGMENT = IPv6Address("5f00:0:2000:e000::")


@dataclass(frozen=True, slots=True)
class Feature:
    """Result of one probe.

    No fabric works without a `needed` one; `detail` is the kernel's message, empty when present.
    """

    name: str
    present: bool
    needed: bool
    use: str
    advice: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Probe:
    name: str
    needed: bool
    use: str
    advice: str
    attempt: Callable[[Rtnl], None]


def probe_features() -> tuple[Feature, ...]:
    """Try everything. Without the right to make namespaces, only that is reported."""
    return _results(_PROBES)


def require_fabric_features() -> None:
    """Raise MissingFeatureError for the first missing feature that every fabric needs. Takes a few milliseconds."""
    for feature in _results([probe for probe in _PROBES if probe.needed]):
        if not feature.present:
            raise MissingFeatureError(feature.name, f"{feature.advice} ({feature.detail})")


def _results(probes: Sequence[_Probe]) -> tuple[Feature, ...]:
    use, advice = "namespaces, links and routes", "run as root (sudo), in a kernel with CONFIG_NET_NS"
    if os.geteuid() != 0:
        return (Feature("root", False, True, use, advice, f"effective user id {os.geteuid()}"),)
    try:
        found = in_nameless_namespace(lambda: _tried(probes))
    except TestbedError as error:
        return (Feature("root", False, True, use, advice, str(error)),)
    return (Feature("root", True, True, use, advice, ""), *found)


def _tried(probes: Sequence[_Probe]) -> tuple[Feature, ...]:
    with Rtnl.here("probe") as rtnl:
        return tuple(_feature(probe, rtnl) for probe in probes)


def _feature(probe: _Probe, rtnl: Rtnl) -> Feature:
    try:
        probe.attempt(rtnl)
    except (TestbedError, OSError) as error:
        return Feature(probe.name, False, probe.needed, probe.use, probe.advice, str(error))
    return Feature(probe.name, True, probe.needed, probe.use, probe.advice, "")


def _try_veth(rtnl: Rtnl) -> None:
    """Create a veth pair, which later probes use."""
    with open("/proc/thread-self/ns/net") as here:
        rtnl.apply([requests.create_cable(Cable(_PORT, NodeId.host(0), _PEER), here.fileno())])
    names = {LOOPBACK_IFINDEX: "lo", _PORT.ifindex: _PORT.name, _PEER.ifindex: _PEER.name}
    rtnl.apply(requests.bring_up(ifindex, name) for ifindex, name in names.items())
    _expect(_PORT in dumps.found_interfaces(rtnl)[0], "the veth pair reads back differently")


def _try_route(rtnl: Rtnl, route: Route) -> None:
    rtnl.apply([requests.add_route(route)])
    _expect(route in dumps.found_routes(rtnl)[0], "the kernel took the route and dropped its action")


def _try_next_csid(rtnl: Rtnl) -> None:
    _try_route(rtnl, Route(IPv6Network("5f00:0:1000::/48"), LOOPBACK_IFINDEX, action=EndNextCsid()))


def _try_end_dt6(rtnl: Rtnl) -> None:
    _try_route(rtnl, Route(IPv6Network("5f00:0:e000::/48"), LOOPBACK_IFINDEX, action=EndDt6(TABLE_LOCAL)))


def _try_encap_red(rtnl: Rtnl) -> None:
    _try_route(rtnl, Route(IPv6Network("fd5f::1/128"), _PORT.ifindex, action=EncapRed((_SEGMENT,))))


def _try_clsact(rtnl: Rtnl) -> None:
    qdisc.ensure_clsact(rtnl, _PORT.ifindex)
    _expect("clsact" in qdisc.qdisc_kinds(rtnl, _PORT.ifindex), "clsact reads back differently")


def _try_program(rtnl: Rtnl) -> None:
    program = load_smallest_program()
    try:
        qdisc.attach_program(rtnl, _PORT.ifindex, Direction.INGRESS, 1, program, "probe")
    finally:
        os.close(program)


def _try_tcx(rtnl: Rtnl) -> None:
    program = load_smallest_program()
    try:
        _expect(tcx.attach(rtnl.node, _PORT.ifindex, program), "this kernel does not know it")
    finally:
        os.close(program)


def _try_netem(rtnl: Rtnl) -> None:
    wanted = Netem(loss_u32=42_949_673, delay_ns=1_000_000)  # 1 %, 1 ms
    _expect(shaping.set_netem(rtnl, _PORT.ifindex, wanted) == wanted, "netem reads back differently")


def _try_tbf(rtnl: Rtnl) -> None:
    wanted = Tbf(1_250_000, 20_000, 1 << 20)  # 10 Mbit/s
    found = shaping.set_tbf(rtnl, _PEER.ifindex, wanted)
    _expect(found.bytes_per_s == wanted.bytes_per_s, "tbf reads back differently")


def _try_packet_socket(rtnl: Rtnl) -> None:
    del rtnl  # all probes have the same signature
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise TestbedError(otherwise)


_PROBES = (
    _Probe("veth", True, "every link", "enable CONFIG_VETH", _try_veth),
    _Probe(
        "SRv6 NEXT-CSID (uN)",
        True,
        "forwarding on leaves and spines",
        "needs kernel >= 6.1 with CONFIG_IPV6_SEG6_LWTUNNEL",
        _try_next_csid,
    ),
    _Probe("clsact", True, "every port of a switch: the place for eBPF", "enable CONFIG_NET_SCH_INGRESS", _try_clsact),
    _Probe("packet sockets", False, "agents and captures", "enable CONFIG_PACKET", _try_packet_socket),
    _Probe(
        "SRv6 End.DT6",
        False,
        "ordinary programs on hosts (host_stack)",
        "enable CONFIG_IPV6_SEG6_LWTUNNEL and CONFIG_IPV6_MULTIPLE_TABLES",
        _try_end_dt6,
    ),
    _Probe(
        "SRv6 encap.red",
        False,
        "ordinary programs on hosts (host_stack)",
        "needs kernel >= 6.0 with CONFIG_IPV6_SEG6_LWTUNNEL",
        _try_encap_red,
    ),
    _Probe(
        "eBPF on ports (cls_bpf)",
        False,
        "SprayCheck and faults by eBPF",
        "enable CONFIG_NET_CLS_BPF and CONFIG_BPF_SYSCALL",
        _try_program,
    ),
    _Probe("TCX", False, "counting with less work a packet than by clsact", "needs kernel >= 6.6", _try_tcx),
    _Probe(
        "netem",
        False,
        "faults by netem; without it they are made by eBPF",
        "enable CONFIG_NET_SCH_NETEM (Debian, Ubuntu: module sch_netem of the stock kernel)",
        _try_netem,
    ),
    _Probe(
        "tbf",
        False,
        "faults: slow links",
        "enable CONFIG_NET_SCH_TBF (Debian, Ubuntu: module sch_tbf of the stock kernel)",
        _try_tbf,
    ),
)
