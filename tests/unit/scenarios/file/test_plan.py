"""A scenario on its fabric: flows, faults and captures spelt out; on another fabric it is checked anew."""

import pytest

from scenarios.errors import ScenarioRefusedError
from scenarios.file.load import load_scenario, scenario_from
from scenarios.file.plan import checked_on, plan_of
from scenarios.file.scenario_files import CATALOG
from scenarios.run.judge.plan_warnings import power_of

TEXT = """
version: 1
name: x
topology: {planes: 2, leaves: 2, spines: 3, hosts_per_leaf: 2}
workloads:
  - {strides: [1, -1], packets: 512, message_bytes: 64KiB}
  - {pairs: [[0, 3]], bytes: 2560}
faults:
  - {link: "p*:leaf1>spine0", drop: 50bp}
  - {link: p1:h2-leaf1, drop: 2%}
capture: ["p0:leaf0>spine1", "p0:leaf0-spine1"]
"""


def test_gray_link_is_the_flagship() -> None:
    plan = plan_of(load_scenario(CATALOG / "gray-link.yaml"))
    assert len(plan.flows) == 16
    assert {flow.payload_bytes for flow in plan.flows} == {16 << 20}
    assert {flow.message_bytes for flow in plan.flows} == {1 << 20}
    assert plan.fault_texts == (("p0:leaf3>spine5", "drop 1%"),)
    assert plan.region_bytes == 512 << 20


def test_flows_of_strides_and_pairs() -> None:
    flows = [(flow.source, flow.destination) for flow in plan_of(scenario_from(TEXT, "x")).flows]
    assert flows == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 3), (1, 0), (2, 1), (3, 2), (0, 3)]


def test_flows_that_begin_later_and_keep_a_rate() -> None:
    text = TEXT.replace("packets: 512,", "packets: 512, at: 1.5s, rate: 4Mbit,")
    first, *_, last = plan_of(scenario_from(text, "x")).flows
    assert (first.at_ns, first.rate_bps) == (1_500_000_000, 4_000_000)
    assert (last.at_ns, last.rate_bps) == (0, None)


@pytest.mark.parametrize(("key", "value"), [("at", "2"), ("at", "soon"), ("rate", "10"), ("rate", "0")])
def test_when_and_how_fast_carry_units(key: str, value: str) -> None:
    with pytest.raises(ScenarioRefusedError, match=rf"workloads\.0\.{key}"):
        scenario_from(TEXT.replace("packets: 512,", f"packets: 512, {key}: {value},"), "x")


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("expect: {within_s: .inf}", "expect.within_s"),
        ("expect: {goodput: 1Mbit, goodput_after_s: 1e30}", "expect.goodput_after_s"),
        ("limits: {captures: 99999999999999GiB}", "limits.captures"),
        ("limits: {events: 99999999999999GiB}", "limits.events"),
    ],
)
def test_what_no_run_can_reach_is_refused(part: str, place: str) -> None:
    with pytest.raises(ScenarioRefusedError, match=place):
        scenario_from(TEXT + part, "x")


@pytest.mark.parametrize("key", ["at: 1s", "rate: 1Mbit"])
def test_collectives_begin_at_once_and_as_fast_as_they_can(key: str) -> None:
    collective = f"workloads:\n  - {{group: dp, bytes: 64KiB, {key}}}"
    text = TEXT[: TEXT.index("workloads:")] + collective
    with pytest.raises(ScenarioRefusedError, match="is for writes, and this is all-reduce"):
        scenario_from(text, "x")


def test_a_flow_without_message_size_is_one_message() -> None:
    last = plan_of(scenario_from(TEXT, "x")).flows[-1]
    assert (last.payload_bytes, last.message_bytes) == (2560, 2560)


def test_wildcards_and_both_directions_are_spelt_out() -> None:
    faults = [f"{link} {fault}" for link, fault in plan_of(scenario_from(TEXT, "x")).fault_texts]
    assert faults == [
        "p0:leaf1>spine0 drop 0.5%",
        "p1:leaf1>spine0 drop 0.5%",
        "p1:h2>leaf1 drop 2%",
        "p1:leaf1>h2 drop 2%",
    ]


def test_a_link_is_captured_once() -> None:
    assert [str(link) for link in plan_of(scenario_from(TEXT, "x")).captures] == ["p0:leaf0-spine1"]


def test_scenario_moves_to_a_lab_of_another_size() -> None:
    scenario = load_scenario(CATALOG / "healthy.yaml")
    moved = checked_on(scenario, {"planes": 1, "leaves": 4, "spines": 2, "hosts_per_leaf": 1})
    plan = plan_of(moved)
    assert len(plan.flows) == 8
    assert plan.fabric.spec.spines == 2


def test_scenario_that_does_not_fit_the_lab_is_refused() -> None:
    scenario = load_scenario(CATALOG / "gray-link.yaml")
    with pytest.raises(ScenarioRefusedError, match=r"gray-link on a lab of 4x4x2.*faults\.0\.link.*no such link"):
        checked_on(scenario, {"planes": 2, "leaves": 4, "spines": 4, "hosts_per_leaf": 1})


LONG = """
version: 1
name: long
topology: {planes: PLANES, leaves: 2, spines: 2, hosts_per_leaf: 1}
workloads:
  - {type: write, pairs: [[0, 1]], bytes: SIZE}
"""


@pytest.mark.parametrize("planes", ["1", "4"])
def test_a_flow_is_as_long_as_its_psns_can_tell_and_no_longer(planes: str) -> None:
    text = LONG.replace("PLANES", planes)
    plan = plan_of(scenario_from(text.replace("SIZE", "4GiB"), "x"))
    assert power_of(plan).packets_a_path == (1 << 24) // 2 // int(planes)
    with pytest.raises(ScenarioRefusedError, match=r"x:6: workloads\.0\.bytes: 16777217 packets .* 4294967296"):
        scenario_from(text.replace("SIZE", "4294967552"), "x")


def test_rounds_count_as_well() -> None:
    text = LONG.replace("PLANES", "1").replace("type: write, pairs: [[0, 1]]", "type: all-reduce, iterations: 4000")
    scenario_from(text.replace("SIZE", "1MiB"), "x")
    with pytest.raises(ScenarioRefusedError, match=r"workloads\.0\.iterations: 32776197 packets"):
        scenario_from(text.replace("SIZE", "2MiB"), "x")
