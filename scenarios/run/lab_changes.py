"""Finds what somebody else changed in the lab of a run, from readings before and after it. Pure."""

from collections.abc import Iterable, Sequence

from results.summary import LabChange
from results.text import fault_text
from scenarios.lab.protocol import FaultState
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_link
from testbed.model.node_config import Difference
from testbed.model.node_names import Role

BEFORE, AFTER, BOTH = "before", "after", "both"

SHOWN = 4
"""Most changes in one line; the summary has all."""


def changes_of(before: Sequence[Difference], after: Sequence[Difference]) -> tuple[LabChange, ...]:
    """Join both readings to one list without repetitions."""
    found = dict.fromkeys((*before, *after))
    return tuple(_change(each, each in before, each in after) for each in found)


def _change(each: Difference, before: bool, after: bool) -> LabChange:
    when = BOTH if before and after else BEFORE if before else AFTER
    return LabChange(each.node, each.port, each.what, each.planned, each.found, each.words, each.links, when)


def removed_faults(faults: Iterable[FaultState], fabric: Fabric) -> tuple[Difference, ...]:
    """Return faults that the kernel had lost or changed while they should have been in force."""
    return tuple(
        _removed(each, fabric) for each in faults if each.in_force_text not in (each.requested_text, "removed")
    )


def _removed(state: FaultState, fabric: Fabric) -> Difference:
    (way, *_), asked = parse_link(state.link, fabric), fault_text(state.kind, state.requested_text)
    port, words = way.egress, f"was set to {asked} for {state.link}, and the kernel holds {state.in_force_text}"
    links = (state.link,)
    return Difference(str(port.node), port.interface, "fault", asked, state.in_force_text, words, links)


def links_of(changes: Iterable[LabChange]) -> frozenset[str]:
    """Return the directions that may have lost packets because of these changes."""
    return frozenset(link for each in changes for link in each.links)


def host_ports_of(changes: Iterable[LabChange], fabric: Fabric) -> frozenset[tuple[int, int]]:
    """Return ports of hosts, as (host, plane), at which these changes may have refused sends."""
    ways = (way for link in links_of(changes) for way in parse_link(link, fabric))
    return frozenset((way.sender.index, way.plane) for way in ways if way.sender.role is Role.HOST)


def changes_text(changes: Sequence[LabChange] | Sequence[Difference]) -> str:
    """Format changes as one line; empty without any."""
    if not changes:
        return ""
    more = f"; and {len(changes) - SHOWN:,} more" if len(changes) > SHOWN else ""
    return f"somebody else changed the lab: {'; '.join(map(str, changes[:SHOWN]))}{more}"
