"""Each EV takes exactly one path, by the counters of the switches' interfaces, and planes get equal counts."""

from collections import Counter

import pytest

from agent.wire.ev import EvCodec
from testbed.model.addressing import Path, paths_of
from testbed.model.node_names import NodeId
from tests.fabric.conformance.conftest import PLANES, SOURCE, SPINES, TARGET, Agents, Counts
from tests.support.namespaces import needs_root

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

PATHS = [(plane, spine) for plane in range(PLANES) for spine in range(SPINES)]
PACKETS = 96


def ev_of(plane: int, spine: int) -> int:
    """Host 0 is below leaf 0."""
    return EvCodec().ev_of(plane, spine, 0)


def grown(before: Counts, after: Counts) -> Counts:
    deltas = {key: tuple(b - a for a, b in zip(before[key], after[key], strict=True)) for key in after}
    return {key: (received, sent) for key, (received, sent) in deltas.items()}


def forward(path: Path, deltas: Counts) -> set[int]:
    """What every interface along a path counted in the direction of the data."""
    sent = {deltas[link.sender, link.egress.interface][1] for link in path.links}
    return sent | {deltas[link.receiver, link.ingress.interface][0] for link in path.links}


@pytest.mark.parametrize(("plane", "spine"), PATHS)
def test_an_ev_takes_its_path_and_no_other(agents: Agents, plane: int, spine: int) -> None:
    before = agents.counts()
    row = agents.write(PACKETS, denied=tuple(ev_of(*path) for path in PATHS if path != (plane, spine)))
    deltas = grown(before, agents.counts())
    assert (row["packets_tx"], row["packets_rtx"]) == (PACKETS, 0)
    for path, (p, s) in zip(paths_of(agents.net.fabric, SOURCE, TARGET), PATHS, strict=True):
        uplink = deltas[NodeId.leaf(p, 0), f"spine{s}"][1], deltas[NodeId.spine(p, s), "leaf0"][0]
        downlink = deltas[NodeId.spine(p, s), "leaf1"][1], deltas[NodeId.leaf(p, 1), f"spine{s}"][0]
        on_it = PACKETS if (p, s) == (plane, spine) else 0
        assert {*uplink, *downlink} == {on_it}, (p, s)
        if on_it:
            assert forward(path, deltas) == {PACKETS}


@pytest.mark.parametrize("policy", ["rotation", "random"])
def test_planes_get_equal_counts(agents: Agents, policy: str) -> None:
    before = agents.counts()
    row = agents.write(PACKETS * len(PATHS), policy=policy)
    deltas = grown(before, agents.counts())
    assert row["packets_rtx"] == 0
    on_path = {path: deltas[NodeId.leaf(path[0], 0), f"spine{path[1]}"][1] for path in PATHS}
    by_plane = Counter()
    for (plane, _), count in on_path.items():
        by_plane[plane] += count
    assert set(by_plane.values()) == {PACKETS * len(PATHS) // PLANES}
    assert {(ev["plane"], ev["spine"]): ev["tx_first"] for ev in row["evs"]} == on_path
    if policy == "rotation":
        assert set(on_path.values()) == {PACKETS}
