"""Comparison of one node's plan with the kernel's state: differences in words for people. Pure.

What a lab itself puts on ports after it was built, faults and counters, is passed as `Placed` and is no difference.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from testbed.model.fabric import Fabric
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    USUAL_RULES,
    Difference,
    Interface,
    Neighbour,
    NodeConfig,
    Placed,
    Route,
)
from testbed.model.node_names import DirectedLink, NodeId, PortId

if TYPE_CHECKING:  # both load pyroute2, which readers of differences do not need
    from testbed.kernel.node_state import NodeState
    from testbed.kernel.ports.port_state import FoundPort

NONE = "none"


def compare(
    fabric: Fabric,
    config: NodeConfig,
    state: "NodeState",
    ports: "Iterable[FoundPort]",
    placed: Mapping[int, Placed],
) -> tuple[Difference, ...]:
    """List the differences of one node; `placed` by interface index.

    A difference that follows from another one is left out.
    """
    return tuple(_Node(fabric, config, state, {port.ifindex: port for port in ports}, placed).differences())


def gone(fabric: Fabric, node: NodeId) -> Difference:
    """Describe a node whose namespace does not exist."""
    links = tuple(str(way) for port in fabric.ports_of(node) for way in _both(port))
    return Difference(str(node), "", "node", "there", "gone", "is gone: it has no namespace", links)


@dataclass(frozen=True, slots=True)
class _Node:
    fabric: Fabric
    config: NodeConfig
    state: "NodeState"
    ports: "Mapping[int, FoundPort]"
    placed: Mapping[int, Placed]

    def differences(self) -> Iterator[Difference]:
        ids = {port.interface: port for port in self.fabric.ports_of(self.config.node)}
        yield from self._settings()
        without_routes = {index for index, each in self.placed.items() if each.shut}
        for interface in self.config.interfaces:
            found = [*self._port(ids[interface.name], interface)]
            if any(each.what in ("port", "state") for each in found):
                without_routes.add(interface.ifindex)
            elif interface.ifindex not in without_routes and (lost := self._lost_all(ids[interface.name], interface)):
                without_routes.add(interface.ifindex)
                found.append(lost)
            yield from found
        yield from self._unplanned_ports()
        yield from self._rules()
        yield from self._routes(without_routes)
        yield from self._neighbours(without_routes)
        yield from self._addresses()

    def _settings(self) -> Iterator[Difference]:
        found = {each.path: each.value for each in self.state.sysctls}
        for path, value in {each.path: each.value for each in self.config.quiet + self.config.forwarding}.items():
            if found.get(path) != value:
                name = path.replace("/", ".")
                yield self._whole(
                    "setting", value, found.get(path, NONE), f"has {name} = {{found}}, planned {{planned}}"
                )

    def _port(self, port: PortId, interface: Interface) -> Iterator[Difference]:
        told = {each.ifindex: each for each in self.state.interfaces}
        have, there = told.get(interface.ifindex), self.ports.get(interface.ifindex)
        if have is None or there is None:
            yield self._at(port, "port", "there", "gone", "is gone")
            return
        put = self.placed.get(interface.ifindex, Placed())
        if not there.up and not put.shut:
            yield self._at(port, "state", "up", "down", "is down, planned up: its routes and neighbours are away too")
        if have.mtu != interface.mtu:
            yield self._at(port, "mtu", str(interface.mtu), str(have.mtu), "has MTU {found}, planned {planned}")
        if have != replace(interface, mtu=have.mtu):
            planned, found = (f"{each.name} {each.mac}" for each in (interface, have))
            yield self._at(port, "address", planned, found, "is {found}, planned {planned}")
        yield from self._queues(port, there, put)
        yield from self._programs(port, there, put)

    def _queues(self, port: PortId, there: "FoundPort", put: Placed) -> Iterator[Difference]:
        if there.root != put.root:
            planned, found = put.root or NONE, there.root or NONE
            yield self._at(port, "queue", planned, found, "has queue {found}, planned {planned}", outward=True)
        planned_clsact = bool(put.programs) or any(each.ifindex == there.ifindex for each in self.config.clsacts)
        if there.clsact and not planned_clsact:
            yield self._at(port, "queue", NONE, "clsact", "has a clsact, planned none", outward=True)
        if planned_clsact and not there.clsact and not put.programs:
            yield self._at(port, "queue", "clsact", NONE, "has lost its clsact")

    def _programs(self, port: PortId, there: "FoundPort", put: Placed) -> Iterator[Difference]:
        for each in sorted(there.programs, key=str):
            if each.id not in put.programs:
                words = f"has {each}, which the lab did not put there"
                yield self._at(port, "program", NONE, str(each), words)
        if missing := put.programs - {each.id for each in there.programs}:
            names = ", ".join(map(str, sorted(missing)))
            yield self._at(port, "program", names, NONE, "has lost eBPF program {planned} of the lab")
        if there.xdp:
            yield self._at(port, "program", NONE, "XDP", "has an XDP program, which the lab did not put there")

    def _lost_all(self, port: PortId, interface: Interface) -> Difference | None:
        """Describe a port that is up but has lost all its routes: shutting it and opening it again does that."""
        routes, neighbours = (
            self._through(self.config.routes, interface),
            self._through(self.config.neighbours, interface),
        )
        if not routes or not neighbours or {*routes, *neighbours} & {*self.state.routes, *self.state.neighbours}:
            return None
        words = "is up without its routes and neighbours, as if it had been taken down and up"
        return self._at(port, "route", f"{len(routes)} by it", NONE, words, outward=True)

    @staticmethod
    def _through(records: Collection[Route] | Collection[Neighbour], interface: Interface) -> list[Route | Neighbour]:
        return [each for each in records if each.ifindex == interface.ifindex]

    def _unplanned_ports(self) -> Iterator[Difference]:
        planned = {each.ifindex for each in self.config.interfaces}
        for each in self.state.interfaces:
            if each.ifindex not in planned:
                yield self._whole("port", NONE, each.name, "has a port {found} that is not planned")
        for name in sorted(self.state.strange):
            yield self._whole("port", NONE, name, "has an interface {found} that is not planned")

    def _rules(self) -> Iterator[Difference]:
        for rule in sorted(self.state.rules - USUAL_RULES):
            yield self._whole("rule", NONE, str(rule), "has a routing rule ({found}) that is not planned")
        for rule in sorted(USUAL_RULES - self.state.rules):
            yield self._whole("rule", str(rule), NONE, "has lost its routing rule ({planned})")

    def _routes(self, away: Collection[int]) -> Iterator[Difference]:
        planned = {(each.prefix, each.table): each for each in self.config.routes}
        for route in self.config.routes:
            if route not in self.state.routes and route.ifindex not in away:
                yield self._along(route, str(route.prefix), NONE, f"lacks its route to {route.prefix}")
        for found in self.state.routes:
            meant = planned.get((found.prefix, found.table))
            if found not in planned.values():
                words = f"has a route to {found.prefix} that is not planned"
                yield self._along(meant or found, NONE, str(found.prefix), words)

    def _along(self, route: Route, planned: str, found: str, words: str) -> Difference:
        port = self._port_of(route.ifindex)
        if port is None:
            return self._whole("route", planned, found, words)
        return self._at(port, "route", planned, found, words, outward=True)

    def _neighbours(self, away: Collection[int]) -> Iterator[Difference]:
        found = {(each.ifindex, each.address): each for each in self.state.neighbours}
        planned = {(each.ifindex, each.address): each for each in self.config.neighbours}
        for key, neighbour in planned.items():
            if found.get(key) != neighbour and neighbour.ifindex not in away:
                has = found[key].mac if key in found else NONE
                words = f"has neighbour {neighbour.address} at {{found}}, planned at {{planned}}"
                yield self._near(neighbour, neighbour.mac, has, words)
        for key, neighbour in found.items():
            if key not in planned:
                words = f"has a neighbour {neighbour.address} that is not planned"
                yield self._near(neighbour, NONE, neighbour.mac, words)

    def _near(self, neighbour: Neighbour, planned: str, found: str, words: str) -> Difference:
        port = self._port_of(neighbour.ifindex)
        if port is None:
            return self._whole("neighbour", planned, found, words)
        return self._at(port, "neighbour", planned, found, words, outward=True)

    def _addresses(self) -> Iterator[Difference]:
        for each in self.config.addresses:
            if each not in self.state.addresses:
                yield self._whole("address", str(each.address), NONE, "has lost its address {planned}")
        for each in self.state.addresses:
            if each not in self.config.addresses:
                yield self._whole("address", NONE, str(each.address), "has an address {found} that is not planned")

    def _port_of(self, ifindex: int) -> PortId | None:
        if ifindex == LOOPBACK_IFINDEX:
            return None
        names = {each.ifindex: each.name for each in self.config.interfaces}
        ports = self.fabric.ports_of(self.config.node)
        return next((port for port in ports if port.interface == names.get(ifindex)), None)

    def _at(self, port: PortId, what: str, planned: str, found: str, words: str, outward: bool = False) -> Difference:
        ways = _both(port)[:1] if outward else _both(port)
        told = words.replace("{found}", found).replace("{planned}", planned)
        return Difference(str(port.node), port.interface, what, planned, found, told, tuple(map(str, ways)))

    def _whole(self, what: str, planned: str, found: str, words: str) -> Difference:
        node = self.config.node
        links = tuple(str(way) for port in self.fabric.ports_of(node) for way in _both(port))
        told = words.replace("{found}", found).replace("{planned}", planned)
        return Difference(str(node), "", what, planned, found, told, links)


def _both(port: PortId) -> tuple[DirectedLink, DirectedLink]:
    """Return the direction that leaves by a port, and the one that arrives at it."""
    way = DirectedLink(port.plane, port.node, port.peer)
    return way, way.reverse
