"""State of a node in the kernel, sysctls included: applied from records, read back, and compared.

Knows one node's records at a time. `configure` acts and decides nothing; `differences` is pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from testbed.errors import KernelError
from testbed.kernel.netlink import dumps, requests
from testbed.kernel.netlink.rtnl import Request, Rtnl
from testbed.kernel.netns import inside
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    USUAL_RULES,
    Address,
    Clsact,
    Interface,
    Neighbour,
    NodeConfig,
    Route,
    Rule,
    Sysctl,
)

_PROC_SYS = Path("/proc/sys")


def write_sysctls(node: str, namespace: Path, sysctls: Sequence[Sysctl]) -> None:
    """Set `sysctls` inside a namespace. Raises KernelError that names the file."""
    with inside(namespace):
        for sysctl in sysctls:
            try:
                (_PROC_SYS / sysctl.path).write_text(sysctl.value)
            except OSError as error:
                raise KernelError(node, f"write {sysctl.value} to {sysctl.path}", error.errno or 0) from error


def read_sysctls(namespace: Path, paths: Sequence[str]) -> tuple[Sysctl, ...]:
    """Read the present values; a file that does not exist reads as an empty text."""
    with inside(namespace):
        return tuple(Sysctl(path, _read(_PROC_SYS / path)) for path in paths)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Kernel state of one node. `ready` are interface indexes that can send, `dead` routes that cannot."""

    sysctls: tuple[Sysctl, ...]
    interfaces: tuple[Interface, ...]
    ready: frozenset[int]
    clsacts: tuple[Clsact, ...]
    addresses: tuple[Address, ...]
    neighbours: tuple[Neighbour, ...]
    routes: tuple[Route, ...]
    dead: frozenset[Route]
    strange: frozenset[str] = frozenset()
    """Interfaces that are up and neither `lo` nor a veth end."""
    rules: frozenset[Rule] = USUAL_RULES


def configure(config: NodeConfig, namespace: Path) -> None:
    """Bring a node whose links exist into its planned state. Raises KernelError at the first refusal."""
    node = str(config.node)
    write_sysctls(node, namespace, config.forwarding)
    with Rtnl.inside(node, namespace) as rtnl:
        rtnl.apply(requests_of(config))


def requests_of(config: NodeConfig) -> list[Request]:
    """Return all netlink requests for a node whose links exist, in an order that the kernel accepts."""
    loopback = [requests.bring_up(LOOPBACK_IFINDEX, "lo")] if config.loopback_up else []
    return [
        *loopback,
        *map(requests.add_clsact, config.clsacts),
        *(requests.bring_up(interface.ifindex, interface.name) for interface in config.interfaces),
        *map(requests.add_address, config.addresses),
        *map(requests.add_neighbour, config.neighbours),
        *map(requests.add_route, config.routes),
    ]


def read_state(config: NodeConfig, namespace: Path) -> NodeState:
    """Read the kernel's state of everything in `config`. Raises KernelError."""
    sysctls = read_sysctls(namespace, [sysctl.path for sysctl in config.quiet + config.forwarding])
    with Rtnl.inside(str(config.node), namespace) as rtnl:
        interfaces, ready, strange = dumps.found_interfaces(rtnl)
        clsacts = dumps.found_clsacts(rtnl)
        routes, dead = dumps.found_routes(rtnl)
        rules = dumps.found_rules(rtnl)
        addresses, neighbours = dumps.found_addresses(rtnl), dumps.found_neighbours(rtnl)
    return NodeState(sysctls, interfaces, ready, clsacts, addresses, neighbours, routes, dead, strange, rules)


def differences(config: NodeConfig, state: NodeState, more_allowed: bool = False) -> tuple[str, ...]:
    """List, one line each, records that are missing or wrong and, unless allowed, unexpected ones."""
    node = str(config.node)
    pairs: tuple[tuple[Iterable[object], Iterable[object]], ...] = (
        (config.quiet + config.forwarding, state.sysctls),
        (config.interfaces, state.interfaces),
        (config.clsacts, state.clsacts),
        (config.addresses, state.addresses),
        (config.neighbours, state.neighbours),
        (config.routes, state.routes),
    )
    keyed = [(_by_key(wanted), _by_key(found)) for wanted, found in pairs]
    lines = [line for each in keyed for line in (*_lacking(*each), *(() if more_allowed else _unexpected(*each)))]
    return tuple(f"{node}: {line}" for line in lines)


def pending(config: NodeConfig, state: NodeState) -> tuple[str, ...]:
    """List, one line each, interfaces and routes that are right but cannot carry packets yet; they may soon."""
    interfaces = (interface for interface in config.interfaces if interface.ifindex not in state.ready)
    routes = (route for route in config.routes if route in state.dead)
    lines = [f"interface {interface.name}: is not up" for interface in interfaces]
    lines += [f"route {route.prefix}: its interface is not up" for route in routes]
    return tuple(f"{config.node}: {line}" for line in lines)


_KEYS: dict[type, tuple[str, ...]] = {
    Sysctl: ("path",),
    Interface: ("name",),
    Clsact: ("ifindex",),
    Address: ("ifindex", "address"),
    Neighbour: ("ifindex", "address"),
    Route: ("prefix", "table"),
}
"""Fields that identify a record of each kind; the rest of its fields may differ."""


def _by_key(records_: Iterable[object]) -> dict[str, object]:
    return {_key(record): record for record in records_}


def _key(record: object) -> str:
    names = _KEYS[type(record)]
    return " ".join((type(record).__name__.lower(), *(_text(name, getattr(record, name)) for name in names)))


def _text(name: str, value: object) -> str:
    return f"of interface {value}" if name == "ifindex" else f"in table {value}" if name == "table" else str(value)


def _lacking(wanted: Mapping[str, object], found: Mapping[str, object]) -> Iterable[str]:
    for key, record in wanted.items():
        if key not in found:
            yield f"{key}: wanted {_rest(record)}, found nothing"
        elif found[key] != record:
            yield f"{key}: wanted {_rest(record)}, found {_rest(found[key])}"


def _unexpected(wanted: Mapping[str, object], found: Mapping[str, object]) -> Iterable[str]:
    for key, record in found.items():
        if key not in wanted:
            yield f"{key}: not wanted, found {_rest(record)}"


def _rest(record: object) -> str:
    keys = _KEYS[type(record)]
    names = [field.name for field in fields(record) if field.name not in keys]  # type: ignore[arg-type]
    return " ".join(f"{name}={getattr(record, name)}" for name in names) or "it"
