"""Commands that read runs: which run is meant, and what they do with its captures."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scenarios.cli.main import main
from scenarios.cli.runs.compare import page_name
from tests.support.run_folder import write_run
from tests.unit.results.test_pcap_merge import UPLINK, captured, frame_from

FRAME = frame_from(UPLINK[0].port, b"x")


def spraylab(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="spraylab")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one run, which is the latest, and two captures in it."""
    pcap = tmp_path / "runs" / "20260304T050607Z-gray-link-1" / "pcap"
    pcap.mkdir(parents=True)
    for end in UPLINK:
        captured(end, [(1, FRAME)], pcap)
    (tmp_path / "runs" / "latest").symlink_to(pcap.parent.name)
    return tmp_path / "runs"


def test_a_report_is_written_into_the_folder(tmp_path):
    run = write_run(tmp_path / "runs" / "a-run")
    told = json.loads(spraylab("report", "a-run", "--runs", str(tmp_path / "runs"), "--json").stdout)
    assert told == {"report": str(run.report), "figures": str(run.figures), "problems": []}
    assert run.report.read_text().startswith("<!doctype html>")
    run.detect.unlink()
    again = spraylab("report", str(run.path))
    assert again.stdout == f"{run.report}\n"
    assert "not in the report: detect.jsonl: No such file or directory" in again.stderr


def test_runs_are_compared_differences_first(tmp_path, plainly_drawn):
    write_run(tmp_path / "runs" / "gray")
    write_run(tmp_path / "runs" / "healthy", link=None)
    page = tmp_path / "page.html"
    words = ("compare", "gray", "healthy", "--runs", str(tmp_path / "runs"), "-o", str(page))
    told = json.loads(spraylab(*words, "--json").stdout)
    assert told["runs"] == ["gray", "healthy"]
    assert {"name": "links named", "values": ["p0:leaf3>spine5", "none"], "change": ""} in told["came_out"]
    assert {"name": "paths judged healthy", "values": ["254", "256"], "change": "+0.8%"} in told["came_out"]
    assert (told["asked"], told["ran_on"]) == ([], [])
    assert page.read_text().count("data-figure=") == 10
    shown = spraylab(*words).stdout.splitlines()
    assert shown[:2] == ["A: gray", "B: healthy"]
    assert shown[-1] == str(page)


def test_a_comparison_says_whose_numbers_are_to_be_doubted_as_its_page_does(tmp_path, plainly_drawn):
    runs = [write_run(tmp_path / "runs" / name) for name in "ab"]
    runs.append(write_run(tmp_path / "runs" / "c", outcome="overloaded"))
    busy = "engines waited 62% of their time for a core: times are unreliable, counts are right"
    summary = json.loads(runs[1].summary.read_bytes())
    summary["load"]["warnings"] = [busy]
    runs[1].summary.write_text(json.dumps(summary))
    words = ("compare", "a", "b", "c", "--runs", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html"))
    doubts = [f"Warning: {busy}.", "This machine did not keep up (ring drops), so nothing below is to be trusted."]
    assert json.loads(spraylab(*words, "--json").stdout)["doubts"] == [f"B: {doubts[0]}", f"C: {doubts[1]}"]
    assert spraylab(*words).stdout.splitlines()[3:5] == [f"B: {doubts[0]}", f"C: {doubts[1]}"]
    assert all(doubt in (tmp_path / "page.html").read_text() for doubt in doubts)


def test_the_page_of_a_comparison_lies_beside_the_runs(tmp_path):
    write_run(tmp_path / "runs/gray")
    write_run(tmp_path / "runs/healthy")
    result = spraylab("compare", "gray", "healthy", "--runs", str(tmp_path / "runs"))
    page = tmp_path / "runs/compare-gray-with-healthy.html"
    assert result.output.splitlines()[-1] == str(page)
    assert "<html" in page.read_text()


def test_pages_of_different_runs_have_different_names_that_any_file_system_takes():
    long = [f"20260304T050607Z-{at:0100}" for at in range(26)]
    names = [page_name(runs) for runs in (["a", "b"], ["a", "c"], ["b", "a"], long[:2], long[:3], long, long[::-1])]
    assert names[0] == "compare-a-with-b.html"
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < 255
    assert names[5] == page_name(long)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without figures, which take seconds."""
    monkeypatch.setattr("results.report.comparison.figures_of", lambda *_: [])


def test_what_cannot_be_read_is_told_and_is_no_likeness(tmp_path, undrawn):
    runs = [write_run(tmp_path / "runs" / name) for name in "ab"]
    for run in runs:
        run.summary.write_bytes(run.summary.read_bytes()[:200])
    runs[1].detect.write_bytes(bytes(range(200, 256)))
    words = ("compare", "a", "b", "--runs", str(tmp_path / "runs"))
    shown = spraylab(*words)
    assert shown.exit_code == 0
    assert "do not differ" not in shown.stdout
    assert "what could be read does not differ" in shown.stdout
    assert "not compared: A: summary.json: " in shown.stdout
    assert "not compared: B: detect.jsonl: 1 line cannot be read" in shown.stdout
    told = json.loads(spraylab(*words, "--json").stdout)
    assert [problem[:15] for problem in told["problems"]] == ["A: summary.json", "B: summary.json", "B: detect.jsonl"]
    assert told["came_out"] == []
    assert "detect.jsonl: 1 line cannot be read" in (tmp_path / "runs/compare-a-with-b.html").read_text()


def test_a_run_is_not_compared_with_itself(tmp_path):
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "runs/latest").symlink_to("a")
    result = spraylab("compare", "latest", "a", "--runs", str(tmp_path / "runs"))
    told = f"spraylab: latest and a are the same run, {tmp_path}/runs/a; name different ones\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", told)
    assert not list((tmp_path / "runs").glob("*.html"))


def test_a_run_with_nothing_to_compare_is_refused(tmp_path):
    runs = [write_run(tmp_path / "runs" / name) for name in "ab"]
    for path in (runs[1].summary, runs[1].environment, runs[1].scenario):
        path.write_bytes(b"\x00\x9c{")
    result = spraylab("compare", "a", "b", "--runs", str(tmp_path / "runs"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"{runs[1].path}: nothing to compare can be read: summary.json: " in result.stderr
    assert not list((tmp_path / "runs").glob("*.html"))


def test_files_without_a_byte_are_named(tmp_path):
    a, b = (write_run(tmp_path / "runs" / name) for name in "ab")
    files = sorted(path for path in b.path.iterdir() if path != b.summary_text)
    for path in files:
        path.write_bytes(b"")
    refused = spraylab("compare", str(a.path), str(b.path))
    assert refused.exit_code == 3
    assert "nothing to compare can be read: " in refused.stderr
    reported = spraylab("report", str(b.path))
    assert [path.name for path in files if f"{path.name}: empty" not in refused.stderr] == []
    assert [path.name for path in files if f"not in the report: {path.name}: empty" not in reported.stderr] == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_pipes_and_devices_in_a_run_folder_are_not_read(tmp_path, make, undrawn):
    runs = [write_run(tmp_path / "runs" / name) for name in "ab"]
    runs[1].summary.unlink()
    make(runs[1].summary)
    result = spraylab("compare", "a", "b", "--runs", str(tmp_path / "runs"))
    assert (result.exit_code, "not compared: B: summary.json: not a regular file" in result.stdout) == (0, True)
    shown = spraylab("show", str(runs[1].path))
    assert shown.exit_code == 3
    assert "summary.json: not a regular file" in shown.stderr


def test_a_page_takes_no_other_files_place(tmp_path, undrawn):
    a, b = (write_run(tmp_path / "runs" / name) for name in "ab")
    before, page = a.summary.read_bytes(), tmp_path / "page.html"
    page.write_text("<html>mine</html>")
    for out, why in ((a.summary, "ends in .html"), (page, "no page of `spraylab compare`")):
        refused = spraylab("compare", str(a.path), str(b.path), "-o", str(out))
        assert (refused.exit_code, why in refused.stderr) == (2, True)
    assert (a.summary.read_bytes(), page.read_text()) == (before, "<html>mine</html>")
    page.unlink()
    for _ in range(2):
        assert spraylab("compare", str(a.path), str(b.path), "-o", str(page)).exit_code == 0


def test_merged_captures_take_no_other_files_place(runs, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    for out, code in ((other, 2), ("/dev/null", 3)):
        assert spraylab("pcap", "merge", "--runs", str(runs), "-o", str(out)).exit_code == code
    assert other.read_text() == "mine"
    assert Path("/dev/null").is_char_device()
    for _ in range(2):
        assert spraylab("pcap", "merge", "--runs", str(runs), "-o", str(tmp_path / "m.pcapng")).exit_code == 0


def test_captures_that_were_cut_off_are_named_and_the_result_is_no_success(runs):
    cut = sorted((runs / "latest").resolve().glob("pcap/*.pcap"))[1]
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    for quiet in ((), ("-q",)):
        merged = spraylab("pcap", "merge", "--runs", str(runs), *quiet)
        assert (merged.exit_code, "1 packet of 2 files" in merged.stdout) == (1, True)
        assert f"{cut} is cut off within a packet" in merged.stderr
    told = spraylab("pcap", "merge", "--runs", str(runs), "--json")
    assert (told.exit_code, json.loads(told.stdout)["cut"]) == (1, [str(cut)])


def test_nothing_is_written_through_a_symbolic_link(tmp_path, runs, undrawn):
    precious = tmp_path / "elsewhere"
    run, other = (write_run(tmp_path / "runs" / name) for name in "ab")
    capture = str(next((runs / "latest" / "pcap").iterdir()))
    precious.write_text("")
    for link, words in (
        (run.report, ("report", str(run.path))),
        (tmp_path / "page.html", ("compare", str(run.path), str(other.path), "-o", str(tmp_path / "page.html"))),
        (tmp_path / "m.pcapng", ("pcap", "merge", capture, "-o", str(tmp_path / "m.pcapng"))),
    ):
        for target in (precious, tmp_path / "not-there"):
            link.symlink_to(target)
            refused = spraylab(*words)
            assert (refused.exit_code, f"{link} exists and is a symbolic link" in refused.stderr) == (2, True)
            link.unlink()
    assert (precious.read_text(), (tmp_path / "not-there").exists()) == ("", False)


def test_a_report_takes_no_other_files_place(tmp_path, plainly_drawn):
    run, elsewhere = write_run(tmp_path / "a-run"), tmp_path / "elsewhere"
    run.report.write_text("my notes")
    refused = spraylab("report", str(run.path))
    assert (refused.exit_code, "no page of `spraylab report`; move it away, or" in refused.stderr) == (2, True)
    assert (run.report.read_text(), run.figures.exists()) == ("my notes", False)
    run.report.unlink()
    elsewhere.mkdir()
    run.figures.symlink_to(elsewhere)
    refused = spraylab("report", str(run.path))
    assert (refused.exit_code, f"{run.figures} exists and is a symbolic link" in refused.stderr) == (2, True)
    run.figures.unlink()
    run.figures.mkdir()
    (run.figures / "fabric.png").write_text("my notes")
    (run.figures / "timeline.svg").symlink_to(elsewhere / "x.svg")
    assert "fabric.png exists and is no PNG" in spraylab("report", str(run.path)).stderr
    (run.figures / "fabric.png").unlink()
    assert "timeline.svg exists and is a symbolic link" in spraylab("report", str(run.path)).stderr
    (run.figures / "timeline.svg").unlink()
    assert (list(elsewhere.iterdir()), run.report.exists()) == ([], False)
    for _ in range(2):
        assert spraylab("report", str(run.path)).exit_code == 0


@pytest.mark.parametrize(
    "words", [("show", "--runs", ""), ("compare", "a", "b", "-o", ""), ("study", "packets", "--folder", "")]
)
def test_an_empty_path_is_refused(words):
    result = spraylab(*words)
    assert (result.exit_code, "is empty; name a path" in result.stderr) == (2, True)


def test_one_run_cannot_be_compared(tmp_path):
    result = spraylab("compare", str(tmp_path))
    assert (result.exit_code, "name 2 to 26 runs" in result.stderr) == (2, True)


def test_show_says_what_run_said(tmp_path):
    run = write_run(tmp_path / "a-run")
    assert spraylab("show", str(run.path)).stdout == run.summary_text.read_text()
    assert json.loads(spraylab("show", str(run.path), "--json").stdout) == json.loads(run.summary.read_text())
    run.summary.write_text("{}")
    assert (result := spraylab("show", str(run.path))).exit_code == 3
    assert "summary.json: Object missing required field" in result.stderr
    run.summary.unlink()
    assert "has no summary.json: the run did not finish" in spraylab("show", str(run.path)).stderr


@pytest.mark.parametrize("command", ["show", "report"])
def test_captures_made_by_hand_are_no_run(runs, command):
    result = spraylab(command, "--runs", str(runs))
    assert (result.exit_code, "holds captures, not a run" in result.stderr) == (2, True), result.stderr
    assert not (runs / "latest" / "report.html").exists()


def test_the_latest_runs_captures_are_merged(runs):
    told = json.loads(spraylab("pcap", "merge", "--runs", str(runs), "--json").stdout)
    assert told["packets"] == 2
    assert len(told["interfaces"]) == 4
    assert Path(told["file"]) == runs.resolve() / "20260304T050607Z-gray-link-1" / "pcap" / "all.pcapng"
    again = spraylab("pcap", "merge", "--runs", str(runs), "20260304T050607Z-gray-link-1")
    assert again.exit_code == 0
    assert "2 packets of 2 files, 4 interfaces" in again.stdout


def test_files_are_merged_to_where_one_says(runs, tmp_path):
    files = [str(file) for file in sorted((runs / "latest" / "pcap").iterdir())]
    result = spraylab("pcap", "merge", *files, "-o", str(tmp_path / "x.pcapng"))
    assert result.exit_code == 0
    assert (tmp_path / "x.pcapng").stat().st_size > 2 * len(FRAME)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("20260304T050607Z-grey-link-1",), "did you mean 20260304T050607Z-gray-link-1?"),
        (("a.pcap", "b.pcap"), "not there, or not regular files: a.pcap, b.pcap"),
        (("latest", "-o", "{runs}/latest/pcap/p0_leaf3-spine5.leaf3-spine5.pcap"), "is one of the files to merge"),
    ],
)
def test_what_cannot_be_merged_is_2(runs, words, told):
    result = spraylab("pcap", "merge", "--runs", str(runs), *(word.format(runs=runs) for word in words))
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


def test_no_runs_and_no_captures(tmp_path):
    result = spraylab("pcap", "merge", "--runs", str(tmp_path))
    assert (result.exit_code, "holds no finished run" in result.stderr) == (2, True)
    (tmp_path / "empty").mkdir()
    result = spraylab("pcap", "merge", "--runs", str(tmp_path), "empty")
    assert (result.exit_code, "holds no captures" in result.stderr) == (2, True)


def test_a_file_that_is_no_capture_is_3(tmp_path):
    (tmp_path / "x.pcap").write_text("no capture")
    result = spraylab("pcap", "merge", str(tmp_path / "x.pcap"))
    assert (result.exit_code, "neither a pcap nor a pcapng file" in result.stderr) == (3, True)


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_folder_that_holds_nothing_of_a_run_is_refused(tmp_path, command):
    (tmp_path / "notes.txt").write_text("mine")
    result = spraylab(command, str(tmp_path))
    assert (result.exit_code, "holds no file of a run" in result.stderr) == (2, True), result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
