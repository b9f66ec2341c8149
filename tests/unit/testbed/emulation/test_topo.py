"""Mininet's view of a fabric: the same graph, and objects that make nothing."""

import mininet.net
import mininet.node
import pytest

from testbed.emulation.network import FabricNet
from testbed.emulation.outages import KernelOutages
from testbed.emulation.topo import FabricTopo
from testbed.errors import FabricError
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=3, spines=2, hosts_per_leaf=2))


def test_the_graph_is_the_fabrics():
    topo = FabricTopo.of(FABRIC)
    assert sorted(topo.hosts()) == [f"h{h}" for h in range(6)]
    assert sorted(topo.switches()) == sorted(map(str, FABRIC.leaves() + FABRIC.spines()))
    assert len(topo.links()) == len(FABRIC.links())


def test_plain_arguments_as_of_a_fabric():
    assert FabricTopo(planes=2, leaves=4, spines=4).fabric.spec == FabricSpec(2, 4, 4)
    assert FabricTopo(2, 4, 4, host_stack=True).nodeInfo("h3")["ip"] == "fd5f::3"


def test_counts_that_cannot_be_are_told_at_once():
    with pytest.raises(FabricError, match="planes: 'two' is not a whole number") as told:
        FabricTopo(planes="two", spines=1.5)
    assert "spines: 1.5 is not a whole number" in str(told.value)


def test_ports_carry_the_kernels_names_and_addresses():
    info = FabricTopo.of(FABRIC).linkInfo("p1-leaf2", "p1-spine1")
    assert (info["intfName1"], info["intfName2"]) == ("spine1", "leaf2")
    assert (info["port1"], info["port2"]) == (101, 702)
    assert (info["addr1"], info["addr2"]) == ("02:21:00:02:10:01", "02:11:00:01:20:02")


@pytest.fixture
def untouched_system(monkeypatch):
    def refuse(*arguments, **_):
        raise AssertionError(f"Mininet touched the system: {arguments}")

    for name in ("fixLimits", "ensureRoot"):
        monkeypatch.setattr(mininet.net, name, refuse)
    monkeypatch.setattr(mininet.node, "Popen", refuse)


@pytest.mark.usefixtures("untouched_system")
def test_mininets_objects_are_made_without_touching_the_system():
    net = FabricNet.adopt(FABRIC, "t1", KernelOutages(FABRIC, "t1"))
    assert sorted(net) == sorted(map(str, FABRIC.nodes()))
    assert len(net.links) == len(FABRIC.links())
    assert [str(port) for port in net["p0-leaf0"].intfList()] == ["spine0", "spine1", "h0", "h1"]
    assert net["p0-spine1"].intf("leaf2").MAC() == "02:10:00:01:20:02"
    assert net["h0"].IP() is None
    net.stop()
