"""Probes over denied links between hosts in memory: what they tell of links that deliver, drop some, or drop all."""

from collections.abc import Iterator

import pytest

from agent.host.control.requests import DeniedLink
from agent.host.queue_pairs.denied_links import LinkProbes
from agent.io.memory_fabric import PathRule
from agent.wire.ev import EvCodec
from tests.unit.agent.io.memory_lab import Lab, build

TURN_NS = 5_000_000
UP = DeniedLink(0, 0, 1, up=True)
DOWN = DeniedLink(0, 1, 1, up=False)


def lab_of(loss: float, source: int = 0) -> Lab:
    """Three hosts, each below a leaf of its own; what host `source` sends over p0 spine 1 is lost with this rate."""
    lab = build(hosts=3, planes=2, spines=2, rules=(PathRule(source=source, plane=0, spine=1, loss=loss),), seed=7)
    for one, other in ((0, 1), (1, 2), (2, 0)):
        lab.run(lab.flow(one, other, 4096))
    return lab


def probed(lab: Lab, *links: DeniedLink, turns: int = 400) -> LinkProbes:
    probes = LinkProbes(EvCodec(), {host: host for host in lab.engine.hosts})
    probes.probe(links)
    for _ in range(turns):
        probes.turn(lab.engine.hosts.values())
        for _ in range(20):
            lab.engine.step(lab.fabric.now_ns)
            lab.fabric.advance(lab.fabric.now_ns + TURN_NS // 20)
    return probes


def test_a_link_that_delivers_answers_every_probe() -> None:
    lab = lab_of(loss=0.0)
    probes = probed(lab, UP, DOWN)
    for link in (UP, DOWN):
        assert probes.tallies[link].lost == 0
        assert probes.tallies[link].answered >= 398, "but for those on their way"


@pytest.mark.parametrize("loss", [0.2, 1.0])
def test_a_link_that_drops_loses_its_share(loss: float) -> None:
    tally = probed(lab_of(loss), UP).tallies[UP]
    assert tally.answered + tally.lost >= 390
    # 400 probes: 4.5 standard deviations of a binomial at 0.2, and all at 1.
    assert abs(tally.lost / (tally.answered + tally.lost) - loss) <= (0.09 if loss < 1 else 0)


def test_probes_of_both_ends_leave_by_the_link_meant() -> None:
    """Down to leaf 1 lead the paths of hosts 0 and 2, of which only host 0's are lossy."""
    tally = probed(lab_of(loss=1.0), DOWN).tallies[DOWN]
    assert abs(tally.answered - tally.lost) <= 2


def test_a_queue_pair_hears_nothing_of_it_and_nothing_is_probed_before_it_is_asked_for() -> None:
    lab = lab_of(loss=1.0)
    sent = [neighbour.endpoint.probes_sent for neighbour in neighbours(lab)]
    assert sent == [0] * len(sent)
    probed(lab, UP)
    assert all(channel.qp.ev_states()[0].max() == 0 for host in lab.engine.hosts.values()
               for channel in host.channels.values())  # fmt: skip
    assert probed(lab).tallies == {}


def test_a_path_that_answers_a_probe_does_not_become_the_way_back() -> None:
    lab = lab_of(loss=0.0)
    (row,) = {neighbour.rows[EvCodec().ev_of(0, 1, 0)] for neighbour in lab.engine.hosts[0].neighbours}
    before = [neighbour.endpoint._reverse.rows[0] for neighbour in lab.engine.hosts[0].neighbours]
    assert row not in before
    probed(lab, UP, turns=50)
    assert row not in [neighbour.endpoint._reverse.rows[0] for neighbour in lab.engine.hosts[0].neighbours]


def neighbours(lab: Lab) -> Iterator:
    return (neighbour for host in lab.engine.hosts.values() for neighbour in host.neighbours)
