"""EVs picked, given and generated: each names a path, writes arrive over them, and what names none is refused."""

import pytest

from agent.core.errors import ConfigError
from agent.host.control import requests as rq
from agent.host.errors import RequestError
from tests.unit.agent.host.test_commands import Worker

SPINES = (rq.GenFieldSettings(16, 0xC000), rq.GenFieldSettings(16, 0x1000, 0, 3, 0x3))
"""The four spines of plane 0."""


def paths_used(worker, write):
    """(plane, spine) of the EVs that carried packets."""
    rows = [row for row in worker.ask(rq.Counters())["evs"] if row["qpn"] == write["qpn"]]
    return {(row["plane"], row["spine"]) for row in rows if row["tx_first"]}


def written(profile, target=2):
    worker = Worker()
    write = worker.write(0, target, 100_000, profile=profile)
    worker.run(800)
    assert worker.ask(rq.Verify(target, write["rkey"], 11))["wrong"] == 0
    return paths_used(worker, write)


def test_picked_evs_are_equally_many_of_each_plane():
    used = written(rq.ProfileSettings("AUTO", 4))
    assert sorted(plane for plane, _ in used) == [0, 0, 1, 1]


def test_given_evs_are_used_and_no_others():
    assert written(rq.ProfileSettings("EXP", evs=(0xC0001003, 0xC0001101))) == {(0, 3), (1, 1)}


def test_evs_are_generated_from_fields():
    assert written(rq.ProfileSettings("GEN", 4, fields=SPINES)) == {(0, 0), (0, 1), (0, 2), (0, 3)}


def test_hosts_below_one_leaf_take_their_one_path_a_plane():
    assert written(rq.ProfileSettings("EXP", evs=(0xC0001003,)), target=1) == {(0, None), (1, None)}


@pytest.mark.parametrize(
    "profile",
    [
        rq.ProfileSettings("EXP", evs=(0xC0001004,)),
        rq.ProfileSettings("EXP", evs=(0xC0001200,)),
        rq.ProfileSettings("EXP", evs=(0xC0002000,)),
        rq.ProfileSettings("EXP", evs=(1 << 32,)),
        rq.ProfileSettings("EXP"),
        rq.ProfileSettings("GEN", fields=SPINES),
        rq.ProfileSettings("GEN", 5, fields=SPINES),
        rq.ProfileSettings("AUTO", 3),
    ],
    ids=["no such spine", "no such plane", "a leaf", "too wide", "none", "no count", "too few", "not to be shared"],
)
def test_what_names_no_path_is_refused(profile):
    with pytest.raises((RequestError, ConfigError)):
        Worker().connect(0, 2, profile=profile)
