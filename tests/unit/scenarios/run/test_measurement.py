"""What a scenario asks of SprayCheck, and how many verdicts follow from it."""

from typing import Any

import pytest

from agent.spraycheck.statistics.declared import declared_packets_needed
from agent.spraycheck.statistics.verdicts import LEAST_TESTS, Requirements
from agent.wire.detect_records import Select
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Measuring
from scenarios.lab.start.deploy import spraycheck_settings
from scenarios.run.judge.detector_demands import (
    announced_sendings,
    asked_of,
    links_to_judge,
    measuring_of,
    needed_for,
    run_tests_of,
    sendings_of,
    verdicts_wanted,
)


def scenario(**parts: Any) -> Scenario:
    values: dict[str, Any] = {
        "version": 1,
        "name": "x",
        "topology": {"planes": 2, "leaves": 4, "spines": 3, "hosts_per_leaf": 2},
        "workloads": ({"strides": (1, 2), "packets": 100},),
    }
    return Scenario.model_validate(values | parts)


def test_every_path_of_every_flow_between_leaves_is_judged_if_all_are_measured() -> None:
    """8 hosts: with stride 1 every second flow stays below its leaf, with stride 2 none does."""
    assert verdicts_wanted(plan_of(scenario())) == (4 + 8) * 2 * 3


def test_with_one_flow_at_a_time_as_many_as_were_chosen_and_at_least_one_a_leaf_and_plane() -> None:
    plan = plan_of(scenario(detector={"select": "one"}))
    assert verdicts_wanted(plan) == 4 * 2 * 3
    assert verdicts_wanted(plan, 11) == 11 * 3


def choice(src: int, dst: int) -> Select:
    return Select(ts="", mono_ns=0, node="", epoch=1, plane=1, src_leaf=src, dst_leaf=dst, qpn=1)


def test_all_links_that_measured_flows_cross_are_to_be_judged() -> None:
    """Strides 1 and 2 of 8 hosts below 4 leaves: from each leaf to the next."""
    assert len(links_to_judge(plan_of(scenario()), ())) == 2 * 4 * 3 * 2
    one = plan_of(scenario(workloads=({"pairs": ((0, 2), (0, 1)), "packets": 100},)))
    assert links_to_judge(one, ()) == {
        f"p{plane}:{ends}" for plane in (0, 1) for spine in range(3)
        for ends in (f"leaf0>spine{spine}", f"spine{spine}>leaf1")
    }  # fmt: skip


def test_with_one_flow_at_a_time_those_of_the_chosen_and_each_leafs_uplinks() -> None:
    plan = plan_of(scenario(detector={"select": "one"}))
    uplinks = links_to_judge(plan, ())
    assert uplinks == {
        f"p{plane}:leaf{leaf}>spine{spine}" for plane in (0, 1) for leaf in range(4) for spine in range(3)
    }
    assert links_to_judge(plan, (choice(2, 3),)) - uplinks == {f"p1:spine{spine}>leaf3" for spine in range(3)}


def collective(**parts: Any) -> Plan:
    work = {"type": "all-reduce", "bytes": "4KiB", "iterations": 1}
    return plan_of(scenario(workloads=(work,), **parts))


def test_all_queue_pairs_of_collectives_that_carry_data_are_announced() -> None:
    announced = announced_sendings(collective())
    assert announced
    assert len(announced) == sum(not sent.is_barrier for sent in sendings_of(collective()))
    assert not any(sent.is_barrier for sent in announced)


def test_where_leaves_measure_one_flow_at_a_time_only_those_long_enough_alone_are_announced() -> None:
    assert announced_sendings(collective(detector={"select": "one"})) == []
    long = collective(detector={"select": "one", "min_rate": "50%"})
    assert all(sent.packets >= 6 * (needed_for(long, 0.5) or 0) for sent in announced_sendings(long))


def test_what_the_leaves_are_told() -> None:
    asked = scenario(detector={"select": "one", "reset_s": 5.0, "counter_bits": 16, "min_rate": "2%"})
    assert measuring_of(plan_of(asked)) == Measuring("2%", 1, narrow=True, one=True, reset_s=5.0)
    assert measuring_of(plan_of(scenario(detector={"processes": "per-leaf"}))).per_leaf
    assert not measuring_of(plan_of(scenario())).per_leaf
    assert measuring_of(plan_of(scenario(detector={"priority_rate": "10Mbit"}))).priority_bps == 10_000_000


def test_a_transport_that_retires_paths_is_judged_by_what_it_declares_unless_told_otherwise() -> None:
    adapts = {"ev": {"loss_policy": "paper"}}
    assert scenario().judged_by == "uniform"
    assert scenario(transport=adapts).judged_by == "declared"
    assert scenario(transport=adapts, detector={"expectation": "uniform"}).judged_by == "uniform"
    assert scenario(transport=adapts, detector={"counter_bits": 16}).judged_by == "uniform"


WIDE = plan_of(scenario(topology={"planes": 2, "leaves": 4, "spines": 64, "hosts_per_leaf": 2}))
DECLARED = {"min_rate": "20%", "expectation": "declared"}


def test_writes_between_leaves_are_counted() -> None:
    """12 of 16 flows, 64 + 1 + 1 + 128 tests each in two planes: 4 656."""
    assert run_tests_of(WIDE) == 8192
    assert run_tests_of(plan_of(scenario())) == LEAST_TESTS


def test_the_leaves_are_told_what_packets_are_reckoned_with() -> None:
    told = spraycheck_settings(WIDE.fabric, LabDir("x"), (), measuring_of(WIDE))
    assert told.required == asked_of(WIDE)
    assert told.required.run_tests == 8192


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
    assert needed_for(wide, 0.001) == declared_packets_needed(64, Requirements(0.001, run_tests=8192))
    assert (needed_for(wide, 0.001) or 0) > (declared_packets_needed(64, Requirements(0.001)) or 0)
