"""Parsing of the names that users write to nodes and links of a fabric; an unknown name gets near names."""

import difflib
import re
from collections.abc import Iterable

from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric
from testbed.model.node_names import LINK_NAME, ROLES, DirectedLink, LinkId, NodeId, Role

MOST_COMPARED = 20_000
"""Most links whose names are compared with a wrong one; comparing takes some 10 us each (our choice)."""

_NODE = re.compile(r"(?:p(?P<plane>[0-9]+)-(?P<word>leaf|spine)|(?P<host>h))(?P<index>[0-9]+)")


def parse_node(text: str, fabric: Fabric) -> NodeId:
    """Return the node called `text`. Raises UnknownNameError with near names."""
    names = {str(node): node for node in fabric.nodes()}
    if (node := names.get(text)) is not None:
        return node
    reason = "not a node name (they look like p0-leaf3, p0-spine5, h2)"
    if (found := _NODE.fullmatch(text)) is not None:
        end = found["word"] or "h", found["index"]
        reason = f"no such node{_out_of_range(found['plane'], [end], fabric)}"
    raise UnknownNameError("node", text, reason, _near(text, names), known_nodes(fabric))


def known_nodes(fabric: Fabric) -> str:
    """Describe the existing nodes: `nodes are h0 to h7, p0-leaf0 to p1-leaf7, p0-spine0 to p1-spine7`."""
    spec = fabric.spec
    planes = range(spec.planes)
    groups = (
        [NodeId.host(0), NodeId.host(fabric.host_count - 1)],
        [NodeId.leaf(planes[0], 0), NodeId.leaf(planes[-1], spec.leaves - 1)],
        [NodeId.spine(planes[0], 0), NodeId.spine(planes[-1], spec.spines - 1)],
    )
    return f"nodes are {', '.join(map(_from_to, groups))}"


def known_links(fabric: Fabric) -> str:
    """Describe the existing links: `links are p0:leaf0-spine0 to p1:leaf7-spine7, p0:h0-leaf0 to p1:h7-leaf7`."""
    spec, last = fabric.spec, fabric.host_count - 1
    up = ["p0:leaf0-spine0", f"p{spec.planes - 1}:leaf{spec.leaves - 1}-spine{spec.spines - 1}"]
    down = ["p0:h0-leaf0", f"p{spec.planes - 1}:h{last}-leaf{spec.leaves - 1}"]
    return f"links are {_from_to(up)}, {_from_to(down)}"


def _from_to(ends: Iterable[object]) -> str:
    """Format as `a to b`, or `a` alone."""
    return " to ".join(dict.fromkeys(map(str, ends)))


def parse_link(text: str, fabric: Fabric) -> tuple[DirectedLink, ...]:
    """Return every direction that `text` selects, in fabric order.

    `-` selects both directions, `>` the one written; `*` stands for any number. The plane may be left out when the
    fabric has only one. Raises UnknownNameError with near names when nothing is selected.
    """
    found = LINK_NAME.fullmatch(text.strip())
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


def _out_of_range(plane: str | None, ends: Iterable[tuple[str, ...]], fabric: Fabric) -> str:
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
    return ROLES[word] is node.role and index in ("*", str(node.index))


def _unknown_link(text: str, reason: str, fabric: Fabric) -> UnknownNameError:
    names = (str(way) if ">" in text else str(link) for link in _alike(text, fabric) for way in link.directions)
    return UnknownNameError("link", text, reason, _near(text, dict.fromkeys(names)), known_links(fabric))


def _alike(text: str, fabric: Fabric) -> Iterable[LinkId]:
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
