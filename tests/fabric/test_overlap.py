"""Flows that overlap with another, congestion and reordering: nobody is accused (SprayCheck F4, E4)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

RATE = "20Mbit"
"""Of an uplink: four of them take some 25,000 packets a second, so that two flows of one leaf queue for them."""

PATIENT = {"ack_timeout_ms": 4000}
"""A full queue of 1 MiB holds a packet for 0.4 s, and one that others go before for longer: no reason to resend it."""

TIMINGS = {
    "shorter": ({"packets": 16384}, {"packets": 8192, "at": "100ms"}),
    "longer": ({"packets": 8192, "at": "300ms"}, {"packets": 24576}),
    "midway": ({"packets": 16384}, {"packets": 16384, "at": "300ms"}),
}
"""The flow that is looked at, and the other one of its leaf."""

SLOW = [{"link": "p0:leaf0>spine*", "rate": RATE, "queue": "1MiB"}]


def run(lab: Lab, folder: Path, name: str, **parts: Any) -> dict[str, Any]:
    """The summary of a run in which nothing may be named."""
    scenario = {"version": 1, "name": name, "transport": PATIENT, "expect": {"detected": []}, **parts}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(scenario))
    summary = trusted(lab, "run", "--attach", str(file))
    assert summary["detected"]["named"] == []
    assert not summary["detected"]["verdicts"].get("failed")
    return summary


def two_flows(timing: str) -> list[dict[str, Any]]:
    """The workloads of a timing."""
    looked_at, other = TIMINGS[timing]
    return [{"pairs": [[0, 2]], **looked_at}, {"pairs": [[1, 4]], **other}]


def times(flow: dict[str, Any]) -> tuple[float, float]:
    """When a flow began and ended."""
    return flow["began_s"], flow["began_s"] + flow["seconds"]


def overlap(timing: str, looked_at: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the flows ran as the timing says."""
    (began, ended), (other_began, other_ended) = looked_at, other
    return {
        "shorter": began < other_began < other_ended < ended,
        "longer": other_began < began < ended < other_ended,
        "midway": began < other_began < ended < other_ended,
    }[timing]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with own_lab(tmp_path_factory.mktemp("runs")) as lab:
        lab("up", "--planes", "1", "--leaves", "4", "--spines", "4", "--hosts-per-leaf", "2")
        yield lab
        lab("down")
        assert lab.left() == []


@pytest.mark.parametrize("timing", TIMINGS)
def test_flows_that_overlap_accuse_nobody(lab: Lab, tmp_path: Path, timing: str) -> None:
    for _ in range(3):  # an engine that had to wait for its core may be overtaken
        summary = run(lab, tmp_path, timing, workloads=two_flows(timing), faults=SLOW)
        assert summary["detected"]["verdicts"] == {"healthy": 8}
        told = tuple(map(times, summary["flows"]))
        if overlap(timing, *told):
            break
    assert overlap(timing, *told), told


def test_one_of_two_flows_that_overlap_goes_first_and_nobody_is_accused(lab: Lab, tmp_path: Path) -> None:
    first = {"select": "one", "priority_rate": RATE}
    summary = run(lab, tmp_path, "first", workloads=two_flows("midway"), detector=first)
    assert summary["detected"]["verdicts"] == {"healthy": 4}, "of the flow that was announced first"


def test_congestion_and_unequal_delays_accuse_nobody(lab: Lab, tmp_path: Path) -> None:
    crowd = [{"pairs": [[0, 2], [4, 2], [6, 3]], "packets": 8192}]
    slow = [{"link": "p0:spine*>leaf1", "rate": RATE, "queue": "1MiB"}]
    summary = run(lab, tmp_path, "congestion", workloads=crowd, faults=slow)
    assert summary["detected"]["verdicts"] == {"healthy": 12}
    one_slow = [{"link": "p0:spine1>leaf1", "rate": "10Mbit", "queue": "1MiB"}]
    summary = run(lab, tmp_path, "unequal", workloads=crowd, faults=one_slow)
    assert summary["detected"]["verdicts"] == {"healthy": 12}
    late = [sum(flow["reordering"]["late"]) for flow in summary["flows"]]
    assert min(late) > 500, "paths of unequal delay reorder"
