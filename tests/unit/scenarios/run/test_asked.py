"""The tests of a run are counted from its plan: all that may be announced counts, and all are told the same number."""

from typing import Any

import pytest

from agent.spraycheck.statistics.declared import declared_packets_needed
from agent.spraycheck.statistics.test_count import LEAST_TESTS
from agent.spraycheck.statistics.uniform import Asked
from scenarios.file.plan import Plan, plan_of
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.start.deploy import spraycheck_settings
from scenarios.run.judge.measuring import announced_sendings, measuring_of
from scenarios.run.judge.packets_asked import asked_of, needed_for, run_tests_of
from tests.unit.scenarios.run.test_measuring import scenario

WIDE = plan_of(scenario(topology={"planes": 2, "leaves": 4, "spines": 64, "hosts_per_leaf": 2}))
DECLARED = {"min_rate": "20%", "expectation": "declared"}


def test_writes_between_leaves_are_counted() -> None:
    """12 of 16 flows, 64 + 1 + 1 + 128 tests each in two planes: 4 656."""
    assert run_tests_of(WIDE) == 8192
    assert run_tests_of(plan_of(scenario())) == LEAST_TESTS


def test_the_leaves_are_told_what_packets_are_reckoned_with() -> None:
    told = spraycheck_settings(WIDE.fabric, LabDir("x"), (), measuring_of(WIDE))
    assert told.asked == asked_of(WIDE)
    assert told.asked.run_tests == 8192


def all_to_all(kib: int, qps: int = 8, **parts: Any) -> Plan:
    """12 pairs of leaves, over four spines."""
    work = {"type": "all-to-all", "bytes": f"{kib}KiB", "iterations": 9, "qps": qps}
    topology = {"planes": 1, "leaves": 4, "spines": 4, "hosts_per_leaf": 1}
    return plan_of(scenario(topology=topology, workloads=(work,), **parts))


@pytest.mark.parametrize("select", ["all", "one"])
def test_none_is_announced_that_was_not_counted(select: str) -> None:
    """48 queue pairs of each pair of leaves: 8 064 tests."""
    made = all_to_all(300, 48, detector=DECLARED | {"select": select})
    assert run_tests_of(made) == 8192
    assert len(announced_sendings(made)) * 14 <= run_tests_of(made)


def test_more_tests_take_more_packets() -> None:
    wide = plan_of(scenario(topology=WIDE.scenario.topology.model_dump(), detector={"expectation": "declared"}))
    assert needed_for(wide, 0.001) == declared_packets_needed(64, Asked(0.001, run_tests=8192))
    assert (needed_for(wide, 0.001) or 0) > (declared_packets_needed(64, Asked(0.001)) or 0)
