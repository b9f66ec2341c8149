"""The main job as a user sees it: one command, the right link named, and a folder that holds what is promised."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from results.files.event_log import read_records
from scenarios.file.scenario_files import CATALOG
from tests.support.namespaces import needs_root
from tests.support.run_schemas import problems_of
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

DROPPING = "p0:leaf2>spine1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The summary and the folder of one run of gray-link-small."""
    runs = tmp_path_factory.mktemp("runs")
    with own_lab(runs, reports=True) as lab:
        summary = trusted(lab, "run", "gray-link-small")
        assert lab.left() == []
    return summary, (runs / "latest").resolve()


def test_the_right_link_is_named_and_no_other(run: tuple[dict[str, Any], Path]) -> None:
    summary, _ = run
    assert summary["outcome"] == "pass"
    assert [(each["link"], each["right"]) for each in summary["detected"]["named"]] == [(DROPPING, True)]
    assert summary["detected"]["named"][0]["by"] == ["p0-leaf1", "p0-leaf3"]
    assert (summary["detected"]["precision"], summary["detected"]["recall"]) == (1.0, 1.0)


def test_three_witnesses_stand_beside_each_other(run: tuple[dict[str, Any], Path]) -> None:
    summary, folder = run
    events, uniform, declared = summary["witnesses"]
    assert (events["state"], events["note"]) == ("silent", "no events (loss policy off)")
    assert (events["precision"], events["recall"]) == (None, 0.0)
    for each in (uniform, declared):
        assert [(named["link"], named["right"]) for named in each["named"]] == [(DROPPING, True)]
        assert (each["precision"], each["recall"], each["false_alarms"], each["missed"]) == (1.0, 1.0, 0, [])
        assert 0 < each["seconds"] < 60
        assert each["packets"] in (2048, 4096), "one or both flows of the link"
    assert (uniform["decides"], declared["decides"]) == (True, False)
    assert "SprayCheck uniform *" in (folder / "summary.txt").read_text()


def test_all_data_is_verified_and_losses_are_those_injected(run: tuple[dict[str, Any], Path]) -> None:
    summary, _ = run
    assert len(summary["flows"]) == 8
    assert summary["totals"]["bytes_verified"] == summary["totals"]["payload_bytes"] == 8 * 16384 * 256
    assert summary["totals"]["bytes_wrong"] == 0
    (fault,) = summary["injected"]
    assert fault["dropped"] > 10
    dropped = fault["dropped"] if fault["dropped_writes"] is None else fault["dropped_writes"]
    assert abs(summary["totals"]["retransmissions"] - dropped) <= max(3, 0.05 * dropped)


def test_the_folder_holds_what_is_promised(run: tuple[dict[str, Any], Path]) -> None:
    summary, folder = run
    assert folder.name == summary["run"]
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    drawn = {name for name in names if name.startswith("figures/")}
    assert names - drawn == {
        "scenario.yaml", "env.json", "topology.json", "truth.jsonl", "detect.jsonl", "agent.jsonl", "counters.jsonl",
        "summary.json", "summary.txt", "report.html",
        "pcap/p0_leaf2-spine1.leaf2-spine1.pcap", "pcap/p0_leaf2-spine1.spine1-leaf2.pcap",
    }  # fmt: skip
    figures = ("fabric", "arrivals", "arrivals-all", "timeline", "reordering")
    assert drawn == {f"figures/{figure}.{kind}" for figure in figures for kind in ("svg", "png")}
    assert f"Link {DROPPING} had the fault drop" in (folder / "report.html").read_text().replace("&gt;", ">")
    assert json.loads((folder / "summary.json").read_text()) == summary
    resolved = yaml.safe_load((folder / "scenario.yaml").read_text())
    assert resolved["name"] == "gray-link-small"
    assert resolved["transport"]["copies"] == 1, "what the file leaves out is filled in"
    assert resolved["transport"]["ack_timeout_ms"] == 5000
    assert "PASS" in (folder / "summary.txt").read_text()
    environment = json.loads((folder / "env.json").read_text())
    assert environment["command"][:2] == ["spraylab", "run"]
    assert environment["code"] == environment["lab_code"]
    assert environment["code"]["folder"] == str(Path(__file__).parents[2])
    assert problems_of(folder) == []


def test_every_record_carries_time_version_and_run(run: tuple[dict[str, Any], Path]) -> None:
    summary, folder = run
    for name in ("truth", "detect", "agent"):
        records = list(read_records(folder / f"{name}.jsonl"))
        assert records, name
        assert {record["run"] for record in records} == {summary["run"]}
        assert all({"ts", "mono_ns", "v", "seed", "node", "event"} <= set(record) for record in records)
        assert [record["mono_ns"] for record in records] == sorted(record["mono_ns"] for record in records)


def test_truth_says_what_was_injected_when_and_what_it_dropped(run: tuple[dict[str, Any], Path]) -> None:
    summary, folder = run
    records = list(read_records(folder / "truth.jsonl"))
    assert [record["event"] for record in records] == ["FAULT_SET", "FAULT_CLEAR", "FAULT_COUNT"]
    assert {record["link"] for record in records} == {DROPPING}
    assert records[1]["dropped"] == summary["injected"][0]["dropped"]


@pytest.mark.parametrize("expectation", ["uniform", "declared"])
def test_verdicts_say_what_they_rest_on(run: tuple[dict[str, Any], Path], expectation: str) -> None:
    _, folder = run
    records = [each for each in read_records(folder / "detect.jsonl") if each.get("expectation") == expectation]
    verdicts = [record for record in records if record["event"] == "DETECT"]
    assert len(verdicts) == 8 * 2 * 4
    for record in verdicts:
        assert record["N"] / record["k"] == record["lambda"]
        assert {"plane", "spine", "src_leaf", "dst_leaf", "count", "threshold", "s", "snr", "verdict"} <= set(record)
    short = [record for record in verdicts if record["verdict"] == "failed"]
    assert {(record["plane"], record["src_leaf"], record["spine"]) for record in short} == {(0, 2, 1)}
    last = [record for record in records if record["event"] == "LOCALIZE"][-1]
    assert (last["state"], last["links"], last["pending"]) == ("named", [DROPPING], 0)


def test_every_flow_says_in_what_order_its_packets_arrived(run: tuple[dict[str, Any], Path]) -> None:
    summary, folder = run
    records = [record for record in read_records(folder / "agent.jsonl") if record["event"] == "REORDERING"]
    assert {record["qpn"] for record in records} == {flow["qpn"] for flow in summary["flows"]}
    for flow in summary["flows"]:
        order = flow["reordering"]
        assert 0 <= flow["packets"] - order["in_order"] - sum(order["late"]) <= flow["retransmissions"]


def test_captures_hold_every_packet_of_the_link(run: tuple[dict[str, Any], Path]) -> None:
    summary, _ = run
    upper, lower = (capture["captured"] + capture["dropped"] for capture in summary["captures"])
    assert upper == lower, "a packet dropped at the sending port is seen at neither end"
    through = 4 * 16384 // 8  # two flows up and two down, an eighth of each on this path
    assert lower >= through - summary["injected"][0]["dropped"]
    assert all(capture["dropped"] < 0.05 * upper for capture in summary["captures"]), "by a tcpdump that had to wait"


def test_a_lab_of_its_own_is_not_needed(tmp_path: Path) -> None:
    """The session of the README, from a second terminal, on a small lab."""
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "gray-link-small")
        lab("fault", "set", DROPPING, "--drop", "1%")
        lab("capture", "start", "p0:leaf2-spine1")
        first = trusted(lab, "run", "--attach", "gray-link-small")
        assert first["injected"][0]["by"] == "hand"
        assert [each["link"] for each in first["detected"]["named"]] == [DROPPING]
        captured = lab.json("capture", "stop")
        assert all(each["captured"] > 4000 for each in captured)
        assert all(each["dropped"] < 0.05 * each["captured"] for each in captured), "by a tcpdump that had to wait"

        shown = lab.json("fault", "show")
        assert [each["link"] for each in shown] == [DROPPING], "a run does not clear what the user has set"
        second = trusted(lab, "run", "--attach", "gray-link-small")
        assert second["injected"][0]["seen"] < 1.5 * first["injected"][0]["seen"], "counted from the run's own start"

        lines = [json.loads(line) for line in lab("detect", "--all-runs", "--json").stdout.splitlines()]
        assert {line["epoch"] for line in lines if line["event"] == "DETECT"} == {1, 2}
        assert f"NAMED {DROPPING}" in lab("detect", "--all-runs").stdout

        lab("fault", "clear", "--all")
        lab("fault", "set", DROPPING, "--drop", "2%")
        clash = lab("run", "--attach", "gray-link-small", code=4)
        assert "drop 2% already" in clash.stderr
        assert [each["requested"] for each in lab.json("fault", "show")] == [0.02]
        assert "is down" in lab("down").stdout
        assert lab.left() == []


def test_a_healthy_fabric_accuses_nobody_and_a_missed_fault_is_a_failure(tmp_path: Path) -> None:
    healthy = tmp_path / "healthy.yaml"
    small = yaml.safe_load((CATALOG / "gray-link-small.yaml").read_text()) | {"faults": [], "capture": []}
    healthy.write_text(yaml.safe_dump(small | {"expect": {"detected": []}, "events": "detail"}))
    wishful = tmp_path / "wishful.yaml"
    wishful.write_text(yaml.safe_dump(small | {"expect": {"detected": ["p1:spine3>leaf0"]}, "events": "off"}))
    with own_lab(tmp_path / "runs") as lab:
        lab("up", str(healthy))
        passed = trusted(lab, "run", "--attach", str(healthy))
        assert passed["detected"]["state"] == "none"
        told = [(each["precision"], each["recall"], each["false_alarms"]) for each in passed["witnesses"]]
        assert told == [(None, None, 0)] * 3
        assert problems_of(lab.runs / passed["run"]) == []
        events = events_of(lab, passed)
        assert {"QP_STATE", "WRITE_TX", "WRITE_RX", "SACK_TX", "SACK_RX", "ACK_RX", "RTT"} <= {*events}
        assert events["WRITE_TX"] == passed["totals"]["packets"], "a record speaks for many packets, and for each once"
        failed = trusted(lab, "run", "--attach", str(wishful), code=1)
        assert failed["outcome"] == "fail"
        assert [check["detail"] for check in failed["checks"] if not check["ok"]] == ["p1:spine3>leaf0 is not named"]
        assert {*events_of(lab, failed)} == {"EV_COUNTERS", "REORDERING"}
        assert problems_of(lab.runs / failed["run"]) == []


def events_of(lab: Lab, summary: dict[str, Any]) -> Counter[str]:
    """Packets that the agents' records of a run speak of, by event."""
    found: Counter[str] = Counter()
    for record in read_records(lab.runs / summary["run"] / "agent.jsonl"):
        found[record["event"]] += record.get("packets", 0)
    return found
