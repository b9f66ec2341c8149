"""What a scenario asks of SprayCheck, and how many verdicts follow from it."""

from typing import Any

from agent.wire.detect_records import Select
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.lab.protocol import Measuring
from scenarios.run.judge.leaf_crossings import sendings_of
from scenarios.run.judge.measuring import announced_sendings, links_to_judge, measuring_of, verdicts_wanted
from scenarios.run.judge.packets_asked import needed_for


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
