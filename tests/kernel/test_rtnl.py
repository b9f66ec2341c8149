"""Records of one node into the kernel and back: equal, or told apart line by line."""

import errno
import os
import subprocess

import pytest

from testbed.errors import KernelError
from testbed.kernel.netlink import requests
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import create_namespaces, namespace_path
from testbed.kernel.node_state import configure, differences, pending, read_state, write_sysctls
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import USUAL_RULES, NodeConfig, Rule, cables_of, node_config
from testbed.model.node_names import NodeId, namespace_prefix
from tests.support.namespaces import needs_root, removed_lab, wait_until

pytestmark = [pytest.mark.root, needs_root]

FABRIC = Fabric.of(FabricSpec(planes=1, leaves=1, spines=2, hosts_per_leaf=2, host_stack=True))
LEAF, HOST = NodeId.leaf(0, 0), NodeId.host(0)


class Pair:
    """A leaf in one namespace and all its neighbours in another, as far as their interface indexes allow."""

    def __init__(self, lab: str) -> None:
        self.leaf, self.rest = (f"{namespace_prefix(lab)}{name}" for name in ("leaf", "rest"))

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", "-n", self.leaf, *words], check=True)

    def configure(self, config: NodeConfig) -> None:
        configure(config, namespace_path(self.leaf))

    def told(self, config: NodeConfig) -> tuple[str, ...]:
        return differences(config, read_state(config, namespace_path(self.leaf)))


@pytest.fixture
def pair():
    with removed_lab() as lab:
        made = Pair(lab)
        create_namespaces([made.leaf, made.rest])
        yield made


@pytest.fixture
def leaf(pair):
    """The namespace holds the leaf of FABRIC with one downlink and one uplink, configured."""
    config = shrunk(node_config(FABRIC, LEAF))
    write_sysctls("leaf", namespace_path(pair.leaf), config.quiet)
    cables = [cable for cable in cables_of(FABRIC, LEAF) if cable.near in config.interfaces]
    with open(namespace_path(pair.rest)) as far, Rtnl.inside("leaf", namespace_path(pair.leaf)) as rtnl:
        rtnl.apply(requests.create_cable(cable, far.fileno()) for cable in cables)
    with Rtnl.inside("rest", namespace_path(pair.rest)) as rtnl:
        rtnl.apply(requests.bring_up(cable.far.ifindex, cable.far.name) for cable in cables)
    pair.configure(config)
    return config


def shrunk(config: NodeConfig) -> NodeConfig:
    """Only ports whose other ends have names and indexes of their own in one namespace: h0 and spine0."""
    kept = {1, 400, 100}
    return NodeConfig(
        config.node,
        config.quiet,
        config.forwarding,
        tuple(i for i in config.interfaces if i.ifindex in kept),
        tuple(c for c in config.clsacts if c.ifindex in kept),
        config.loopback_up,
        config.addresses,
        tuple(n for n in config.neighbours if n.ifindex in kept),
        tuple(r for r in config.routes if r.ifindex in kept),
    )


def test_what_was_applied_is_read_back(pair, leaf):
    assert pair.told(leaf) == ()
    wait_until(lambda: not pending(leaf, read_state(leaf, namespace_path(pair.leaf))), "ports come up")
    assert len(leaf.routes) == 3


def test_a_hosts_routes_are_read_back_with_their_actions(pair):
    config = node_config(FABRIC, HOST)
    write_sysctls("h0", namespace_path(pair.leaf), config.quiet)
    pair.ip("link", "add", "plane0", "index", "100", "mtu", "9000", "address", config.interfaces[0].mac,
            "type", "veth", "peer", "name", "other", "index", "400")  # fmt: skip
    pair.ip("link", "set", "other", "up")
    pair.configure(config)
    told = [line for line in pair.told(config) if "interface other" not in line]
    assert told == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("link set spine0 mtu 8000", "interface spine0: wanted ifindex=100 mac=02:20:00:00:10:00 mtu=9000"),
        ("-6 neigh change fe80::10:ff:fe00:2000 lladdr 02:00:00:00:00:09 nud permanent dev spine0", "neighbour of"),
        ("-6 neigh del fe80::10:ff:fe00:2000 dev spine0", "neighbour of interface 100 fe80::10:ff:fe00:2000: wanted"),
        ("-6 route del 5f00:0:1000::/48 table local", "route 5f00:0:1000::/48 in table 255: wanted ifindex=100"),
        ("-6 route add 5f00:0:9999::/48 dev spine0", "route 5f00:0:9999::/48 in table 254: not wanted, found"),
        ("-6 addr add fd00::1/64 dev spine0 nodad", "address of interface 100 fd00::1: not wanted, found"),
    ],
    ids=["mtu", "neighbour changed", "neighbour gone", "route gone", "route added", "address added"],
)
def test_a_deliberate_mismatch_is_told(pair, leaf, change, line):
    pair.ip(*change.split())
    (told,) = pair.told(leaf)
    assert told.startswith(f"p0-leaf0: {line}")


def test_a_missing_place_for_programs_is_told(pair, leaf):
    subprocess.run(["tc", "-n", pair.leaf, "qdisc", "del", "dev", "spine0", "clsact"], check=True)
    assert pair.told(leaf) == ("p0-leaf0: clsact of interface 100: wanted it, found nothing",)


def test_an_end_without_its_flavor_is_told(pair, leaf):
    pair.ip("-6", "route", "del", "5f00:0:2000::/48", "table", "local")
    end = "-6 route add local 5f00:0:2000::/48 encap seg6local action End dev lo table local proto static"
    pair.ip(*end.split())
    (told,) = pair.told(leaf)
    assert "wanted ifindex=1 gateway=None action=EndNextCsid(block_bits=32, usid_bits=16)" in told
    assert told.endswith("action=UnknownAction(text='seg6local action 1 without flavors')")


def test_a_changed_sysctl_is_told(pair, leaf):
    forwarding = leaf.forwarding[0]
    write_sysctls("leaf", namespace_path(pair.leaf), [type(forwarding)(forwarding.path, "0")])
    assert pair.told(leaf) == ("p0-leaf0: sysctl net/ipv6/conf/all/forwarding: wanted value=1, found value=0",)


def test_a_port_without_its_other_end_is_pending(pair, leaf):
    subprocess.run(["ip", "-n", pair.rest, "link", "set", "leaf0", "down"], check=True)

    def told() -> tuple[str, ...]:
        return pending(leaf, read_state(leaf, namespace_path(pair.leaf)))

    wait_until(lambda: bool(told()), "the carrier is lost")
    assert "p0-leaf0: interface spine0: is not up" in told()


def test_every_refused_request_of_a_batch_is_told(pair, leaf):
    again = [requests.add_route(route) for route in leaf.routes]
    with Rtnl.inside("p0-leaf0", namespace_path(pair.leaf)) as rtnl:
        refused = rtnl.try_apply(again)
        assert [str(error) for error in refused] == [
            f"p0-leaf0: add route {route.prefix}: EEXIST: File exists" for route in leaf.routes
        ]
        with pytest.raises(KernelError) as first:
            rtnl.apply(again * 50)
    assert (first.value.node, first.value.errno) == ("p0-leaf0", errno.EEXIST)


def test_the_kernels_own_words_are_kept(pair, leaf):
    with Rtnl.inside("p0-leaf0", namespace_path(pair.leaf)) as rtnl:
        (refused,) = rtnl.try_apply([requests.add_clsact(leaf.clsacts[0])])
    assert refused.detail == "Exclusivity flag on, cannot modify"
    assert str(refused) == f"p0-leaf0: add clsact to port 400: EEXIST: File exists ({refused.detail})"


def test_sockets_live_where_they_were_opened(pair):
    before = os.readlink("/proc/thread-self/ns/net")
    with Rtnl.inside("leaf", namespace_path(pair.leaf)) as rtnl:
        assert os.readlink("/proc/thread-self/ns/net") == before
        rtnl.apply([requests.bring_up(1, "lo")])
    shown = subprocess.run(["ip", "-n", pair.leaf, "link", "show", "lo"], capture_output=True, check=True)
    assert b"UP" in shown.stdout


def test_rules_and_interfaces_that_somebody_added_are_read(pair, leaf):
    def found():
        state = read_state(leaf, namespace_path(pair.leaf))
        return state.strange, state.rules

    assert found() == (frozenset(), USUAL_RULES)
    pair.ip("-6", "rule", "add", "priority", "100", "table", "7")
    pair.ip("tuntap", "add", "dev", "tun9", "mode", "tun")
    assert found() == (frozenset(), USUAL_RULES | {Rule(100, 7, 1)}), "one that is down is not told"
    pair.ip("link", "set", "tun9", "up")
    assert found()[0] == {"tun9"}
