"""What a run looks for before it changes anything in a lab that is up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from results.files.run_dir import RunDir
from results.records.source_hash import SourceCode
from scenarios.errors import OwnerFailedError
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.isolated import own_code
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Captures, CaptureState
from scenarios.run import stages
from scenarios.run.disk_errors import Unwritten
from scenarios.run.request import RunRequest
from tests.unit.scenarios.watch_readings import status

SCENARIO = Scenario.model_validate(
    {"version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1,), "packets": 64},),
     "faults": ({"link": "p0:leaf3>spine5", "delay": "10ms"},)}
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("killed by SIGKILL", "worker0 was killed by SIGKILL"),
        ("exited 1", "worker0 exited 1"),
        ("stopped", r"worker0 \(process \d+\) is stopped \(`kill -CONT \d+` wakes it\)"),
    ],
)
def test_a_process_that_ends_during_the_run_is_told(state: str, told: str) -> None:
    with pytest.raises(OwnerFailedError, match=f"^{told} while the run went on"):
        stages._require_running(status(state=state))
    stages._require_running(status())


@pytest.mark.parametrize("attach", [False, True])
def test_faults_that_cannot_be_made_are_told_beside_all_else(monkeypatch, tmp_path: Path, attach: bool) -> None:
    monkeypatch.setattr(stages, "lacks_of_faults_here", lambda *_: iter(["fault mechanism netem: netem is missing"]))
    monkeypatch.setattr(stages, "lacks_of_lab", lambda *_: iter(()))
    order = RunRequest(SCENARIO, LabDir("red"), attach, Path("/proc/nowhere"), ())
    told = list(stages._lacks(order, plan_of(SCENARIO)))
    assert told[0].startswith("/proc/nowhere: results cannot be written there")
    assert told[-1] == "fault mechanism netem: netem is missing"


def test_a_lab_that_runs_other_code_is_told() -> None:
    assert stages._other_code(None) == stages._other_code(own_code()) == ""
    told = stages._other_code(SourceCode("/clone", "0" * 64))
    assert told.startswith("the lab runs other code than this command: it was started from /clone, this is ")


def test_a_capture_that_a_full_disk_cut_short_is_kept_as_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pcap/p0_leaf0-spine0.leaf0-spine0.pcap"
    file.parent.mkdir()
    file.write_bytes(bytes.fromhex("4d3cb2a1020004000000000000000000") + b"\0\1\0\0\1\0\0\0")
    state = CaptureState("p0:leaf0-spine0", "p0-leaf0", "spine0", str(file), "2026-01-01T00:00:00Z", 900, 0)
    lab: Any = SimpleNamespace(owner=SimpleNamespace(ask=lambda *_: Captures((state,))))
    plan = plan_of(SCENARIO.model_copy(update={"capture": ("p0:leaf0-spine0",)}))
    unwritten = Unwritten()
    (result,) = stages.end_captures(lab, plan, RunDir(tmp_path), unwritten)
    assert result.captured == 900
    assert [f"{file} holds 0 of the 900 packets" in told for told in unwritten.texts] == [True]
