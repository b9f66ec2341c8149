"""Typed names of nodes, ports and links, and the only place that renders or parses them.

Knows the grammar of names, but no addresses and no kernel. `p0-leaf3`, `p0-spine5`, `h2` are nodes, `p0:leaf3-spine5` a
link, `p0:leaf3>spine5` one direction of it, `p*:leaf3>spine*` a selection.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from testbed.errors import UnknownNameError

if TYPE_CHECKING:
    from testbed.model.fabric import Fabric

LAB_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
"""Name of a lab, short enough that a namespace name stays readable and a socket path fits 108 bytes."""

NAMESPACE_PREFIX = "spraylab"

MOST_COMPARED = 20_000
"""Most links whose names are compared with a wrong one; comparing takes some 10 us each (our choice)."""


class Role(IntEnum):
    """Role of a node; the value is the role nibble of its addresses (our choice, see docs/address-plan.md)."""

    SPINE = 1
    LEAF = 2
    HOST = 3


_WORD = {Role.SPINE: "spine", Role.LEAF: "leaf", Role.HOST: "h"}
_ROLE = {word: role for role, word in _WORD.items()}


@dataclass(frozen=True, slots=True, order=True)
class NodeId:
    """One node. `plane` is None for a host, which has a port in every plane; `index` counts from 0."""

    role: Role
    plane: int | None
    index: int

    @classmethod
    def leaf(cls, plane: int, index: int) -> "NodeId":
        """Name leaf (T0) `index` of a plane."""
        return cls(Role.LEAF, plane, index)

    @classmethod
    def spine(cls, plane: int, index: int) -> "NodeId":
        """Name spine (T1) `index` of a plane."""
        return cls(Role.SPINE, plane, index)

    @classmethod
    def host(cls, index: int) -> "NodeId":
        """Name host `index`, counted over all leaves."""
        return cls(Role.HOST, None, index)

    @property
    def short(self) -> str:
        """Return the name inside its plane, as used in link names: `leaf3`, `spine5`, `h2`."""
        return f"{_WORD[self.role]}{self.index}"

    def __str__(self) -> str:
        """Format as `p0-leaf3`, `p0-spine5` or `h2`."""
        return self.short if self.plane is None else f"p{self.plane}-{self.short}"


@dataclass(frozen=True, slots=True, order=True)
class PortId:
    """The port of `node` that leads to `peer` in `plane`; between two nodes there is one link per plane."""

    node: NodeId
    peer: NodeId
    plane: int

    @property
    def interface(self) -> str:
        """Return the kernel name, after the peer.

        `spine5` or `h2` on a leaf, `leaf3` on a spine, `plane0` on a host.
        """
        return f"plane{self.plane}" if self.node.role is Role.HOST else self.peer.short

    def __str__(self) -> str:
        """Format as `p0-leaf3:spine5`."""
        return f"{self.node}:{self.interface}"


@dataclass(frozen=True, slots=True, order=True)
class LinkId:
    """Both directions of a link. `lower` is nearer to the hosts: a host below a leaf, a leaf below a spine."""

    plane: int
    lower: NodeId
    upper: NodeId

    @classmethod
    def named(cls, text: str) -> "LinkId | None":
        """Parse the link with exactly this name, in any fabric; None if it is no link name."""
        found = _LINK.fullmatch(text)
        if found is None or "*" in text or found[1] is None or found[4] != "-":
            return None
        plane, lower, upper = int(found[1]), _ROLE[found[2]], _ROLE[found[5]]
        if lower != upper + 1:  # host 3 below leaf 2 below spine 1
            return None
        host_below = lower is Role.HOST
        return cls(
            plane,
            NodeId(lower, None if host_below else plane, int(found[3])),
            NodeId(upper, plane, int(found[6])),
        )

    @property
    def directions(self) -> tuple["DirectedLink", "DirectedLink"]:
        """Return both directions: up, then down."""
        return DirectedLink(self.plane, self.lower, self.upper), DirectedLink(self.plane, self.upper, self.lower)

    def __str__(self) -> str:
        """Format as `p0:leaf3-spine5` or `p0:h2-leaf2`."""
        return f"p{self.plane}:{self.lower.short}-{self.upper.short}"


@dataclass(frozen=True, slots=True, order=True)
class DirectedLink:
    """One direction of a link, from `sender` to `receiver`."""

    plane: int
    sender: NodeId
    receiver: NodeId

    @property
    def link(self) -> LinkId:
        """Return the link without its direction."""
        if self.sender.role > self.receiver.role:  # host 3 > leaf 2 > spine 1: the greater role is the lower end
            return LinkId(self.plane, self.sender, self.receiver)
        return LinkId(self.plane, self.receiver, self.sender)

    @property
    def reverse(self) -> "DirectedLink":
        """Return the other direction."""
        return DirectedLink(self.plane, self.receiver, self.sender)

    @property
    def egress(self) -> PortId:
        """Return the port that sends into this direction; drops are injected here."""
        return PortId(self.sender, self.receiver, self.plane)

    @property
    def ingress(self) -> PortId:
        """Return the port at which this direction arrives."""
        return PortId(self.receiver, self.sender, self.plane)

    def __str__(self) -> str:
        """Format as `p0:leaf3>spine5`."""
        return f"p{self.plane}:{self.sender.short}>{self.receiver.short}"


_NODE = re.compile(r"(?:p(?P<plane>[0-9]+)-(?P<word>leaf|spine)|(?P<host>h))(?P<index>[0-9]+)")
_END = r"(leaf|spine|h)([0-9]+|\*)"
_LINK = re.compile(rf"(?:p([0-9]+|\*):)?{_END}([->]){_END}")


def parse_node(text: str, fabric: "Fabric") -> NodeId:
    """Return the node called `text`. Raises UnknownNameError with near names."""
    names = {str(node): node for node in fabric.nodes()}
    if (node := names.get(text)) is not None:
        return node
    reason = "not a node name (they look like p0-leaf3, p0-spine5, h2)"
    if (found := _NODE.fullmatch(text)) is not None:
        end = found["word"] or "h", found["index"]
        reason = f"no such node{_out_of_range(found['plane'], [end], fabric)}"
    raise UnknownNameError("node", text, reason, _near(text, names), known_nodes(fabric))


def known_nodes(fabric: "Fabric") -> str:
    """Describe the existing nodes: `nodes are h0 to h7, p0-leaf0 to p1-leaf7, p0-spine0 to p1-spine7`."""
    spec = fabric.spec
    planes = range(spec.planes)
    groups = (
        [NodeId.host(0), NodeId.host(fabric.host_count - 1)],
        [NodeId.leaf(planes[0], 0), NodeId.leaf(planes[-1], spec.leaves - 1)],
        [NodeId.spine(planes[0], 0), NodeId.spine(planes[-1], spec.spines - 1)],
    )
    return f"nodes are {', '.join(map(_from_to, groups))}"


def known_links(fabric: "Fabric") -> str:
    """Describe the existing links: `links are p0:leaf0-spine0 to p1:leaf7-spine7, p0:h0-leaf0 to p1:h7-leaf7`."""
    spec, last = fabric.spec, fabric.host_count - 1
    up = ["p0:leaf0-spine0", f"p{spec.planes - 1}:leaf{spec.leaves - 1}-spine{spec.spines - 1}"]
    down = ["p0:h0-leaf0", f"p{spec.planes - 1}:h{last}-leaf{spec.leaves - 1}"]
    return f"links are {_from_to(up)}, {_from_to(down)}"


def _from_to(ends: Iterable[object]) -> str:
    """Format as `a to b`, or `a` alone."""
    return " to ".join(dict.fromkeys(map(str, ends)))


def parse_link(text: str, fabric: "Fabric") -> tuple[DirectedLink, ...]:
    """Return every direction that `text` selects, in fabric order.

    `-` selects both directions, `>` the one written; `*` stands for any number. The plane may be left out when the
    fabric has only one. Raises UnknownNameError with near names when nothing is selected.
    """
    found = _LINK.fullmatch(text.strip())
    if found is None:
        raise _unknown_link(
            text, "not a link name (they look like p0:leaf3-spine5, p0:leaf3>spine5, p*:h2>leaf*)", fabric
        )
    if found[1] is None and fabric.spec.planes > 1:
        raise _unknown_link(text, "the plane is missing (write p0:... or p*:...)", fabric)
    links = (link for leaf in fabric.leaves() if _concerns(found, leaf) for link in fabric.links_of(leaf))
    selected = tuple(way for link in links for way in link.directions if _selects(found, way))
    if not selected:
        ends = found.group(2, 3), found.group(5, 6)
        raise _unknown_link(text, f"no such link{_out_of_range(found[1], ends, fabric)}", fabric)
    return selected


def _out_of_range(plane: str | None, ends: Iterable[tuple[str, ...]], fabric: "Fabric") -> str:
    """Describe which numbers of a name are too large, as ` (spines are spine0 to spine7)`; empty if none is."""
    counts = {"leaf": fabric.spec.leaves, "spine": fabric.spec.spines, "h": fabric.host_count}
    called = {"leaf": "leaves", "spine": "spines", "h": "hosts"}
    told = [f"{called[word]} are {_from_to((f'{word}0', f'{word}{counts[word] - 1}'))}"
            for word, index in ends if index != "*" and int(index) >= counts[word]]  # fmt: skip
    if plane not in (None, "*") and int(plane or 0) >= fabric.spec.planes:
        told.insert(0, f"planes are {_from_to(('p0', f'p{fabric.spec.planes - 1}'))}")
    return f" ({', '.join(dict.fromkeys(told))})" if told else ""


def _concerns(found: re.Match[str], leaf: NodeId) -> bool:
    """Report whether the name can mean links of this leaf; every link ends at a leaf."""
    plane, word_a, index_a, _, word_b, index_b = found.groups()
    if plane not in (None, "*", str(leaf.plane)):
        return False
    return any(_names(end, leaf) for end in ((word_a, index_a), (word_b, index_b)))


def _selects(found: re.Match[str], way: DirectedLink) -> bool:
    plane, word_a, index_a, mark, word_b, index_b = found.groups()
    if plane not in (None, "*", str(way.plane)):
        return False
    ends = ((word_a, index_a), (word_b, index_b))
    if _names(ends[0], way.sender) and _names(ends[1], way.receiver):
        return True
    return mark == "-" and _names(ends[0], way.receiver) and _names(ends[1], way.sender)


def _names(end: tuple[str, str], node: NodeId) -> bool:
    word, index = end
    return _ROLE[word] is node.role and index in ("*", str(node.index))


def _unknown_link(text: str, reason: str, fabric: "Fabric") -> UnknownNameError:
    names = (str(way) if ">" in text else str(link) for link in _alike(text, fabric) for way in link.directions)
    return UnknownNameError("link", text, reason, _near(text, dict.fromkeys(names)), known_links(fabric))


def _alike(text: str, fabric: "Fabric") -> Iterable[LinkId]:
    """Return links to compare with a wrong name: all, or in a large fabric those of nodes with one of its numbers."""
    if fabric.link_count <= MOST_COMPARED:
        return fabric.links()
    numbers = {int(digits) for digits in re.findall(r"[0-9]{1,3}", text)}
    plane = min(numbers & {*range(fabric.spec.planes)}, default=0)
    leaves = (leaf for leaf in fabric.leaves() if leaf.plane == plane)
    return (
        link
        for leaf in leaves
        for link in fabric.links_of(leaf)
        if leaf.index in numbers or (link.lower.role is Role.LEAF and link.upper.index in numbers)
    )


def _near(text: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(text, names, n=3, cutoff=0.5))


def namespace_name(lab: str, node: NodeId) -> str:
    """Return the name of a node's network namespace: `spraylab-lab-p0-leaf3`."""
    return f"{namespace_prefix(lab)}{node}"


def namespace_prefix(lab: str) -> str:
    """Return the common prefix of the namespaces of a lab, and of no other lab. Raises UnknownNameError."""
    if LAB_NAME.fullmatch(lab) is None:
        raise UnknownNameError("lab", lab, "a lab name is a lower-case letter and up to nine letters or digits")
    return f"{NAMESPACE_PREFIX}-{lab}-"


def those_there_are(kind: str, letter: str, count: int) -> str:
    """Describe the hosts or planes of a fabric, for a message: `hosts are h0 to h7`, `the only host is h0`."""
    return f"the only {kind} is {letter}0" if count == 1 else f"{kind}s are {letter}0 to {letter}{count - 1}"
