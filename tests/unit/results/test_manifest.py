"""What a run ran on."""

import platform

import msgspec

from results.records.manifest import Manifest, Repeating, manifest, topology_document
from testbed.model.addressing import ifindex_of, mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, PortId


def test_manifest_tells_kernel_versions_and_command() -> None:
    told = manifest("2026-03-04T05:06:07Z", ["spraylab", "run", "gray-link"], "gray-link", 1, Repeating(("a",), ("b",)))
    assert told.kernel == platform.release()
    assert told.command == ("spraylab", "run", "gray-link")
    assert told.packages["numpy"][0].isdigit()
    assert told.cpus >= told.cpus_usable >= 1
    assert "unknown" not in (told.distribution, told.python)
    assert (told.repeats_with_seed, told.varies) == (("a",), ("b",))
    assert msgspec.json.decode(msgspec.json.encode(told), type=Manifest) == told
    assert told.attached is False


FABRIC = Fabric.of(FabricSpec(planes=2, leaves=3, spines=2, hosts_per_leaf=2))
UP = PortId(NodeId.leaf(1, 2), NodeId.spine(1, 0), 1)
DOWN = PortId(NodeId.spine(1, 0), NodeId.leaf(1, 2), 1)


def end(node: str, interface: str, port: PortId) -> dict[str, object]:
    return {"node": node, "interface": interface, "ifindex": ifindex_of(FABRIC, port), "mac": mac_of(FABRIC, port)}


def test_every_node_and_link_once_with_both_ends() -> None:
    document = topology_document(FABRIC, "x")
    assert len(document["nodes"]) == 6 + 2 * (3 + 2)
    assert len(document["links"]) == 2 * (3 * 2 + 3 * 2)
    link = next(each for each in document["links"] if each["name"] == "p1:leaf2-spine0")
    assert link == {
        "name": "p1:leaf2-spine0",
        "plane": 1,
        "ends": [
            {"node": "p1-leaf2", "interface": "spine0", "ifindex": ifindex_of(FABRIC, UP), "mac": mac_of(FABRIC, UP)},
            {
                "node": "p1-spine0",
                "interface": "leaf2",
                "ifindex": ifindex_of(FABRIC, DOWN),
                "mac": mac_of(FABRIC, DOWN),
            },
        ],
    }
    names = {node["name"]: node for node in document["nodes"]}
    assert names["h3"] == {
        "name": "h3", "role": "host", "namespace": "spraylab-x-h3", "address": "fd5f::3", "leaf": 1, "slot": 1,
    }  # fmt: skip
    assert names["p1-leaf2"]["usid"] == "2102"
