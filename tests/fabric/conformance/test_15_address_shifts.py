"""The destination address behind each switch is the one before, shifted left by one uSID, on every path."""

from collections import defaultdict
from ipaddress import IPv6Address

import pytest

from agent.wire.dtypes import BASE_FRAME, BTH_OFFSET, offset_of
from testbed.model.node_names import NodeId, PortId
from tests.fabric.conformance.conftest import PLANES, SOURCE, SPINES, TARGET, Agents
from tests.support.namespaces import needs_root

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

DESTINATION = slice(offset_of(BASE_FRAME, "outer", "dst"), offset_of(BASE_FRAME, "outer", "dst") + 16)
SOURCE_PORT = slice(BTH_OFFSET - 8, BTH_OFFSET - 6)
LABEL = slice(offset_of(BASE_FRAME, "inner", "class_word") + 2, offset_of(BASE_FRAME, "inner", "class_word") + 4)
IS_WRITE = range(0xC6, 0xCC)

BLOCK_MASK = 0xFFFFFFFF << 96


def shifted(address: IPv6Address) -> IPv6Address:
    """Behind the 32-bit block all uSIDs move up by 16 bits."""
    return IPv6Address(int(address) & BLOCK_MASK | (int(address) << 16) & ~BLOCK_MASK & (1 << 128) - 1)


def ports_along(plane: int, spine: int, near: int, far: int, host: int, target: int) -> list[PortId]:
    """Where a packet comes in, node by node."""
    one, top, two = NodeId.leaf(plane, near), NodeId.spine(plane, spine), NodeId.leaf(plane, far)
    hops = [(one, NodeId.host(host)), (top, one), (two, top), (NodeId.host(target), two)]
    return [PortId(node, came_from, plane) for node, came_from in hops]


@pytest.fixture(scope="module")
def seen(agents: Agents) -> dict[bytes, dict[PortId, set[IPv6Address]]]:
    """Addresses of the writes at each port, by EV (source port and flow label)."""
    agents.arrivals()
    row = agents.write(4 * PLANES * SPINES)
    assert row["packets_rtx"] == 0
    found: dict[bytes, dict[PortId, set[IPv6Address]]] = defaultdict(lambda: defaultdict(set))
    for arrival in agents.arrivals():
        if arrival.frame[BTH_OFFSET] in IS_WRITE:
            ev = arrival.frame[SOURCE_PORT] + arrival.frame[LABEL]
            found[ev][arrival.port].add(IPv6Address(arrival.frame[DESTINATION]))
    return found


def test_every_ev_has_one_address_a_hop_and_each_is_the_shift_of_the_last(agents: Agents, seen: dict) -> None:
    assert len(seen) == PLANES * SPINES
    for plane in range(PLANES):
        for spine in range(SPINES):
            address = IPv6Address(f"5f00:0:2{plane}00:1{plane}{spine:02x}:2{plane}01:e{plane}01::")
            expected = {}
            for port in ports_along(plane, spine, 0, 1, SOURCE, TARGET):
                expected[port] = {address}
                address = shifted(address)
            assert address == IPv6Address("5f00::")
            assert [places == expected for places in seen.values()].count(True) == 1, (plane, spine)


def test_the_address_leaves_the_ev_and_the_inner_address_alone(agents: Agents, seen: dict) -> None:
    """Each EV was seen at the four ports of one path, and nowhere else."""
    assert {len(places) for places in seen.values()} == {4}
