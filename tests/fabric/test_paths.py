"""Every path of a host pair carries a packet over exactly its links, with one left shift of the address a switch."""

from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from testbed.emulation.network import FabricNet
from testbed.model.addressing import Path, ifindex_of, paths_of
from testbed.model.fabric import FabricSpec
from testbed.model.node_names import NodeId, PortId
from tests.support.namespaces import Tap, built, counters, needs_root, wait_until
from tests.support.probe_frames import INNER_TEXT, frame_for

pytestmark = [pytest.mark.root, needs_root]

PACKETS = 3


@dataclass(frozen=True)
class Watched:
    """A running lab with a tap in every node, which sees all of the node's ports."""

    net: FabricNet
    taps: dict[NodeId, Tap]

    def arrived(self) -> dict[PortId, list[bytes]]:
        """Outer destinations of our packets at each port they came in by, since the last call."""
        ports = {
            (node, ifindex_of(self.net.fabric, port)): port
            for node in self.taps
            for port in self.net.fabric.ports_of(node)
        }
        found: dict[PortId, list[bytes]] = {}
        for node, tap in self.taps.items():
            for packet in tap.drain():
                if not packet.outgoing and INNER_TEXT in packet.frame:
                    found.setdefault(ports[node, packet.ifindex], []).append(packet.outer_destination)
        return found


@pytest.fixture(scope="module")
def watched():
    with ExitStack() as stack:
        net = stack.enter_context(built(FabricSpec(planes=2, leaves=4, spines=4, hosts_per_leaf=2)))
        nodes = net.fabric.nodes()
        yield Watched(net, {node: stack.enter_context(Tap.open(net.netns_path(node))) for node in nodes})


@pytest.mark.parametrize(("source", "target"), [(0, 7), (7, 0), (3, 4), (2, 3)], ids=lambda host: f"h{host}")
def test_every_path_is_the_one_it_says(watched, source, target):
    fabric = watched.net.fabric
    paths = paths_of(fabric, source, target)
    assert len(paths) == (2 if fabric.leaf_of(source) == fabric.leaf_of(target) else 8)
    for path in paths:
        assert_carries(watched, path, source, target)


def assert_carries(watched: Watched, path: Path, source: int, target: int) -> None:
    """By captured addresses at every port of the fabric, and by every interface's counters."""
    before = all_counters(watched.net)
    seen = sent_and_seen(watched, path, frame_for(watched.net, path, source, target))
    after = all_counters(watched.net)
    places = zip(path.links, path.destinations, strict=True)
    assert seen == {link.ingress: [address.packed] * PACKETS for link, address in places}, path
    crossed = {key: tuple(b - a for a, b in zip(before[key], after[key], strict=True)) for key in after}
    assert {key: delta for key, delta in crossed.items() if any(delta)} == expected_counts(path)


def sent_and_seen(watched: Watched, path: Path, frame: bytes) -> dict[PortId, list[bytes]]:
    first, last = path.links[0].egress, path.links[-1].ingress
    seen: dict[PortId, list[bytes]] = {}

    def all_arrived() -> bool:
        for port, destinations in watched.arrived().items():
            seen.setdefault(port, []).extend(destinations)
        return len(seen.get(last, [])) >= PACKETS

    for _ in range(PACKETS):
        watched.taps[first.node].send(frame, first.interface)
    wait_until(all_arrived, f"{PACKETS} packets over {path}")
    return seen


def all_counters(net: FabricNet) -> dict[tuple[NodeId, str], tuple[int, int]]:
    nodes = net.fabric.nodes()
    return {(node, name): c for node in nodes for name, c in counters(net.netns_path(node)).items()}


def expected_counts(path: Path) -> dict[tuple[NodeId, str], tuple[int, int]]:
    sent = {(link.sender, link.egress.interface): (0, PACKETS) for link in path.links}
    received = {(link.receiver, link.ingress.interface): (PACKETS, 0) for link in path.links}
    return sent | received
