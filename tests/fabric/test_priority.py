"""The measured flow goes first through a port that is full (SprayCheck F4), which shows in when flows end."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from results.files.event_log import read_records
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

RATE = "20Mbit"
"""Of an uplink. Two flows of one leaf, each spread over its four uplinks, want several times as much."""

ATTEMPTS = 3
"""An engine that had to wait for its core is late, whatever the queues do."""


def run(lab: Lab, folder: Path, name: str, **parts: Any) -> tuple[list[float], list[dict[str, Any]]]:
    """How long two equal flows of one leaf to two others took, and what was recorded of them."""
    work = [{"pairs": [[0, 2]], "packets": 16384}, {"pairs": [[1, 4]], "packets": 16384}]
    scenario = {
        "version": 1,
        "name": name,
        "workloads": work,
        "transport": {"ack_timeout_ms": 5000},
        "expect": {"detected": []},
        **parts,
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(scenario))
    summary = trusted(lab, "run", "--attach", str(file))
    assert summary["detected"]["named"] == []
    records = list(read_records(lab.runs / summary["run"] / "detect.jsonl"))
    return [flow["seconds"] for flow in summary["flows"]], records


def test_the_measured_flow_has_the_uplinks_to_itself_and_the_other_waits(tmp_path: Path) -> None:
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "--planes", "1", "--leaves", "4", "--spines", "4", "--hosts-per-leaf", "2")
        slow = [{"link": "p0:leaf0>spine*", "rate": RATE, "queue": 1 << 20}]
        for _ in range(ATTEMPTS):
            shared, _ = run(lab, tmp_path, "without", faults=slow)
            if max(shared) < 1.33 * min(shared):
                break
        assert max(shared) < 1.33 * min(shared), "equal flows share a port equally"
        for _ in range(ATTEMPTS):
            times, records = run(lab, tmp_path, "first", detector={"select": "one", "priority_rate": RATE})
            (chosen,) = (record for record in records if record["event"] == "SELECT")
            measured = {1: 0, 2: 1}[chosen["dst_leaf"]]
            first, other = times[measured], times[1 - measured]
            one_waits = first < 0.7 * other and first < 0.75 * min(shared)
            if one_waits and 0.75 * max(shared) < other < 1.33 * max(shared):
                break
        assert one_waits, ("one has the rate to itself, and the other waits until it is over", first, other, shared)
        assert 0.75 * max(shared) < other < 1.33 * max(shared), "all is done when it was done without"
        assert {record["src_host"] for record in records if record["event"] == "DETECT"} == {measured}
    assert lab.left() == []
