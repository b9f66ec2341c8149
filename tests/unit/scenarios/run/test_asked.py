"""The tests of a run are counted from its plan: all that may be announced counts, and all are told the same number."""

import pytest

from agent.spraycheck.declared import declared_packets_needed
from agent.spraycheck.detector import Asked
from agent.spraycheck.run_tests import LEAST_TESTS
from scenarios.file.plan import plan_of
from scenarios.lab.deploy import spraycheck_settings
from scenarios.lab.lab_dir import LabDir
from scenarios.run.announcing import announced_ends
from scenarios.run.asked import asked_of, needed_for, run_tests_of
from scenarios.run.crossing import crossing_sendings
from scenarios.run.measuring import measuring_of
from tests.unit.scenarios.run.test_announcing import plan as all_to_all
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


def test_queue_pairs_of_collectives_count_where_they_may_be_announced() -> None:
    """12 pairs of leaves, 48 queue pairs each, over four spines: 8 064 tests."""
    long, short = (all_to_all(48, kib, detector=DECLARED) for kib in (3000, 300))
    assert len(announced_ends(long)) == 12 * 48
    assert run_tests_of(long) == 8192
    assert announced_ends(short) == []
    assert len(list(crossing_sendings(short))) * 14 > LEAST_TESTS
    assert run_tests_of(short) == LEAST_TESTS


@pytest.mark.parametrize("expectation", ["uniform", "declared"])
def test_none_is_announced_that_was_not_counted(expectation: str) -> None:
    """More tests ask for more packets, so that fewer queue pairs are long enough than with the fewest tests."""
    for kib in range(300, 3000, 60):
        made = all_to_all(48, kib, detector=DECLARED | {"expectation": expectation})
        assert len(announced_ends(made)) * 14 <= run_tests_of(made)


def test_more_tests_take_more_packets() -> None:
    wide = plan_of(scenario(topology=WIDE.scenario.topology.model_dump(), detector={"expectation": "declared"}))
    assert needed_for(wide, 0.001) == declared_packets_needed(64, Asked(0.001, run_tests=8192))
    assert (needed_for(wide, 0.001) or 0) > (declared_packets_needed(64, Asked(0.001)) or 0)
