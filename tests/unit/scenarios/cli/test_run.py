"""What `spraylab run` says on stderr while it goes: on a terminal in one line that is redrawn, elsewhere in lines."""

import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from results.files.run_dir import RunDir
from results.summary import Summary, summary_text
from scenarios.cli.main import main
from scenarios.cli.output import Listener, Output
from scenarios.cli.runs import run
from scenarios.errors import InterruptedRunError
from scenarios.run.disk_errors import FolderIncompleteError
from tests.support.run_folder import LINK, summary_of, write_run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds; the last one is now."""
    now = [100.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[-1])
    return now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_in_a_log_lines_come_seldom_and_say_how_long_the_rest_takes(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    listener = Listener(Output())
    listener.stage("transfer")
    for at in range(101):
        clock.append(100 + at / 10)
        listener.progress(at << 20, 100 << 20, at)
    assert capsys.readouterr().err.splitlines() == [
        "traffic:  20% of 100 MiB, 20 packets resent, about 8 s left",
        "traffic:  40% of 100 MiB, 40 packets resent, about 6 s left",
        "traffic:  60% of 100 MiB, 60 packets resent, about 4 s left",
        "traffic:  80% of 100 MiB, 80 packets resent, about 2 s left",
        "traffic: 100% of 100 MiB, 100 packets resent",
    ]


def test_of_what_has_hardly_begun_no_end_is_guessed(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener(Output())
    listener.progress(0, 100 << 20, 0)
    clock.append(110)
    listener.progress(4 << 20, 100 << 20, 0)
    assert "left" not in capsys.readouterr().err


def test_a_short_wait_is_not_told_in_a_log_and_a_long_one_is(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    listener = Listener(Output())
    listener.stage("detection")
    for now in (100.5, 101.0, 102.5, 103.0, 104.6):
        clock.append(now)
        listener.waiting("verdicts: 3 of 256 paths judged")
    assert capsys.readouterr().err.splitlines() == ["verdicts: 3 of 256 paths judged"] * 2


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_a_passing_line_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener(Output())
    listener.stage("queue pairs")
    listener.progress(1 << 20, 4 << 20, 0)
    for _ in range(3):  # all bytes are acknowledged, a write is not yet complete
        listener.progress(4 << 20, 4 << 20, 7)
    listener.waiting("verdicts: 3 of 256 paths judged")
    listener.done()
    kept = []
    for line in capsys.readouterr().err.split("\n"):
        kept.append(line.rpartition("\r")[2].replace("\x1b[K", ""))
    assert kept == ["traffic: 100% of 4 MiB, 7 packets resent", ""]


@pytest.mark.usefixtures("terminal")
def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener(Output(quiet=True))
    listener.stage("queue pairs")
    listener.progress(1, 1, 0)
    listener.waiting("verdicts")
    listener.done()
    assert capsys.readouterr().err == ""


def test_the_result_is_printed_also_where_the_folder_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = msgspec.json.decode(write_run(tmp_path / "a-run").summary.read_bytes(), type=Summary)

    def full(*_: object) -> None:
        raise FolderIncompleteError(summary, ("runs/a-run/agent.jsonl: No space left on device",))

    monkeypatch.setattr("scenarios.run.runner.run_scenario", full)
    monkeypatch.setattr(run, "require_root", lambda: None)
    result = CliRunner().invoke(main, ["run", "gray-link-small"])
    assert result.exit_code == 3
    assert result.stdout == summary_text(summary)
    assert "agent.jsonl: No space left on device" in result.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(28, "No space left on device", "/r/report.html"),
            "no report: /r/report.html: No space left on device",
        ),
        (RuntimeError("latex could not be found"), "no report: RuntimeError: latex could not be found"),
        (InterruptedRunError(), "interrupted while drawing the report"),
    ],
)
@pytest.mark.parametrize("outcome", ["pass", "fail"])
def test_a_report_that_fails_neither_hides_nor_changes_the_result(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str, outcome: str
) -> None:
    def fails(_folder: RunDir, for_paper: bool) -> None:
        raise error

    summary = summary_of("20260304T050607Z-gray-link-1", outcome, LINK)
    monkeypatch.setattr(run, "require_root", lambda: None)
    monkeypatch.setattr("scenarios.run.runner.run_scenario", lambda *_: summary)
    monkeypatch.setattr("results.report.page.write_report", fails)
    done = CliRunner().invoke(main, ["run", "gray-link"])
    interrupted = isinstance(error, KeyboardInterrupt)
    assert done.exit_code == (130 if interrupted else {"pass": 0, "fail": 1}[outcome])
    assert done.stdout == summary_text(summary)
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"spraylab: {told}")
    assert f"the run is complete; `spraylab report {summary.folder}` draws it" in first
    assert rest == (["spraylab: interrupted"] if interrupted else [])
