"""What `spraylab detect` shows of the records there are."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scenarios.cli.main import main
from scenarios.cli.runs.detect import _lives, latest_run, lines_of
from scenarios.errors import LabStateError
from scenarios.lab.lab_dir import ChildState, LabDir, LabState, write_state
from scenarios.lab.processes import identify
from tests.support.run_folder import write_run
from tests.support.stopped_process import stopped_process

WEAK = "12 packets a path, a drop of 1% needs about 1,799"


def verdict(epoch: int, spine: int, said: str, reason: str | None = None) -> dict[str, Any]:
    return {
        "event": "DETECT", "ts": "2026-03-04T05:06:07Z", "epoch": epoch, "expectation": "declared", "node": "p0-leaf1",
        "plane": 0, "src_leaf": 0, "dst_leaf": 1, "spine": spine, "verdict": said, "count": 12, "lambda": 13.0,
        "threshold": None, "reason": reason, "src_host": 0, "dst_host": 1, "qpn": 0x1001,
    }  # fmt: skip


START = {"event": "SPRAYCHECK_START", "leaves": 8}
RUNS = [START, verdict(1, 0, "failed"), *(verdict(2, spine, "insufficient", WEAK) for spine in range(5)),
        verdict(2, 5, "failed"), verdict(2, 6, "healthy")]  # fmt: skip


def test_a_detector_that_is_stopped_is_not_followed_in_silence(tmp_path: Path) -> None:
    labdir, own = LabDir("red", tmp_path), identify(os.getpid())
    assert own is not None
    labdir.path.mkdir()
    with stopped_process() as process:
        shape = dict.fromkeys(("planes", "leaves", "spines", "hosts_per_leaf", "workers", "mtu"), 2)
        children = (ChildState("spraycheck", process),)
        plain = {"started": "", "host_stack": False, "scapy_hosts": ()}
        write_state(labdir, LabState(lab="red", owner=own, children=children, **plain, **shape))
        with pytest.raises(LabStateError, match=rf"^SprayCheck of lab 'red' \(process {process.pid}\) is stopped"):
            _lives(labdir)


def test_only_the_newest_run_is_shown():
    assert {record["epoch"] for record in latest_run(RUNS)} == {2}
    assert latest_run([]) == []


def test_insufficient_paths_are_summed_up_after_what_failed():
    failed, unsure = lines_of(latest_run(RUNS), everything=False)
    assert "spine5>leaf1 of h0>h1 (queue pair 0x1001) failed" in failed
    told = "5 verdicts of one flow on a path insufficient"
    assert unsure == f"run 2  declared  {told}: {WEAK} (--all shows each)"


def test_with_all_each_path_has_its_line():
    lines = list(lines_of(latest_run(RUNS), everything=True))
    assert len(lines) == 7
    assert sum("insufficient" in line for line in lines) == 5


def denial(event: str, epoch: int, link: str) -> dict[str, Any]:
    return {"event": event, "ts": "2026-03-04T05:06:07Z", "epoch": epoch, "link": link, "by": "hand"}


def test_what_was_denied_before_the_latest_run_and_still_is_is_shown():
    records = [*RUNS[:2], denial("DENY", 1, "p0:leaf0>spine1"), denial("DENY", 1, "p0:leaf0>spine2"),
               denial("ALLOW", 1, "p0:leaf0>spine2"), *RUNS[2:], denial("DENY", 2, "p1:spine0>leaf1")]  # fmt: skip
    lines = [line for line in lines_of(latest_run(records), everything=False) if "denied" in line]
    assert [line.split("  ", 1)[1] for line in lines] == [
        "run 1  p0:leaf0>spine1 is denied by hand",
        "run 2  p1:spine0>leaf1 is denied by hand",
    ]


@pytest.mark.parametrize(("pending", "told"), [(0, True), (24, False)])
def test_a_flow_that_would_decide_is_named_when_no_verdict_is_owed(pending: int, told: bool) -> None:
    record = {
        "event": "LOCALIZE", "ts": "2026-03-04T05:06:07Z", "epoch": 1, "expectation": "uniform", "state": "ambiguous",
        "links": [], "candidates": [["p0:leaf0>spine1", "p0:spine1>leaf1"]], "common": [], "common_candidates": [],
        "deciding": [{"src_leaf": 0, "dst_leaf": 1, "packets": None}], "pending": pending,
    }  # fmt: skip
    (line,) = lines_of([record], everything=False)
    assert ("a flow from leaf0 to leaf1 would decide" in line) == told
    assert ("24 verdicts still pending" in line) != told


def link(name: str, verdict: str, reason: str | None = None) -> dict[str, Any]:
    return {
        "event": "LINK", "ts": "2026-03-04T05:06:07Z", "epoch": 2, "expectation": "declared", "link": name,
        "flows": 4, "sent": 1200, "lost": 1, "verdict": verdict, "reason": reason,
    }  # fmt: skip


def test_healthy_links_are_counted_and_all_others_shown_with_what_they_rest_on():
    records = [link("p0:leaf0>spine1", "undecided", WEAK), link("p0:leaf0>spine2", "failed"),
               link("p0:leaf0>spine1", "healthy"), link("p0:leaf0>spine3", "healthy")]  # fmt: skip
    undecided, failed, healthy = lines_of(records, everything=False)
    assert undecided.endswith(f"link p0:leaf0>spine1 undecided: 1 of 1,200 packets of 4 flows lost ({WEAK})")
    assert failed.endswith("link p0:leaf0>spine2 failed: 1 of 1,200 packets of 4 flows lost")
    assert healthy == "run 2  declared  2 links healthy (--all shows each)"
    assert len(list(lines_of(records, everything=True))) == 4


def test_paths_are_shown_with_all_and_what_decides():
    record = {"event": "PATH", "ts": "2026-03-04T05:06:07Z", "epoch": 2, "expectation": "declared", "plane": 0,
              "src_leaf": 1, "spine": 2, "dst_leaf": 3, "verdict": "healthy", "by": "links", "flows": 2, "count": 500,
              "lambda": 500.0, "reason": None}  # fmt: skip
    assert list(lines_of([record], everything=False)) == []
    (line,) = lines_of([record], everything=True)
    assert line.endswith(
        "path p0:leaf1>spine2>leaf3 healthy, by all flows over its links: 500 of 500 packets of 2 flows"
    )


def test_a_flow_that_is_not_measured_is_told_with_the_reason() -> None:
    record = {"event": "UNMEASURED", "ts": "2026-03-04T05:06:07Z", "epoch": 2, "node": "p0-leaf3", "src_host": 3,
              "dst_host": 4, "qpn": 0x4001, "reason": "no room"}  # fmt: skip
    (line,) = lines_of(latest_run([record]), everything=False)
    assert line.endswith("run 2  p0-leaf3: h3>h4 (queue pair 0x4001) is not measured: no room")


def detect(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["detect", *map(str, words)], prog_name="spraylab")


def test_a_run_that_is_over_is_read_from_its_folder_by_path_name_or_as_the_latest(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "gray")
    (tmp_path / "runs" / "latest").symlink_to("gray")
    said = detect(run.path).stdout
    assert (
        "p0:leaf3>spine5>leaf4 of h3>h4 (queue pair 0x4001) failed: 4,056 packets, expected 4,096, threshold 4,089.6"
        in said
    )
    assert said.count("failed") == 3, "two flows and the link"
    assert "NAMED p0:leaf3>spine5" in said
    assert detect("gray", "--runs", tmp_path / "runs").stdout == said
    assert detect("latest", "--runs", tmp_path / "runs").stdout == said
    assert detect("--runs", tmp_path / "runs").stdout == said
    records = [json.loads(line) for line in detect(run.path, "--all", "--json").stdout.splitlines()]
    assert len([each for each in records if each["event"] == "DETECT"]) == 256


def test_where_no_lab_is_up_the_latest_run_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.cli.runs.detect.read_state", lambda _labdir: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.chdir(tmp_path)
    refused = detect()
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "runs holds no finished run" in refused.stderr
    run = write_run(tmp_path / "runs" / "gray")
    (tmp_path / "runs" / "latest").symlink_to("gray")
    told = detect()
    assert (told.exit_code, told.stdout) == (0, detect("gray").stdout)
    assert told.stderr == f"no lab is up; of {run.path}:\n"


def test_a_folder_from_before_there_were_two_expectations_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "gray")
    said, records = detect(run.path).stdout, [json.loads(line) for line in run.detect.read_text().splitlines()]
    newer = {"expectation", "common", "common_candidates", "deciding"}
    told = [each for each in records if each["event"] not in ("PATH", "LINK")]
    older = [{name: value for name, value in each.items() if name not in newer} for each in told]
    run.detect.write_text("".join(json.dumps(each) + "\n" for each in older))
    assert detect(run.path).stdout.splitlines() == [line for line in said.splitlines() if "link" not in line]


def test_a_run_without_a_fault_says_that_all_are_healthy(tmp_path: Path) -> None:
    run = write_run(tmp_path / "healthy", link=None)
    line, links = detect(run.path).stdout.splitlines()
    assert line.endswith("NONE no link")
    assert links.endswith("256 links healthy (--all shows each)")


def test_what_a_folder_does_not_hold_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "gray")
    run.detect.write_text('{"event": "DETECT", "v": 1, "verdict": "failed"}\n')
    old = detect(run.path)
    assert (old.exit_code, "detect.jsonl:1: Object missing required field" in old.stderr) == (3, True)
    run.detect.write_bytes(b"")
    empty = detect(run.path)
    assert (empty.exit_code, empty.stdout, "detect.jsonl is empty: it has no verdict" in empty.stderr) == (
        0,
        "",
        True,
    )
    run.detect.unlink()
    gone = detect(run.path)
    assert (gone.exit_code, "has no detect.jsonl" in gone.stderr) == (3, True)
    assert detect(tmp_path / "none").exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gray", "--follow"), "--follow applies to the lab that is up, not to the folder of a run"),
        (("gray", "--all-runs"), "--all-runs applies to the lab"),
        (("gray", "--lab", "mine"), "--lab applies to the lab"),
        (("--runs", "elsewhere", "--follow"), "--follow applies to the lab"),
    ],
)
def test_options_of_a_lab_and_of_a_run_are_not_mixed(words: tuple[str, ...], told: str) -> None:
    refused = detect(*words)
    assert refused.exit_code == 2
    assert told in refused.stderr
