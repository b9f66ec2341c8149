"""One rule for large numbers: people read `1,234,567`, programs 1234567.

Everything that tells something to people is filled with large numbers and searched for any without separators. Left as
they are: numbers that name something (queue pairs, seeds, times of day), what was typed (faults, settings), and the
tables in perftest's and nccl-tests' formats, which programs read.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from results.records.perf_rows import row_line
from results.report.comparison import compare, comparison_page
from results.report.page import page_of
from results.report.run_data import RunData, read_run
from results.report.style import Drawn
from results.study.tables import write_csv
from results.summary import CaptureResult, Summary, summary_json, summary_text
from scenarios.cli.lab import inspect
from scenarios.cli.lab.capture import print_captures
from scenarios.cli.lab.fault import fault_rows
from scenarios.cli.output import Output
from scenarios.cli.runs import detect, study
from scenarios.lab.protocol import CaptureState
from scenarios.watch.frame import frame, whole_frame
from tests.support.run_folder import write_run
from tests.unit.results.test_perf_rows import row as collective_row
from tests.unit.scenarios.cli.test_detect import verdict
from tests.unit.scenarios.cli.test_fault import STATE
from tests.unit.scenarios.cli.test_inspect import EV, FABRIC, LABDIR, QP
from tests.unit.scenarios.watch_readings import large_view

LARGE = 1_234_567
BARE = re.compile(r"(?<![\w.,:>/-])[0-9]{4,}(?![\w:-])")
"""A number of four digits and more, in no name, time or fraction."""
NAMES = ("v", "seed", "qpn", "first_packet_mono_ns")
FIGURES = [Drawn(name, name, "", absent="not drawn") for name in
           ("fabric", "arrivals", "arrivals-all", "timeline", "reordering")]  # fmt: skip


def enlarged(value: Any, name: str = "") -> Any:
    """The same record with large counts, and with large times and rates; shares of a whole stay."""
    match value:
        case dict():
            return {key: enlarged(inner, key) for key, inner in value.items()}
        case list() | tuple():
            return [enlarged(inner, name) for inner in value]
        case bool():
            return value
        case int() if name not in NAMES:
            return LARGE
        case float() if value > 1:
            return value * LARGE
    return value


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = write_run(tmp_path_factory.mktemp("runs") / "20260304T050607Z-gray-link-1")
    found = msgspec.to_builtins(msgspec.json.decode(folder.summary.read_bytes(), type=Summary))
    found["captures"] = [msgspec.to_builtins(CaptureResult("pcap/x.pcap", 1, 1, 1, True))]
    found["detected"]["insufficient"] = {"too few": 1}
    large = msgspec.convert(enlarged(found), Summary)
    folder.summary.write_bytes(summary_json(large))
    return read_run(folder)


def bare(text: str) -> list[str]:
    return BARE.findall(text)


def seen(html: str) -> str:
    """What a reader sees, without the scenario, which is as it was typed."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>|<details>.*?</details>", "", html, flags=re.S))


def told_by_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    large = {name: enlarged(row) | {"host": 1, "plane": 0, "spine": 1, "peer": 0, "ev": 1} for name, row in
             (("evs", EV), ("qps", QP | {"cwnd_bytes": 1}))}  # fmt: skip
    monkeypatch.setattr(inspect, "_ask", lambda *_: {name: [row] for name, row in large.items()})
    inspect.show_evs(LABDIR, FABRIC, "h1", Output())
    inspect.show_qps(LABDIR, FABRIC, "h1", Output())
    captured = CaptureState("p0:leaf0-spine1", "p0-leaf0", "spine1", "x", "now", LARGE, LARGE, LARGE)
    print_captures(Output(), [captured])
    cell = dict.fromkeys(("mode", "spray", "expectation", "failure"), "x") | {"loss_policy": "off", "rate": 0.01}
    counts = ("spines", "packets", "runs", *(f"{name}{of}" for name in ("miss", "insufficient", "false_flow", "found",
              "wrong") for of in ("", "_of", "_low", "_high")))  # fmt: skip
    study._print([cell | {name: 0.5 if name.endswith(("_low", "_high")) else LARGE for name in counts}], Output())
    yield capsys.readouterr().out
    record = verdict(1, 5, "failed") | {"count": LARGE, "lambda": float(LARGE), "threshold": float(LARGE)}
    yield from detect.lines_of([record], everything=True)
    yield from (" ".join(row) for row in fault_rows([msgspec.structs.replace(STATE, seen=LARGE, dropped=LARGE)], True))


def test_what_commands_print(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told = [*told_by_commands(capsys, monkeypatch)]
    assert [bare(text) for text in told] == [[]] * len(told)
    assert all("1,234,567" in text for text in told)


def test_summary_report_and_comparison(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.report.comparison.figures_of", lambda *_: [])
    assert run.summary is not None
    more = msgspec.structs.replace(run.summary.totals, packets=2 * LARGE, goodput_bps=1e12)
    other = replace(run, summary=msgspec.structs.replace(run.summary, totals=more))
    for text in (summary_text(run.summary), seen(page_of(run, FIGURES)), seen(comparison_page([run, other]))):
        assert text.count("1,234,567") > 0
        assert bare(text) == []


def test_the_live_view() -> None:
    view = large_view()
    large = replace(
        view,
        flows=tuple(replace(flow, resent=LARGE, goodput_bps=12_345_678_901.0) for flow in view.flows),
        evs=tuple(replace(each, states=dict.fromkeys(each.states, LARGE)) for each in view.evs),
        faults=tuple(replace(each, seen=LARGE, dropped=LARGE) for each in view.faults),
        links=tuple(replace(each, sent=LARGE) for each in view.links),
        verdicts={"healthy": LARGE},
    )
    for shown in (frame(large, 80, 24), frame(large, 200, 50), whole_frame(large)):
        assert "1,234,567" in shown.plain
        assert bare(shown.plain) == []


def test_programs_get_plain_numbers(run: RunData, tmp_path: Path) -> None:
    assert run.summary is not None
    assert msgspec.json.decode(summary_json(run.summary))["totals"]["packets"] == LARGE
    assert b"1,234" not in summary_json(run.summary)
    write_csv(tmp_path / "x.csv", [{"packets": LARGE, "rate": 1234.5}])
    assert next(csv.DictReader((tmp_path / "x.csv").open())) == {"packets": "1234567", "rate": "1234.5"}
    assert "," not in row_line(collective_row(LARGE, 1.5, 0))


def test_what_was_typed_stays_as_it_was_typed(run: RunData) -> None:
    typed = replace(run, scenario={"seed": LARGE, "transport": {"rtt_us": 2500.5, "trimming": False}})
    asked = {each.name: each.values for each in compare([replace(run, scenario={}), typed]).asked}
    assert asked == {
        "seed": ("–", "1234567"),
        "transport.rtt_us": ("–", "2500.5"),
        "transport.trimming": ("–", "false"),
    }


def test_a_number_without_separators_would_be_noticed() -> None:
    assert bare("12345 packets, 1234.5 Mb/s (9999)") == ["12345", "1234", "9999"]
    assert bare("20260304T050607Z 2026-03-04 12,345 0x4001 h65535 0.00001 p0:leaf3 05:06:07.123456Z") == []
