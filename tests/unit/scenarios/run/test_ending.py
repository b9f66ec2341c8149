"""A run that does not get to its summary: what it leaves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from results.event_log import EventLog, read_records, stamped
from results.run_dir import RunDir
from scenarios.lab.lab_dir import LabDir
from scenarios.run.ending import Unfinished
from scenarios.run.order import Moment


def unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unfinished:
    (tmp_path / "lab").mkdir()
    monkeypatch.setattr(LabDir, "path", tmp_path / "lab")
    labdir = LabDir("unit")
    for file in (labdir.truth, labdir.detect, labdir.worker_events(0)):
        with EventLog(file) as log:
            log.append(stamped("OLD", "x", {"link": "a", "fault": "drop"}) | {"mono_ns": 1})
            log.append(stamped("NEW", "x", {"link": "a", "fault": "drop"}) | {"mono_ns": 20})
    folder = RunDir(tmp_path / "run")
    folder.path.mkdir()
    order: Any = SimpleNamespace(labdir=labdir)
    plan: Any = SimpleNamespace(scenario=SimpleNamespace(seed=7))
    (labdir.path / "worker0.log").write_text("why it died")
    (labdir.path / "worker1.log").touch()
    lab: Any = SimpleNamespace(workers=(None,))
    notes: list[str] = []
    listener: Any = SimpleNamespace(note=notes.append, notes=notes)
    return Unfinished(order, plan, folder, lab, Moment(0, 10), listener)


def test_an_interrupted_run_keeps_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    run.has_begun = True
    with pytest.raises(KeyboardInterrupt), run:
        raise KeyboardInterrupt
    for file in (run.folder.truth, run.folder.detect, run.folder.agent):
        assert [(record["event"], record["run"], record["seed"]) for record in read_records(file)] == [
            ("NEW", "run", 7)
        ]
    assert not run.folder.summary.exists()
    assert cast("Any", run.listener).notes == [f"what was recorded until then: {run.folder.path}"]


def test_the_logs_of_processes_are_kept_where_they_say_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unfinished(tmp_path, monkeypatch)
    run.has_begun = True
    with pytest.raises(KeyboardInterrupt), run:
        raise KeyboardInterrupt
    assert {log.name: log.read_text() for log in run.folder.logs.iterdir()} == {"worker0.log": "why it died"}


def test_a_refused_run_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    with pytest.raises(KeyError), run:
        raise KeyError
    assert not run.folder.path.exists()


def test_a_finished_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    with run:
        run.has_begun = True
    assert list(run.folder.path.iterdir()) == []
