"""Every kind of workload on a lab of 4x2x2 with links that drop: numbers are right, what is lost is sent again."""

import json
from pathlib import Path

import pytest
import yaml

from scenarios.run.judge.checks import LATE_S, LATE_SHARE
from tests.support.namespaces import needs_root
from tests.support.run_schemas import problems_of
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

COLLECTIVES = {"all-reduce": 8, "all-to-all": 8, "sendrecv": 8, "incast": 1}
"""Hosts that receive, of eight."""

MEASURED = (0, 5)
"""A busy machine (5) makes a test's times worse, not its numbers."""


def rows(lab: Lab, *words: str) -> list[dict]:
    return [json.loads(line) for line in lab("perf", *words, "--json", code=MEASURED).stdout.splitlines()]


def test_all_kinds_under_loss(tmp_path: Path) -> None:
    scenario = {
        "version": 1,
        "name": "training-step",
        "transport": {"window_pkts": 64, "ack_timeout_ms": 5000},
        "workloads": [
            {"strides": [2, 6], "packets": 4096},
            {"group": "dp", "group_size": 4, "bytes": "512KiB", "iterations": 2},
            {"group": "ep", "group_size": 4, "bytes": "16KiB", "iterations": 2},
        ],
        "faults": [{"link": "p0:leaf2>spine1", "drop": "10%"}],
        "detector": {"min_rate": "10%"},
    }
    file = tmp_path / "training-step.yaml"
    file.write_text(yaml.safe_dump(scenario))
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "--planes", "2", "--leaves", "4", "--spines", "2", "--hosts-per-leaf", "2")
        lab("fault", "set", "p*:leaf0>spine*", "--drop", "2%")
        head = lab("perf", "write-bw", "h0", "h3", "-n", "10", code=MEASURED).stdout
        assert "# fault in force: p0:leaf0>spine0 drop 2%, set by hand" in head
        (bandwidth,) = rows(lab, "write-bw", "h0", "h3", "-s", "4096", "-n", "500", "-q", "2", "-b")
        assert (bandwidth["iterations"], bandwidth["wrong"]) == (2000, 0)
        assert bandwidth["cost"]["retransmissions"] > 0
        (latency,) = rows(lab, "write-lat", "h2", "h5", "-n", "100")
        assert 0 < latency["min_us"] <= latency["typical_us"] <= latency["max_us"]
        for name, receivers in COLLECTIVES.items():
            (row,) = rows(lab, name, "-b", "32KiB", "-e", "32KiB", "-n", "2", "-w", "0", "-m", "256")
            assert (row["wrong"], row["checked"]) == (0, receivers * 8192)
        (row,) = rows(lab, "tp", "--group-size", "2", "-b", "8KiB", "-e", "8KiB", "-n", "2", "-q", "2")
        assert (row["wrong"], len(row["hosts"])) == (0, 4)
        assert 0 <= row["cost"]["lost_here"] < row["cost"]["packets"] / 10
        lab("fault", "clear", "--all")
        summary = trusted(lab, "run", "--attach", str(file))
        assert [each["wrong"] for each in summary["collectives"]] == [0, 0]
        assert {each["workload"] for each in summary["flows"]} == {"write", "dp (all-reduce)", "ep (all-to-all)"}
        assert [named["link"] for named in summary["detected"]["named"]] == ["p0:leaf2>spine1"]
        assert summary["detected"]["unannounced"] == 0
        assert summary["detected"]["links"] == {"failed": 1, "healthy": 2 * 2 * 4 * 2 - 1}
        assert json.loads(lab("inspect", "h0", "--qps", "--json").stdout) == []
        assert (
            "is going on"
            not in lab("perf", "sendrecv", "--hosts", "h0,h1", "-e", "1KiB", "-n", "1", code=MEASURED).stderr
        )
        assert "no such" in lab("perf", "write-bw", "h0", "h99", code=2).stderr
    assert lab.left() == []


def test_flows_begin_when_asked_and_keep_their_rate_or_the_run_says_so(tmp_path: Path) -> None:
    def file(name: str, packets: int, **workload: object) -> Path:
        scenario = {
            "version": 1,
            "name": name,
            "topology": {"planes": 1, "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
            "workloads": [
                {"pairs": [[0, 2]], "packets": packets, **workload},
                {"pairs": [[1, 3]], "packets": 2048},
                {"pairs": [[2, 3]], "packets": 64, "at": "500ms"},
            ],
            "detector": {"min_rate": "10%"},
            "events": "detail",
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(scenario))
        return path

    with own_lab(tmp_path / "runs") as lab:
        summary = trusted(lab, "run", str(file("paced", 4096, at="1s", rate="4Mbit")))
        assert problems_of(lab.runs / summary["run"]) == [], "also of hosts below one leaf, and with all events"
        paced, other, _ = summary["flows"]
        assert paced["asked_bps"] == 4_000_000
        asked_s = paced["payload_bytes"] * 8 / 4_000_000
        assert 0.97 * asked_s <= paced["seconds"] <= asked_s * (1 + LATE_SHARE) + LATE_S, "not faster, and kept"
        assert (paced["at_s"], other["asked_bps"], other["began_s"]) == (1.0, None, 0.0)
        assert paced["began_s"] == pytest.approx(1.0, abs=LATE_S)
        told = lab("run", str(file("too-fast", 65536, rate="400Gbit")), code=5)
        assert "did not keep the rate asked for: h0>h2 sent" in told.stdout
    assert lab.left() == []
