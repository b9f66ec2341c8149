"""A run that does not get to its summary: what it leaves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from results.event_log import EventLog, read_records, stamped
from results.run_dir import RunDir
from scenarios.ending import Unfinished
from scenarios.lab_dir import LabDir
from scenarios.order import Moment


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
    return Unfinished(order, plan, folder, cast("Any", SimpleNamespace(workers=(None,))), Moment(0, 10))


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
