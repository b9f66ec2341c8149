"""Faults put on and taken off while traffic runs cost what they drop, and nothing on any other link."""

import json
import time
from pathlib import Path

import pytest

from tests.support.namespaces import needs_root
from tests.support.spraylab_command import own_lab

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

SCENARIO = """
version: 1
name: live
topology: {planes: 2, leaves: 2, spines: 2}
transport: {pmtu: 256, ack_timeout_ms: 5000}
workloads:
  - {type: write, strides: [1], bytes: 64MiB, message_bytes: 1MiB}
"""
LINK = "p1:leaf0>spine1"


def test_setting_and_clearing_under_traffic_costs_no_more_than_the_drops(tmp_path: Path) -> None:
    scenario = tmp_path / "live.yaml"
    scenario.write_text(SCENARIO)
    with own_lab(tmp_path) as lab:
        lab("up", "--planes", "2", "--leaves", "2", "--spines", "2")
        for _ in range(3):
            summary, changes = run_with_changes(lab, scenario)
            if not summary["load"]["overloaded"]:
                break
        assert changes >= 3, "the traffic outlived several changes"
        dropped = sum(fault["dropped_writes"] for fault in summary["injected"])
        assert {fault["link"] for fault in summary["injected"]} == {LINK}
        assert dropped > 0
        assert summary["totals"]["bytes_wrong"] == 0
        assert abs(summary["totals"]["retransmissions"] - dropped) <= max(3, 0.05 * dropped), summary["load"]


def run_with_changes(lab, scenario: Path):
    """One run, and how many times the fault was put on and taken off during it."""
    run = lab.start("run", "--attach", str(scenario), "--json")
    changes = 0
    while run.poll() is None:
        lab("fault", "set", LINK, "--drop", "2%", "--mechanism", "ebpf")
        time.sleep(0.2)
        lab("fault", "clear", "--all")
        changes += 1
    stdout, stderr = run.communicate()
    assert run.returncode in (0, 1, 5), stderr
    return json.loads(stdout), changes
