"""What a scenario asks of SprayCheck, and how many verdicts follow from it."""

from typing import Any

from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.lab.protocol import Measuring
from scenarios.run.measuring import gets_uneven_parts, measuring_of, verdicts_wanted


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
    records = [{"event": "SELECT"}] * 11 + [{"event": "DETECT"}] * 40
    assert verdicts_wanted(plan, records) == 11 * 3


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
    assert gets_uneven_parts(scenario(transport=adapts))
    assert scenario(transport=adapts, detector={"expectation": "uniform"}).judged_by == "uniform"
    assert scenario(transport=adapts, detector={"counter_bits": 16}).judged_by == "uniform"
    assert not gets_uneven_parts(scenario(detector={"expectation": "declared"}))
