"""What a lab's owner tells of its size is enough to name everything in it."""

from dataclasses import asdict

from scenarios.lab.processes import ProcessId
from scenarios.lab.shape import LabShape
from testbed.model.fabric import Fabric, FabricSpec


def test_the_fabric_is_the_one_that_was_built() -> None:
    spec = FabricSpec(planes=2, leaves=3, spines=4, hosts_per_leaf=2, mtu=4000, host_stack=True)
    shape = LabShape(lab="red", owner=ProcessId(1, 1), started="", workers=2, scapy_hosts=(), **asdict(spec))
    assert shape.fabric() == Fabric.of(spec)
    assert shape.fabric() != Fabric.of(FabricSpec(2, 3, 4, 2))
