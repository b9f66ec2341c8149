"""A lab's life: built, verified, quiet, usable by Mininet and by ordinary programs, and gone without a trace."""

import io
import logging
import os
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import mininet.net
import mininet.node
import pytest
from mininet.log import lg

from testbed.emulation import network, nodes
from testbed.emulation.network import FabricNet
from testbed.emulation.nodes import Router
from testbed.emulation.outages import KernelOutages
from testbed.emulation.shell import FabricCLI
from testbed.emulation.topo import FabricTopo
from testbed.errors import KernelError, LabStateError, MissingFeatureError, NotOfferedError, ReadBackError
from testbed.kernel import features
from testbed.kernel.netns import (
    NETNS_DIR,
    create_namespaces,
    delete_all_namespaces,
    delete_namespaces,
    inside,
    namespaces,
)
from testbed.model.addressing import host_address
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, namespace_prefix
from tests.support.namespaces import Tap, built, fresh_lab, needs_root, removed_lab, wait_until

pytestmark = [pytest.mark.root, needs_root]

SMALL = FabricSpec(planes=2, leaves=4, spines=4)
TINY = FabricSpec(planes=1, leaves=2, spines=2)


@pytest.fixture
def lab():
    with removed_lab() as name:
        yield name


@pytest.fixture
def foreign():
    """A namespace with a veth pair inside that belongs to somebody else, under a name much like ours."""
    name = f"spraylabt-{fresh_lab()}"
    create_namespaces([name])
    subprocess.run(["ip", "-n", name, "link", "add", "foreign0", "type", "veth", "peer", "foreign1"], check=True)
    yield name
    delete_namespaces([name])


def ports_here() -> list[str]:
    return sorted(os.listdir("/sys/class/net"))


def home() -> str:
    return os.readlink("/proc/thread-self/ns/net")


def test_a_built_lab_is_verified_and_leaves_nothing(lab, foreign):
    links, namespace = ports_here(), home()
    with FabricNet.of(Fabric.of(SMALL), lab) as net:
        assert len(namespaces(namespace_prefix(lab))) == 4 + 2 * (4 + 4)
        assert list(net.timings_s) == ["check", "build", "start", "verify"]
        net.verify()
        assert home() == namespace
    assert namespaces(namespace_prefix(lab)) == ()
    assert (ports_here(), home()) == (links, namespace)
    with inside(NETNS_DIR / foreign):
        assert "foreign0" in Path("/proc/thread-self/net/dev").read_text()


def test_a_second_start_is_refused_and_touches_nothing(lab):
    with FabricNet.of(Fabric.of(TINY), lab) as net:
        with pytest.raises(LabStateError, match="already up") as refused:
            FabricNet.of(Fabric.of(TINY), lab).start()
        assert refused.value.namespaces == namespaces(namespace_prefix(lab))
        net.verify()


def test_stop_is_safe_before_start_and_twice(lab):
    net = FabricNet.of(Fabric.of(TINY), lab)
    net.stop()
    net.start()
    net.stop()
    net.stop()
    assert namespaces(namespace_prefix(lab)) == ()
    net.start()
    net.stop()


def test_two_labs_stand_side_by_side(lab):
    with built(TINY) as other, FabricNet.of(Fabric.of(TINY), lab):
        delete_all_namespaces(namespace_prefix(lab))
        other.verify()


def test_leftovers_are_removed_by_exact_prefix(lab, foreign):
    near = f"{namespace_prefix(lab)[:-1]}x-h0"  # the lab's name plus one letter
    create_namespaces([f"{namespace_prefix(lab)}h0", f"{namespace_prefix(lab)}p0-leaf0", near])
    try:
        assert delete_all_namespaces(namespace_prefix(lab)) == (
            f"{namespace_prefix(lab)}h0",
            f"{namespace_prefix(lab)}p0-leaf0",
        )
        assert delete_all_namespaces(namespace_prefix(lab)) == ()
        assert {near, foreign} <= set(os.listdir(NETNS_DIR))
    finally:
        delete_namespaces([near])


@pytest.mark.parametrize(
    ("module", "stage"),
    [(nodes, "create_namespaces"), (nodes, "write_sysctls"), (nodes, "configure"), (network, "read_state")],
)
def test_a_failing_stage_removes_what_was_made(lab, foreign, monkeypatch, module, stage):
    before, namespace = sorted(os.listdir(NETNS_DIR)), home()
    original, calls = getattr(module, stage), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KernelError("p0-leaf0", "do the third thing", 12)
        return original(*arguments)

    monkeypatch.setattr(module, stage, failing)
    with pytest.raises(KernelError, match="p0-leaf0: do the third thing: ENOMEM"):
        FabricNet.of(Fabric.of(TINY), lab).start()
    assert sorted(os.listdir(NETNS_DIR)) == before
    assert home() == namespace


def test_an_interrupt_inside_a_stage_removes_what_was_made(lab, monkeypatch):
    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(nodes, "configure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FabricNet.of(Fabric.of(TINY), lab).start()
    assert namespaces(namespace_prefix(lab)) == ()


def test_a_changed_route_is_told_by_verify(lab):
    with FabricNet.of(Fabric.of(TINY), lab) as net:
        spine = net.netns_name(NodeId.spine(0, 1))
        change = ["ip", "-n", spine, "-6", "route", "del", "5f00:0:2000::/48", "table", "local"]
        subprocess.run(change, check=True)
        with pytest.raises(ReadBackError) as told:
            net.verify()
        (line,) = told.value.differences
        assert line.startswith("p0-spine1: route 5f00:0:2000::/48 in table 255: wanted")
        assert line.endswith("found nothing")


def test_a_kernel_without_next_csid_is_told_by_option(lab, monkeypatch):
    def refuse(_rtnl):
        raise KernelError("probe", "add route", 95)

    probes = [
        p if "CSID" not in p.name else features._Probe(p.name, True, p.use, p.advice, refuse) for p in features._PROBES
    ]
    monkeypatch.setattr(features, "_PROBES", tuple(probes))
    with pytest.raises(MissingFeatureError, match=r"kernel >= 6\.1 with CONFIG_IPV6_SEG6_LWTUNNEL"):
        FabricNet.of(Fabric.of(TINY), lab).start()
    assert namespaces(namespace_prefix(lab)) == ()


@pytest.mark.parametrize("host_stack", [False, True])
def test_a_fresh_fabric_is_silent(lab, monkeypatch, host_stack):
    """No MLD, ND, RA or anything else, from before the links exist until well after they are up."""
    taps = []
    write = nodes.write_sysctls

    def write_and_listen(node, path, sysctls):
        opened = Tap.open(path)
        taps.append((node, opened, opened.__enter__()))
        write(node, path, sysctls)

    monkeypatch.setattr(nodes, "write_sysctls", write_and_listen)
    fabric = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, host_stack=host_stack))
    with FabricNet.of(fabric, lab) as net:
        time.sleep(2.5)  # MLD repeats and router solicitations would come within this time; nothing to poll for
        seen = [(node, packet.ifindex, packet.frame.hex()) for node, _, tap in taps for packet in tap.drain()]
        assert heard_when_something_is_sent(net, {node: tap for node, _, tap in taps})
    for _, opened, _ in taps:
        opened.__exit__(None, None, None)
    assert len(taps) == len(fabric.nodes())
    assert seen == []


def heard_when_something_is_sent(net: FabricNet, taps: dict[str, Tap]) -> bool:
    """Whether the taps hear a broadcast of a local experimental EtherType at both ends of a link."""
    with Tap.open(net.netns_path(NodeId.host(0))) as sender:
        sender.send(b"\xff" * 6 + bytes(6) + b"\x88\xb5" + bytes(46), "plane1")
    return all(any(b"\x88\xb5" in packet.frame for packet in taps[name].drain()) for name in ("h0", "p1-leaf0"))


def test_ordinary_programs_reach_every_host(lab):
    fabric = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, hosts_per_leaf=2, host_stack=True))
    with FabricNet.of(fabric, lab) as net:
        for target in (1, 2, 3):
            assert echoed(net, 0, target, b"x" * 20_000) == b"x" * 20_000


def echoed(net: FabricNet, source: int, target: int, text: bytes) -> bytes:
    """Send `text` over TCP between two hosts and return what the receiver got."""
    place = (str(host_address(target)), 7777)
    with ExitStack() as stack:
        with inside(net.netns_path(NodeId.host(target))):
            listener = stack.enter_context(socket.create_server(place, family=socket.AF_INET6))
        with inside(net.netns_path(NodeId.host(source))):
            client = stack.enter_context(socket.create_connection(place, timeout=5))
        accepted, (peer, *_) = listener.accept()
        stack.enter_context(accepted)
        assert peer == str(host_address(source))
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: accepted.recv(65536), b""))


@pytest.fixture
def printed():
    """What Mininet prints, which goes through its own logger."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    lg.addHandler(handler)
    yield text
    lg.removeHandler(handler)


def test_mininet_finds_the_nodes_and_starts_shells_when_needed(lab, tmp_path, printed):
    with FabricNet.of(Fabric.of(FabricSpec(planes=1, leaves=2, spines=2, host_stack=True)), lab) as net:
        assert sorted(net) == sorted(map(str, net.fabric.nodes()))
        assert not any(node.shell for node in net.values())
        leaf = net["p0-leaf0"]
        assert "5f00:0:1001::/48" in leaf.cmd("ip -6 route show table local")
        assert leaf.popen("ip -o link show spine1").communicate()[0].startswith(b"101: spine1")
        assert leaf.pexec("cat /proc/sys/net/ipv6/conf/all/forwarding")[0] == "1\n"
        assert [node for node in net.values() if node.shell] == [leaf]
        assert net.linksBetween(leaf, net["p0-spine1"])
        script = tmp_path / "commands"
        script.write_text("nodes\nnet\np0-spine1 ip -o link show leaf0\nh0 echo to h1\n")
        with ExitStack() as stack:
            nobody_types, silent_end = (stack.enter_context(os.fdopen(end)) for end in os.pipe())
            FabricCLI(net, stdin=nobody_types, script=str(script))
            del silent_end
        shell = leaf.shell
    text = printed.getvalue()
    assert "700: leaf0@" in text
    assert "to fd5f::1" in text
    wait_until(lambda: shell.poll() is not None, "the shell ends with the lab")
    assert namespaces(namespace_prefix(lab)) == ()


def test_an_adopted_network_is_left_alone(lab):
    with FabricNet.of(Fabric.of(TINY), lab) as net:
        view = FabricNet.adopt(net.fabric, lab, KernelOutages(net.fabric, lab))
        assert "spine1" in view["p0-leaf0"].cmd("ip -br link")
        view.stop()
        net.verify()


def test_a_link_cut_and_a_switch_stopped_come_back_with_all_their_routes(lab):
    with FabricNet(FabricTopo(planes=2, leaves=2, spines=2, host_stack=True), lab) as net:
        leaf, cable = net["p0-leaf0"], net.linksBetween(net["p0-leaf0"], net["p0-spine1"])[0]
        net.configLinkStatus("p0-spine1", "p0-leaf0", "down")
        assert (str(cable), cable.status()) == ("p0:leaf0-spine1", "(DOWN DOWN)")
        assert "5f00:0:1001::" not in leaf.cmd("ip -6 route show table local")
        leaf.intf("spine0").ifconfig("down")
        assert leaf.intf("spine0").status() == "DOWN"
        assert net["p0-spine0"].intf("leaf0").status() == "OK", "one end only"
        leaf.intf("spine0").ifconfig("up")
        leaf.stop()
        assert [port.status() for port in leaf.intfList()] == ["DOWN"] * 3
        leaf.start([])
        assert [port.status() for port in leaf.intfList()] == ["OK", "DOWN", "OK"], "the link is still cut"
        with pytest.raises(ReadBackError):
            net.verify()
        net.configLinkStatus("p0-leaf0", "p0-spine1", "up")
        net.verify()


class OwnLeaf(Router):
    """What a user of Mininet would write."""

    def start(self, controllers):
        super().start(controllers)
        self.cmd("ip -6 route add 2001:db8::/32 dev spine0")


def test_a_leaf_of_ones_own_and_plain_hosts_beside_the_fabric(lab):
    topo = FabricTopo(planes=1, leaves=2, spines=2)
    topo.nodeInfo("p0-leaf0")["cls"] = OwnLeaf
    topo.addLink(topo.addHost("x1", ip="10.9.0.1/24"), "p0-leaf1", intfName2="outside", params2={"ip": "10.9.0.2/24"})
    with FabricNet(topo, lab) as net:
        plain, later = net["x1"], net.addHost("x2")
        net.addLink(later, "p0-leaf1", params1={"ip": "10.8.0.1/24"}, params2={"ip": "10.8.0.2/24"})
        assert {type(each) for each in (plain, later)} == {mininet.node.Host}
        assert "2001:db8::/32" in net["p0-leaf0"].cmd("ip -6 route")
        assert "1 received" in plain.cmd("ping -c1 -W2 10.9.0.2")
        assert "1 received" in later.cmd("ping -c1 -W2 10.8.0.2")
        assert net["p0-leaf1"].intfNames() == ["eth0", "outside", "spine0", "spine1", "h1"]
        net.verify()
        shells = [plain.shell, later.shell]
    assert all(shell.poll() is not None for shell in shells)
    assert namespaces(namespace_prefix(lab)) == ()


def test_pingall_and_iperf_without_addresses_say_what_to_do(lab):
    with FabricNet.of(Fabric.of(TINY), lab) as net:
        for act in (net.pingAll, net.pingPairFull, net.iperf):
            with pytest.raises(NotOfferedError, match="host_stack=True"):
                act()


def test_mininets_limits_and_cleanup_are_left_alone(lab, monkeypatch):
    def refuse(*arguments, **_):
        raise AssertionError(f"Mininet touched the system: {arguments}")

    monkeypatch.setattr(mininet.net, "fixLimits", refuse)
    monkeypatch.setattr(mininet.net, "cleanUpScreens", refuse)
    with FabricNet.of(Fabric.of(TINY), lab) as net:
        net.terms = [net["h0"].popen("sleep 100")]
        assert mininet.net.Mininet.inited is False, "for plain networks of the same program Mininet may still do so"


@pytest.mark.parametrize("planes", [2, 4])
def test_build_time_is_told(lab, planes, capsys):
    net = FabricNet.of(Fabric.of(FabricSpec(planes=planes)), lab)
    with net:
        build = dict(net.timings_s)
    with capsys.disabled():
        stages = ", ".join(f"{name} {seconds:.3f}" for name, seconds in {**build, **net.timings_s}.items())
        print(f"\n8x8x{planes}: built and verified in {sum(build.values()):.3f} s ({stages})")
    assert sum(build.values()) < 60  # an emulated processor takes ten; here the figure is printed, not judged
