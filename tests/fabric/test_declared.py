"""A link that drops 1 % is named by what senders declare, after about a thousand packets a spine, and also while MRC
takes paths that lose packets out of use."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.host.control.requests import LinkProbesAsked
from results.files.event_log import read_records
from scenarios.file.scenario_files import CATALOG
from scenarios.lab.client import Worker
from tests.support.namespaces import needs_root, wait_until
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

DROPPING = "p0:leaf2>spine1"
PATHS = 2 * 4


def scenario(folder: Path, name: str, packets_a_path: int, loss_policy: str) -> str:
    """gray-link-small, judged by what was declared; the file's name."""
    text = (CATALOG / "gray-link-small.yaml").read_text()
    values: dict[str, Any] = yaml.safe_load(text)
    (work,) = values["workloads"]
    work["packets"] = packets_a_path * PATHS
    values |= {"name": name, "capture": [], "detector": {"expectation": "declared", "min_rate": "1.5%"}}
    # One of the first packets may be lost, for whose answer all others wait.
    values["transport"] |= {"tail_probe_ms": 20, "ev": {"loss_policy": loss_policy}}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_declared_counts_name_the_link_with_the_loss_policy_off_and_on(tmp_path: Path) -> None:
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "gray-link-small")
        even = trusted(lab, "run", "--attach", scenario(tmp_path, "even", 1024, "off"))
        assert even["detected"]["expectation"] == "declared"
        assert [each["link"] for each in even["detected"]["named"]] == [DROPPING]
        assert even["detected"]["verdicts"]["healthy"] == 8 * PATHS - 2
        uneven = trusted(lab, "run", "--attach", scenario(tmp_path, "uneven", 1024, "paper"))
        assert [each["link"] for each in uneven["detected"]["named"]] == [DROPPING]
        events, uniform, declared = uneven["witnesses"]
        assert [each["link"] for each in events["named"]] == [DROPPING]
        assert events["seconds"] < declared["seconds"], (
            "a path is left at its first loss, and judged when its flow ends"
        )
        assert events["packets"] < 2 * 1024
        assert (declared["decides"], declared["precision"], declared["recall"]) == (True, 1.0, 1.0)
        assert (uniform["named"], uniform["recall"], uniform["missed"]) == ([], 0.0, [DROPPING])
        records = list(read_records((tmp_path / "runs" / "latest").resolve() / "detect.jsonl"))
    verdicts = [r for r in records if r["event"] == "DETECT" and r["expectation"] == "declared"]
    assert len(verdicts) == 8 * PATHS
    lossy = [r for r in verdicts if (r["plane"], r["src_leaf"], r["spine"]) == (0, 2, 1)]
    assert all(r["lambda"] < 1024 and r["count"] < r["lambda"] for r in lossy), "MRC has taken the path out of use"
    assert all(r["count"] == r["lambda"] for r in verdicts if r not in lossy), "and what it moved elsewhere arrived"
    by_share = [r for r in records if r["event"] == "DETECT" and r["expectation"] == "uniform"]
    moved = {(r["node"], r["qpn"]) for r in lossy}
    assert {r["verdict"] for r in by_share if (r["node"], r["qpn"]) in moved} == {"insufficient"}


def test_a_lossy_link_of_a_host_is_named_as_such_and_no_fabric_link_is_accused(tmp_path: Path) -> None:
    """One host a leaf: only the source leaf's own count tells its link from all uplinks of the leaf."""
    path, access = scenario(tmp_path, "access", 1024, "off"), "p0:h2>leaf2"
    values = yaml.safe_load(Path(path).read_text())
    values |= {"faults": [{"link": access, "drop": "1%"}], "expect": {"detected": []}}
    Path(path).write_text(yaml.safe_dump(values))
    with own_lab(tmp_path / "runs") as lab:
        run = trusted(lab, "run", path)
        records = list(read_records((tmp_path / "runs" / "latest").resolve() / "detect.jsonl"))
    assert (run["detected"]["named"], run["detected"]["candidates"]) == ([], [])
    assert [(each["link"], each["right"]) for each in run["detected"]["common"]] == [(access, True)]
    assert run["detected"]["common_candidates"] == []
    events, uniform, declared = run["witnesses"]
    assert (declared["precision"], declared["recall"]) == (1.0, 1.0)
    assert [(each["named"], each["false_alarms"], each["missed"]) for each in (events, uniform)] == [
        ([], 0, [access]),
        ([], 0, [access]),
    ]
    mine = [r for r in records if r["event"] == "DETECT" and (r["plane"], r["src_host"]) == (0, 2)]
    counted = {(r["qpn"], r["N"], r["entered"]) for r in mine if r["expectation"] == "declared"}
    dropped = run["injected"][0]["dropped_writes"]
    assert 0 < sum(packets - entered for _, packets, entered in counted) <= dropped
    assert all(r["entered"] == r["N"] for r in records if r.get("entered") is not None and r not in mine)


def test_a_named_link_is_denied_and_no_queue_pair_uses_it_until_it_is_allowed_again(tmp_path: Path) -> None:
    """The loop closed: the second run of the lab loses nothing, though the link still drops."""
    first = scenario(tmp_path, "first", 1024, "off")
    values = yaml.safe_load(Path(first).read_text())
    values["detector"]["act"] = True
    Path(first).write_text(yaml.safe_dump(values))
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "gray-link-small")
        lab("fault", "set", DROPPING, "--drop", "1%")
        assert [each["link"] for each in trusted(lab, "run", "--attach", first)["detected"]["named"]] == [DROPPING]
        assert [(each["link"], each["by"]) for each in lab.json("deny", "show")] == [(DROPPING, "spraycheck")]
        second = trusted(lab, "run", "--attach", scenario(tmp_path, "second", 256, "off"), code=1)
        (fault,) = second["injected"]
        assert fault["dropped_writes"] == 0
        assert second["totals"]["retransmissions"] <= second["load"]["unexplained_limit"], "this machine's own, if any"
        found = list(read_records((tmp_path / "runs" / "latest").resolve() / "detect.jsonl"))
        fewer = [r for r in found if r["event"] == "DETECT" and (r["plane"], r["src_leaf"]) == (0, 2)
                 and r["expectation"] == "uniform"]  # fmt: skip
        assert {(r["spine"], r["k"], round(r["lambda"] * 3)) for r in fewer} == {
            (spine, 3, r["N"] if spine != 1 else 0) for r in fewer for spine in range(4)
        }, "equal shares of the three paths that are left"
        assert all(abs(r["count"] - r["lambda"]) <= 4 for r in fewer)
        assert "is denied by spraycheck" in lab("detect", "--all-runs").stdout
        assert lab.json("deny", "clear", "--all") == []
        third = trusted(lab, "run", "--attach", scenario(tmp_path, "third", 1024, "off"))
        assert third["injected"][0]["dropped_writes"] > 0


def test_a_denied_link_is_allowed_again_by_probes_only_once_it_is_well(tmp_path: Path) -> None:
    path = scenario(tmp_path, "lift", 1024, "off")
    values = yaml.safe_load(Path(path).read_text())
    values["detector"] |= {"act": True, "lift_after": 300}
    values["faults"] = []
    Path(path).write_text(yaml.safe_dump(values))
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "gray-link-small")
        lab("fault", "set", DROPPING, "--drop", "10%")
        assert [each["link"] for each in trusted(lab, "run", "--attach", path)["detected"]["named"]] == [DROPPING]
        # Of 600 probes 300 in a row are answered once in 10^11 where one in ten is lost.
        wait_until(lambda: probes_over(lab) >= 600, "600 probes over the denied link", 60)
        assert [each["link"] for each in lab.json("deny", "show")] == [DROPPING]
        lab("fault", "clear", "--all")
        wait_until(lambda: lab.json("deny", "show") == [], "the link is allowed again", 30)
        told = [json.loads(line) for line in lab("detect", "--all-runs", "--json").stdout.splitlines()]
        acts = [(each["event"], each["link"], each["by"]) for each in told if each["event"] in ("DENY", "ALLOW")]
        assert acts == [("DENY", DROPPING, "spraycheck"), ("ALLOW", DROPPING, "probes")]


def probes_over(lab: Lab) -> int:
    """How many probes over denied links were answered or lost, as all engine workers tell."""
    told = 0
    for path in lab.labdir.path.glob("worker*.sock"):
        with Worker(path) as worker:
            told += sum(row["answered"] + row["lost"] for row in worker.ask(LinkProbesAsked())["links"])
    return told
