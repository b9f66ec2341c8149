"""What a scenario's flows can show is known before the run."""

from fractions import Fraction
from typing import Any

import pytest

from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run.judge.detector_demands import needed_for
from scenarios.run.judge.plan_warnings import failures_of, power_of, warnings_of

LINK = "p0:leaf3>spine5"


def plan(packets: int = 32768, **parts: Any) -> Plan:
    values = {
        "version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1, 3), "packets": packets},),
        "faults": ({"link": LINK, "drop": "1%"},),
    }  # fmt: skip
    return plan_of(Scenario.model_validate(values | parts))


@pytest.mark.parametrize(("spines", "needed"), [(8, 1799), (4, 1955), (2, 2835)])
def test_packets_a_path_for_one_percent_are_those_of_the_documents(spines: int, needed: int) -> None:
    small = plan(topology={"spines": spines}, faults=())
    assert needed_for(small, 0.01) == needed


def test_a_rate_that_no_flow_can_show_has_no_number() -> None:
    assert needed_for(plan(transport={"spray": "random"}), 1e-5) is None
    told = list(warnings_of(plan(transport={"spray": "random"}, detector={"min_rate": "0.1%"})))
    assert "no flow can be long enough" in told[0]


def test_long_flows_need_no_warning() -> None:
    assert power_of(plan()).packets_a_path == 2048
    assert list(warnings_of(plan())) == []


def test_short_flows_are_told_what_they_need() -> None:
    (told,) = warnings_of(plan(packets=2048))
    assert "128 packets per path, but a drop of 1% (detector.min_rate) needs 1,799" in told
    assert "send 28,784 packets per flow" in told


def test_a_fault_below_the_asked_rate_may_be_missed() -> None:
    (told,) = warnings_of(plan(faults=({"link": LINK, "drop": "0.5%"},)))
    assert "the fault's drop of 0.5% needs 4,223" in told


def test_rates_are_told_with_four_digits_and_kept_exactly() -> None:
    counted = plan(packets=2048, faults=({"link": LINK, "one_in": 11},))
    assert [rate for rate, _ in power_of(counted).for_faults] == [Fraction(1, 11)]
    assert any("the fault's drop of 9.091% needs" in told for told in warnings_of(counted))


def test_a_fault_of_the_asked_rate_is_not_told_twice() -> None:
    assert power_of(plan(faults=({"link": LINK, "drop": "100bp"},))).for_faults == ()


def test_links_of_hosts_are_named_by_declared_counts_only() -> None:
    (told,) = warnings_of(plan(faults=({"link": "p0:h2>leaf2", "drop": "1%"},)))
    assert told.startswith("p0:h2>leaf2: paths of flows that lose on a host's link may be `insufficient`")


def test_an_expectation_that_the_faults_do_not_meet_is_told() -> None:
    told = list(warnings_of(plan(expect={"detected": ("p1:leaf0>spine0",)})))
    assert "names p1:leaf0>spine0, on which the scenario drops nothing" in told[0]
    assert f"does not name {LINK}" in told[1]


def test_a_fault_that_takes_no_first_transmission_is_told_and_demands_nothing() -> None:
    (told,) = warnings_of(plan(faults=({"link": LINK, "drop": "50%", "only_dscp": "TRIMMABLE_RETX"},)))
    assert told == f"{LINK}: this fault drops no first transmissions, and SprayCheck counts no other packets"


def test_a_fault_that_no_data_crosses_is_told() -> None:
    pairs = ({"type": "write", "pairs": ((0, 1), (2, 1)), "packets": 32768},)
    for link, crossed in (("p0:leaf0>spine5", True), ("p0:leaf1>spine5", False), ("p0:spine5>leaf1", True),
                          ("p0:spine5>leaf0", False), ("p0:h0>leaf0", True), ("p0:leaf0>h0", False)):  # fmt: skip
        told = list(warnings_of(plan(workloads=pairs, faults=({"link": link, "delay": "1ms"},))))
        assert any("no flow sends data over it" in text for text in told) is not crossed, link


def test_flows_that_cannot_meet_a_fault_are_told_beforehand_and_count_for_nothing() -> None:
    """Stride 1 takes 2.2 s at its rate, the fault begins after 3 s on the path of stride 3."""
    work = ({"strides": (1,), "packets": 32768, "rate": "30Mbit"}, {"strides": (3,), "packets": 32768})
    late = ({"link": LINK, "drop": "1%", "mechanism": "ebpf", "at": "3s", "for": "2s"},)
    told = list(warnings_of(plan(workloads=work, faults=late)))
    idle = f"{LINK}: h0>h1 (and 7 more flows) is not under way while this fault is in force"
    assert any(text.startswith(idle) for text in told)
    assert any("only flows from leaf3 to leaf6 cross it" in text for text in told)
    early = ({"link": LINK, "drop": "1%", "mechanism": "ebpf", "at": "1s", "for": "2s"},)
    assert list(warnings_of(plan(workloads=work, faults=early))) == []


def test_flows_too_short_are_told_also_where_the_transport_leaves_paths() -> None:
    paper: dict[str, Any] = {"transport": {"ev": {"loss_policy": "paper"}}, "detector": {"expectation": "declared"}}
    assert any("undecided, and the run fails" in text for text in warnings_of(plan(packets=256, **paper)))
    assert not any("undecided, and the run fails" in text for text in warnings_of(plan(**paper)))


def test_flows_below_one_leaf_are_not_judged() -> None:
    (told,) = warnings_of(plan(topology={"leaves": 8, "hosts_per_leaf": 2}, faults=(), workloads=(
        {"type": "write", "pairs": ((0, 1),), "packets": 100},)))  # fmt: skip
    assert "no flow crosses a spine" in told


def test_flows_of_fewer_packets_than_paths_are_told_as_that() -> None:
    (told,) = warnings_of(plan(packets=8, faults=()))
    assert "0 packets per path, but a drop of 1% (detector.min_rate) needs 1,799: undecided" in told


SMALL_ROUNDS = ({"type": "all-reduce", "bytes": "64KiB", "iterations": 1},)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, ""),
        ({"packets": 2048}, "p0:leaf0>spine0 and 239 more links: 128 packets per path, but a drop of 1%"),
        ({"packets": 8}, "p0:leaf0>spine0 and 239 more links: 0 packets per path, but a drop of 1%"),
        ({"packets": 8, "expect": {"detection": "recorded"}}, ""),
        ({"expect": {"detected": ("p1:leaf0>spine0",)}}, "expect.detected names p1:leaf0>spine0, on which"),
        ({"workloads": SMALL_ROUNDS}, "p0:leaf0>spine0 and 239 more links: 56 packets per path, but a drop of 1%"),
        ({"workloads": SMALL_ROUNDS, "expect": {"detection": "recorded"}}, ""),
        (
            {"workloads": ({"pairs": ((0, 1),), "packets": 100},), "topology": {"leaves": 8, "hosts_per_leaf": 2}},
            f"SprayCheck measures no flow between leaves, so {LINK} will not be named",
        ),
        ({"faults": ({"link": LINK, "drop": "0.5%"},)}, ""),
        ({"transport": {"trimming": True}}, ""),
    ],
)
def test_only_what_must_fail_is_a_failure(parts: dict[str, Any], why: str) -> None:
    told = list(failures_of(plan(**parts)))
    assert len(told) == bool(why)
    assert all(text.startswith(why) for text in told)


def test_where_detection_is_only_recorded_nobody_is_warned_of_it() -> None:
    told = plan(packets=64, transport={"ev": {"loss_policy": "paper"}}, expect={"detection": "recorded"})
    assert list(warnings_of(told)) == []


@pytest.mark.parametrize(("policy", "retired"), [("paper", "its first loss"), ("threshold", "3 losses within 50 ms")])
def test_paths_that_are_left_after_a_loss_may_not_get_the_packets_told(policy: str, retired: str) -> None:
    transport = {"ev": {"loss_policy": policy, "active": 6, "bad_after": 3, "bad_window_ms": 50}}
    settings: Any = {"transport": transport, "detector": {"expectation": "declared"}}
    told = list(warnings_of(plan(**settings)))
    assert any(f"an EV is retired at {retired}, so a path that drops is left early" in text for text in told)
    assert any("transport.ev.active is 6 of 16: spares carry nothing" in text for text in told)
    assert not any("is left early" in text for text in warnings_of(plan(**settings, faults=())))


def test_a_transport_that_spreads_unevenly_is_told() -> None:
    (told,) = warnings_of(plan(transport={"ev": {"loss_policy": "paper"}}, detector={"expectation": "uniform"}))
    assert told.startswith("transport.ev.loss_policy is paper: when an EV is retired")


@pytest.mark.parametrize(
    ("fault", "switch"),
    [
        ({"target": "p0-spine2", "reboot": "300ms"}, "p0-spine2"),
        ({"target": "p1-leaf3", "hang": True}, "p1-leaf3"),
        ({"target": "p0:leaf*>spine4", "drop": "2%"}, "p0-spine4"),
    ],
)
def test_faults_on_a_whole_switch_are_not_told_apart(fault: dict[str, Any], switch: str) -> None:
    told = [text for text in warnings_of(plan(faults=(fault,))) if "on all of its links" in text]
    assert [text.partition(":")[0] for text in told] == [switch]
    assert "expect.detection: recorded" in told[0]
    assert list(warnings_of(plan(faults=(fault,), expect={"detection": "recorded"}))) == []


@pytest.mark.parametrize(
    "fault", [{"target": "p0-spine2", "delay": "1ms"}, {"target": "p0:leaf*>spine4", "drop": "2%"}]
)
def test_what_loses_nothing_or_spares_a_link_is_not_a_switch_gone(fault: dict[str, Any]) -> None:
    spared = fault if "delay" in fault else fault | {"target": "p0:leaf3>spine4, p0:leaf2>spine4"}
    assert [text for text in warnings_of(plan(faults=(spared,))) if "on all of its links" in text] == []


def test_a_whole_spine_whose_links_are_told_apart_is_not_warned_of() -> None:
    """Flows of one leaf only: the one uplink that they share is the fewest that explains all they lose."""
    from_one = ({"type": "write", "pairs": ((0, 1), (0, 2)), "packets": 32768},)
    assert list(warnings_of(plan(workloads=from_one, faults=({"link": "p0:leaf*>spine4", "drop": "2%"},)))) == []


def test_all_uplinks_of_a_leaf_are_accused_together_by_declared_counts() -> None:
    whole = ({"link": "p0:leaf3>spine*", "drop": "2%"},)
    (declared,) = warnings_of(plan(faults=whole, detector={"expectation": "declared"}))
    assert (
        declared == "p0-leaf3: the faults are on all of its links one way, so SprayCheck can accuse them only together"
    )
    (uniform,) = warnings_of(plan(faults=whole))
    assert "will hardly hold" in uniform
    elsewhere = ({"type": "write", "pairs": ((0, 1),), "packets": 32768},)
    assert not any("all of its links" in text for text in warnings_of(plan(workloads=elsewhere, faults=whole)))
