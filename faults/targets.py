"""Resolves a target's name to directions: links, nodes, ports, planes, groups, seeded random choice.

Pure: the result is shown before anything is applied. Only `testbed.model.node_names` reads names of links and nodes.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from faults.errors import TargetError, WordingError
from faults.kinds import Fault, On
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import known_nodes, parse_link, parse_node
from testbed.model.node_names import DirectedLink, LinkId, NodeId, Role, those_there_are

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

_PLANE = re.compile(r"(?:p|plane )([0-9]+)")
_ANY = r"(?:[0-9*?]|\[[0-9-]+\])"
"""Pattern of a digit, or of a wildcard for some: `*`, `?`, `[0-3]`."""
_PORT = re.compile(rf"(?P<node>(?:p{_ANY}+-(?:leaf|spine)|h){_ANY}+):(?P<interface>(?:plane|spine|leaf|h){_ANY}+)")
_NODE = re.compile(rf"(?:p{_ANY}+-)?(?:leaf|spine|h){_ANY}*")
_WILD = re.compile(r"[*?\[]")
_CHOICE = re.compile(
    r"(?P<count>any|[0-9]+) (?:(?P<where>fabric|access) )?"
    r"(?P<what>links?|directions?|spines?|leaf|leaves|hosts?)(?: of plane (?P<plane>[0-9]+))?"
)

FORMS = (
    "p0:leaf3>spine5, p0:leaf3-spine5, p*:leaf3>spine*, p0-spine2, h3:plane1, p0-leaf3:spine[0-3], p1, "
    "any fabric link, 3 links of plane 1, or several of these with commas"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A resolved target: the directions whose sending ports get the fault, and the nodes if whole nodes were named."""

    text: str
    ways: tuple[DirectedLink, ...]
    nodes: tuple[NodeId, ...] = ()
    by_chance: bool = False

    def __str__(self) -> str:
        """Return what was written and, where that is not specific, what it means."""
        means = self.nodes or self.ways
        spelt = ", ".join(map(str, means[:8])) + (f", ... ({len(means)})" if len(means) > 8 else "")
        return self.text if spelt == self.text else f"{self.text}: {spelt}"


def chosen_of(text: str, fabric: Fabric, seed: int = 0) -> Chosen:
    """Return what `text` means in a fabric; the same seed and text choose the same.

    Raises UnknownNameError with near names, TargetError.
    """
    if not text.strip(" ,"):
        raise TargetError(text, "names nothing", f"write {FORMS}")
    if not all(part.strip() for part in text.split(",")):
        raise TargetError(text, "a comma has no name beside it", "one comma between two names, as in p0-leaf1,h2")
    parts = [_part(part.strip(), fabric, seed) for part in text.split(",")]
    ways = dict.fromkeys(way for part in parts for way in part.ways)
    nodes = tuple(dict.fromkeys(node for part in parts for node in part.nodes))
    return Chosen(text, tuple(ways), nodes if all(p.nodes for p in parts) else (), any(p.by_chance for p in parts))


def require_fits(chosen: Chosen, fault: Fault, fabric: Fabric) -> None:
    """Check a kind on a target. Raises TargetError when it makes no sense there, WordingError for an unknown host."""
    host = fault.only.host
    if host is not None and host >= fabric.host_count:
        word = "only-to" if fault.selects() else fault.word
        raise WordingError([(word, f"there is no host h{host}", those_there_are("host", "h", fabric.host_count))])
    switches = bool(chosen.nodes) and all(node.role is not Role.HOST for node in chosen.nodes)
    if fault.says.on is On.SWITCH and not switches:
        raise TargetError(chosen.text, f"{fault.word} is for whole switches", "name one, as p0-spine2 or any leaf")


def _part(text: str, fabric: Fabric, seed: int) -> Chosen:
    if found := _PLANE.fullmatch(text):
        return Chosen(text, _plane(text, int(found[1]), fabric))
    if found := _CHOICE.fullmatch(text):
        return _by_chance(text, found, fabric, seed)
    if found := _PORT.fullmatch(text):
        return Chosen(text, _ports(text, found["node"], found["interface"], fabric))
    if _NODE.fullmatch(text):
        nodes = _nodes(text, fabric)
        return Chosen(text, tuple(way for node in nodes for way in _sent_by(node, fabric)), nodes)
    return Chosen(text, parse_link(text, fabric))


def _plane(text: str, plane: int, fabric: Fabric) -> tuple[DirectedLink, ...]:
    if plane >= fabric.spec.planes:
        raise TargetError(text, "no such plane", those_there_are("plane", "p", fabric.spec.planes))
    return tuple(way for link in fabric.links() if link.plane == plane for way in link.directions)


def _ports(text: str, nodes: str, interfaces: str, fabric: Fabric) -> tuple[DirectedLink, ...]:
    ports = [port for node in _nodes(nodes, fabric) for port in fabric.ports_of(node)]
    found = [port for port in ports if fnmatchcase(port.interface, interfaces)]
    if not found:
        there = ", ".join(dict.fromkeys(port.interface for port in ports))
        raise TargetError(text, f"{nodes} has no port {interfaces}", f"its ports are {there}")
    return tuple(DirectedLink(port.plane, port.node, port.peer) for port in found)


def _nodes(text: str, fabric: Fabric) -> tuple[NodeId, ...]:
    if not _WILD.search(text):
        return (parse_node(text, fabric),)
    found = tuple(node for node in fabric.nodes() if fnmatchcase(str(node), text))
    if not found:
        raise UnknownNameError("node", text, "no such node", (), known_nodes(fabric))
    return found


def _sent_by(node: NodeId, fabric: Fabric) -> tuple[DirectedLink, ...]:
    return tuple(DirectedLink(port.plane, port.node, port.peer) for port in fabric.ports_of(node))


def _by_chance(text: str, found: re.Match[str], fabric: Fabric, seed: int) -> Chosen:
    import numpy as np  # only a choice by chance needs it; most targets are names

    what, where = found["what"].rstrip("s"), found["where"]
    plane = None if found["plane"] is None else int(found["plane"])
    if plane is not None and plane >= fabric.spec.planes:
        raise TargetError(text, "no such plane", those_there_are("plane", "p", fabric.spec.planes))
    count = 1 if found["count"] == "any" else int(found["count"])
    rng = np.random.default_rng([seed, zlib.crc32(text.encode())])
    if what in ("link", "direction"):
        links = [link for link in fabric.links() if plane in (None, link.plane) and _lies(link, where)]
        if what == "link":
            picked = _pick(text, links, count, rng)
            return Chosen(text, tuple(way for link in picked for way in link.directions), (), True)
        return Chosen(text, _pick(text, [way for link in links for way in link.directions], count, rng), (), True)
    if where is not None:
        raise TargetError(text, f"{where} does not apply to a node", f"write {FORMS}")
    role = {"spine": Role.SPINE, "leaf": Role.LEAF, "leave": Role.LEAF, "host": Role.HOST}[what]
    nodes = _pick(text, [n for n in fabric.nodes() if n.role is role and plane in (None, n.plane)], count, rng)
    return Chosen(text, tuple(way for node in nodes for way in _sent_by(node, fabric)), nodes, True)


def _lies(link: LinkId, where: str | None) -> bool:
    access = link.lower.role is Role.HOST
    return where is None or access == (where == "access")


def _pick(text: str, candidates: Sequence[T], count: int, rng: "np.random.Generator") -> tuple[T, ...]:
    if not 1 <= count <= len(candidates):
        raise TargetError(text, f"{count} cannot be chosen", f"there are {len(candidates)}")
    return tuple(candidates[at] for at in sorted(rng.choice(len(candidates), size=count, replace=False)))
