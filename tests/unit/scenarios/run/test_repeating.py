"""What is said to repeat with the seed holds for this scenario."""

from typing import Any

import pytest

from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.run.repeating import repeating_of

ORDER = "the order in which each queue pair uses its entropy values"
LINK = "p0:leaf3>spine5"


def told(attached: bool = False, **parts: Any) -> tuple[str, str]:
    """What repeats and what varies, as text."""
    values = {"version": 1, "name": "x", "workloads": ({"strides": (1, 3), "packets": 4096},)}
    found = repeating_of(plan_of(Scenario.model_validate(values | parts)), attached)
    return "\n".join(found.repeats), "\n".join(found.varies)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"faults": ({"link": LINK, "drop": "1%"},)},
        {"faults": ({"link": LINK, "down": True},)},
        {"transport": {"spray": "random", "congestion": {"algorithm": "nscc"}}},
        {"transport": {"ev": {"active": 8}}},
    ],
)
def test_paths_of_packets_repeat_where_no_entropy_value_leaves(parts: dict[str, Any]) -> None:
    repeats, varies = told(**parts)
    assert ORDER in repeats
    assert "hence every N and λ" in repeats
    assert "path, hence" not in varies


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"transport": {"ev": {"loss_policy": "paper"}}}, "loss_policy paper"),
        ({"transport": {"ev": {"loss_policy": "threshold"}}}, "loss_policy threshold"),
        ({"faults": ({"target": "h3:plane1", "flap": "period=2s"},)}, "a host's port is shut (flap)"),
        ({"faults": ({"target": "p0-leaf2", "reboot": "300ms"},)}, "a host's port is shut (reboot)"),
        ({"detector": {"act": True}}, "detector.act"),
    ],
)
def test_where_they_leave_and_return_it_is_said_to_vary_and_why(parts: dict[str, Any], why: str) -> None:
    repeats, varies = told(**parts)
    assert ORDER not in repeats
    assert "λ" not in repeats
    assert "payload bytes" in repeats
    assert why in varies


def test_on_a_lab_that_is_up_others_may_interfere_and_its_seed_chooses() -> None:
    repeats, _ = told(attached=True)
    assert repeats.count("unless links are denied or ports shut by hand") == 2
    repeats, varies = told(attached=True, transport={"ev": {"active": 8}})
    assert ORDER not in repeats
    assert "chosen by the lab's seed" in varies


def test_with_one_flow_at_a_time_which_are_measured_varies() -> None:
    assert "which flows are measured" in told(detector={"select": "one"})[1]
    assert "which flows are measured" not in told()[1]


def test_only_drops_without_a_seed_are_said_to_vary() -> None:
    repeats, varies = told()
    assert [line for line in varies.splitlines() if "drop" in line] == [
        "which packets a random drop takes whose fault_seed is null (netem before Linux 6.7)"
    ]
    assert "fault_seed" in repeats
