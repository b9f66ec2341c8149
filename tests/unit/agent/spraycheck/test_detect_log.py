"""The log of the detector: records and file."""

import json
import threading
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace as replaced

from agent.base.moment import Moment
from agent.spraycheck.accuse.common_causes import SourceEvidence
from agent.spraycheck.accuse.localization import Evidence, localize
from agent.spraycheck.accuse.monitor import Accusation, Monitor
from agent.spraycheck.detect_log import (
    DetectLog,
    conclusion_records,
    detect_records,
    localize_record,
    start_record,
    unmeasured_record,
)
from agent.spraycheck.errors import SettingsError
from agent.spraycheck.leaf.bpf_layout import Counting
from agent.spraycheck.leaf.flow_reports import FlowReport, MeasuredFlow, PathCounts, RefusedFlow
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.settings import read_settings
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import declared_miss
from agent.spraycheck.statistics.uniform import judge, plan_test
from agent.spraycheck.statistics.verdicts import Expectation, Requirements, Verdict
from agent.wire.constants import SprayPolicyCode
from tests.unit.agent.spraycheck.accuse.test_monitor import ASKED, PAIRS, few, small

STAMP = Moment(utc_ns=1_772_000_000_123_456_789, mono_ns=42)
FLOW = MeasuredFlow(0, 3, 4, 3, 4, 0x4001, 1, 8 * 4096)


START = start_record(0, Counting(32, narrow=True), Requirements(0.01), STAMP)


def short_report():
    test = plan_test(FlowShape(SprayPolicyCode.ROTATION, FLOW.packets, 8), Requirements(0.01))
    counts = np.array([4096, 4096, 4096, 4096, 4096, 4055, 4096, 4096])
    flagged = counts < test.threshold
    told = PathCounts(counts, np.array([0, 0, 1, 0, 0, 0, 0, 0]), np.zeros(8, int), np.zeros(8, int), flagged)
    spines, expected = tuple(range(8)), (FLOW.packets / 8,) * 8
    return FlowReport(FLOW, Expectation.UNIFORM, spines, expected, test, judge(test, counts), told)


def as_dict(record):
    return json.loads(msgspec.json.encode(record))


def test_detect_carries_what_the_verdict_rests_on():
    record = as_dict(detect_records(short_report(), STAMP)[5])
    assert record == {
        "event": "DETECT",
        "ts": "2026-02-25T06:13:20.123456Z",
        "mono_ns": 42,
        "v": 1,
        "node": "p0-leaf4",
        "epoch": 1,
        "plane": 0,
        "spine": 5,
        "src_leaf": 3,
        "dst_leaf": 4,
        "src_host": 3,
        "dst_host": 4,
        "qpn": 0x4001,
        "expectation": "uniform",
        "N": 32768,
        "k": 8,
        "lambda": 4096.0,
        "count": 4055,
        "late": 0,
        "trimmed": 0,
        "again": 0,
        "flagged": True,
        "threshold": pytest.approx(4089.6),
        "s": 0.1,
        "snr": pytest.approx(0.64),
        "p_value": pytest.approx(0, abs=1e-100),
        "miss": pytest.approx(0, abs=1e-8),
        "verdict": "failed",
        "doubt": None,
        "reason": None,
        "entered": None,
        "began_ns": None,
        "ended_ns": None,
        "lost_from_ns": None,
        "lost_to_ns": None,
    }


def test_an_insufficient_verdict_without_a_test_has_nulls_and_a_reason():
    flow = short_report()
    verdicts = tuple(replace(each, snr=None, p_value=None) for each in flow.verdicts)
    record = as_dict(
        detect_records(replace(flow, verdicts=verdicts, test=None, counts=replace(flow.counts, flagged=None)), STAMP)[0]
    )
    assert (record["threshold"], record["s"], record["snr"], record["miss"]) == (None, None, None, None)
    assert record["lambda"] == 4096.0


def test_localize_refers_to_its_evidence():
    (accusation,) = Monitor().observe([short_report()], {}, 7)
    record = as_dict(localize_record(accusation, STAMP))
    assert record["state"] == "ambiguous"
    assert record["candidates"] == [["p0:leaf3>spine5", "p0:spine5>leaf4"]]
    assert record["links"] == []
    assert record["evidence"] == [
        {"path": "p0:leaf3>spine5>leaf4", "node": "p0-leaf4", "qpn": 0x4001, "spine": 5, "verdict": Verdict.FAILED}
    ]
    assert (record["pending"], record["insufficient"], record["first_named_ns"]) == (0, 0, None)
    assert [each["likelihood"] for each in record["estimates"]] == [0.5, 0.5]
    assert (record["deciding"], record["common"], record["common_candidates"]) == ([], [], [])


def test_localize_carries_causes_and_the_flow_that_decides():
    down, other = FabricPath(0, 3, 5, 4), FabricPath(0, 1, 6, 2)
    evidence = [Evidence(down, Verdict.FAILED, 1, 1000, 10), Evidence(other, Verdict.HEALTHY, 2, 1000, 0)]
    found = localize(evidence, sources=[SourceEvidence(1, 3, 3, 4, 1, Verdict.FAILED, Verdict.FAILED)])
    record = as_dict(localize_record(Accusation(1, Expectation.DECLARED, found, 0, 0, None), STAMP))
    (flow,) = record["deciding"]
    assert flow["rate"] == pytest.approx(0.01, rel=1e-3)
    assert (flow["path"], flow["src_leaf"], flow["packets"]) == ("p0:leaf1>spine5>leaf4", 1, None)
    assert record["common"] == ["p1:h3>leaf3"]


def test_lines_of_many_writers_stay_whole(tmp_path):
    path = tmp_path / "detect.jsonl"

    def write(number):
        with DetectLog(path) as log:
            for _ in range(200):
                log.append(replaced(START, ts="t" * 500, leaves=number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["leaves"] for line in lines) == [0] * 200 + [1] * 200 + [2] * 200 + [3] * 200


def test_a_log_that_is_not_open_says_so(tmp_path):
    with pytest.raises(ValueError, match="not open"):
        DetectLog(tmp_path / "x").append(START)


MAPS = {"flows_map": 1, "superseded_map": 2, "measured_map": 3, "tests_map": 4, "refused_map": 5, "elsewhere_map": 6}
LEAF = {"plane": 0, "leaf": 4, "spines": [0, 1], **MAPS}


def test_settings_are_read_whole_or_refused(tmp_path):
    path = tmp_path / "settings.json"
    good = {"lab": "lab", "detect_log": "x", "leaves": [LEAF], "min_rate": 0.01}
    path.write_text(json.dumps(good))
    settings = read_settings(path)
    rules = settings.rules_of(settings.leaves[0])
    assert (rules.required, rules.spines, rules.erase_after_ns) == (Requirements(0.01), (0, 1), 60 * 10**9)
    for wrong in ({"min_rate": 0}, {"min_rate": 1.5}, {"leaves": []}, {"unknown": 1}, {"poll_ms": 0}):
        path.write_text(json.dumps(good | wrong))
        with pytest.raises(SettingsError, match=r"settings\.json"):
            read_settings(path)
    with pytest.raises(SettingsError):
        read_settings(tmp_path / "absent.json")


def test_the_start_says_how_much_a_leaf_keeps_of_a_flow():
    """SprayCheck D1: one measured flow of each of 31 other leaves, 32 spines, under 2 KB."""
    assert (START.counter_bits, START.counter_bytes) == (16, 64)
    assert 31 * START.counter_bytes < 2048
    assert START.record_bytes == Counting(32, narrow=True).flow.itemsize


def concluded(*flows):
    monitor = Monitor(ASKED)
    monitor.observe(flows, {}, 1)
    (told,) = monitor.conclusions()
    return [as_dict(each) for each in conclusion_records(told, STAMP)]


def test_a_link_tells_what_its_conclusion_rests_on():
    flows = [few(*pair, at, {5: 1} if pair[0] == 3 else {}) for at in range(4) for pair in PAIRS]
    links = [each for each in concluded(*flows) if each["event"] == "LINK"]
    assert [each["link"] for each in links[:2]] == ["p0:leaf1>spine0", "p0:leaf1>spine1"]
    told = next(each for each in links if each["link"] == "p0:leaf3>spine5")
    assert told == {
        "event": "LINK", "ts": "2026-02-25T06:13:20.123456Z", "mono_ns": 42, "v": 1, "node": "monitor", "epoch": 1,
        "link": "p0:leaf3>spine5", "expectation": "declared", "flows": 8, "sent": 2000, "lost": 8,
        "p_value": pytest.approx(6.3e-27, rel=0.01), "miss": pytest.approx(declared_miss(2000, 16_000, ASKED)),
        "likelihood": 1.0, "rate": pytest.approx(0.004, rel=0.01), "alternatives": [], "since_ns": 1,
        "leaves": ["p0-leaf4", "p0-leaf6"], "packets": 2000, "paths": 8,
        "verdict": "failed", "doubt": None, "reason": None,
    }  # fmt: skip


def test_a_path_tells_how_many_flows_and_packets_its_conclusion_rests_on():
    records = concluded(*(small(3, 4, at, lost=900) for at in range(10)))
    paths = [each for each in records if each["event"] == "PATH"]
    assert [each["spine"] for each in paths] == list(range(8))
    assert [each["verdict"] for each in paths] == ["failed" if spine == 5 else "healthy" for spine in range(8)]
    told = paths[5]
    assert (told["by"], told["flows"], told["lambda"], told["count"]) == ("flows", 10, 1_000_000, 991_000)
    assert [told[name] for name in ("plane", "src_leaf", "dst_leaf", "expectation")] == [0, 3, 4, "uniform"]


def test_a_flow_without_room_is_told_with_its_ends_and_the_leaf_that_has_none():
    record = as_dict(unmeasured_record(RefusedFlow(1, 4, 3, 4, 5, 6, 0x4001, 7, "no room"), STAMP))
    ends = [record[name] for name in ("plane", "src_leaf", "dst_leaf", "src_host", "dst_host", "qpn", "epoch")]
    assert (record["event"], record["node"], ends) == ("UNMEASURED", "p1-leaf4", [1, 3, 4, 5, 6, 0x4001, 7])
    assert record["reason"] == "no room"
