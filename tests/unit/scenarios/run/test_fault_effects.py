"""Faults that take a port out of service under traffic are told before the run."""

from typing import Any

import pytest

from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.run.judge.plan_warnings import warnings_of
from scenarios.run.judge.planned_losses import outage_warnings

HOST, SWITCH = "p0:h3>leaf3", "p0:leaf3>spine5"


def told(*faults: dict[str, Any]) -> list[str]:
    values = {
        "version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1,), "packets": 32768},),
        "faults": faults,
    }  # fmt: skip
    plan = plan_of(Scenario.model_validate(values))
    found = list(outage_warnings(plan))
    assert set(found) <= set(warnings_of(plan))
    return found


@pytest.mark.parametrize(
    ("timing", "acts"),
    [
        ({}, ""),
        ({"on": "traffic"}, ""),
        ({"at": "0s"}, ""),
        ({"at": "1s"}, "setting"),
        ({"on": "detected"}, "setting"),
        ({"for": "1s"}, "clearing"),
        ({"until": "detected"}, "clearing"),
        ({"at": "1s", "for": "1s"}, "setting and clearing"),
        ({"for": "1s", "every": "3s"}, "setting and clearing"),
    ],
)
def test_only_what_changes_under_traffic(timing: dict[str, str], acts: str) -> None:
    found = told({"link": HOST, "drop": "1%", "mechanism": "ebpf", **timing})
    assert len(found) == bool(acts)
    assert all(text.startswith(f"{HOST} drop 1%: {acts} it under traffic takes") for text in found)


def test_only_ports_and_mechanisms_that_swap_a_qdisc() -> None:
    at = {"at": "1s"}
    assert told({"link": SWITCH, "drop": "1%", "mechanism": "ebpf", **at}) == []
    assert told({"link": HOST, "down": True, **at}) == []
    assert len(told({"link": SWITCH, "rate": "10Mbit", **at})) == 1
    assert len(told({"link": SWITCH, "drop": "1%", "mechanism": "netem", **at})) == 1


def test_what_the_machine_chooses_is_told_with_what_avoids_it() -> None:
    (found,) = told({"link": SWITCH, "drop": "1%", "at": "1s"})
    assert "by netem (`mechanism: ebpf` avoids it) takes the port out of service" in found


def test_what_this_machine_does_not_have_is_not_warned_of() -> None:
    values = {
        "version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1,), "packets": 32768},),
        "faults": ({"link": SWITCH, "drop": "1%", "at": "1s"},),
    }  # fmt: skip
    plan = plan_of(Scenario.model_validate(values))
    assert list(outage_warnings(plan, {"netem"})) == []
    assert [text for text in warnings_of(plan, {"netem"}) if "netem" in text] == []


def test_a_fault_that_stands_keeps_the_port_as_it_is() -> None:
    standing = {"link": HOST, "one_in": 100}
    timed = {"link": HOST, "drop": "1%", "mechanism": "ebpf", "at": "1s"}
    assert told(standing, timed) == []
    assert len(told(standing | {"link": "p1:h3>leaf3"}, timed)) == 1
    assert len(told(standing | {"for": "1s"}, timed)) == 2
