"""Typed names of nodes, ports and links, and the only place that renders them; `names` parses them.

Knows the grammar of names, but no addresses and no kernel. `p0-leaf3`, `p0-spine5`, `h2` are nodes, `p0:leaf3-spine5` a
link, `p0:leaf3>spine5` one direction of it, `p*:leaf3>spine*` a selection.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from testbed.errors import UnknownNameError

_END = r"(leaf|spine|h)([0-9]+|\*)"
LINK_NAME = re.compile(rf"(?:p([0-9]+|\*):)?{_END}([->]){_END}")
"""A link, a direction of one or a selection: plane, first end, `-` or `>`, second end."""

LAB_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
"""Name of a lab, short enough that a namespace name stays readable and a socket path fits 108 bytes."""

NAMESPACE_PREFIX = "spraylab"


class Role(IntEnum):
    """Role of a node; the value is the role nibble of its addresses (our choice, see docs/address-plan.md)."""

    SPINE = 1
    LEAF = 2
    HOST = 3


_WORD = {Role.SPINE: "spine", Role.LEAF: "leaf", Role.HOST: "h"}
ROLES = {word: role for role, word in _WORD.items()}
"""Role by the word in a name."""


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
        found = LINK_NAME.fullmatch(text)
        if found is None or "*" in text or found[1] is None or found[4] != "-":
            return None
        plane, lower, upper = int(found[1]), ROLES[found[2]], ROLES[found[5]]
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
