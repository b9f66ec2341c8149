"""The report in a browser: no message, no request but for itself, every figure to be seen, at two widths."""

import re
from base64 import b64decode

import msgspec
import pytest

from results.report import comparison
from results.report import page as report_page
from results.report.page import write_report
from results.report.run_data import read_run
from results.report.style import Drawn
from tests.report.layout import CUT, HIDDEN, OVERLAPS, SEEN, TOO_WIDE
from tests.support.chromium import BROWSER, page
from tests.support.run_folder import LINK, write_collective_run, write_run

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (apt install chromium)"),
    pytest.mark.timeout(120),
]
FIGURES = ["fabric", "arrivals", "arrivals-all", "timeline", "reordering"]

MOST_PAGES = 5
"""Of a run of 8 leaves and 8 spines on paper (our choice)."""

NOT_DRAWN = [Drawn(name, name, "", absent="not drawn") for name in FIGURES]


def test_reports_open_without_a_word_and_show_every_figure(tmp_path):
    runs = {
        "gray": write_run(tmp_path / "gray"),
        "healthy": write_run(tmp_path / "healthy", link=None),
        "overloaded": write_run(tmp_path / "overloaded", outcome="overloaded"),
        "collective": write_collective_run(tmp_path / "collective"),
    }
    for run in runs.values():
        write_report(run)
    with page() as shown:
        for name, run in runs.items():
            for width, dark in ((1280, False), (400, True)) if name == "gray" else ((400, False),):
                shown.show(run.report, width, dark)
                assert shown.messages() == [], name
                assert [url for url in shown.requests() if not url.startswith("data:")] == [run.report.as_uri()], name
                assert shown.value(SEEN) == [[figure, True] for figure in FIGURES], (name, width)
                assert (shown.value(TOO_WIDE), shown.value(CUT)) == ([], []), (name, width)
                assert (shown.value(HIDDEN), shown.value(OVERLAPS)) == ([], []), (name, width)
                dark_page = shown.value("getComputedStyle(document.body).backgroundColor")
                assert (dark_page == "rgb(20, 24, 29)") == dark


def test_a_report_is_printed_on_few_pages(tmp_path):
    run = write_run(tmp_path / "gray")
    write_report(run)
    with page() as shown:
        shown.show(run.report, 1280)
        pdf = b64decode(shown.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= MOST_PAGES


def test_figures_beside_each_other_are_whole(tmp_path):
    runs = [read_run(write_run(tmp_path / "gray")), read_run(write_run(tmp_path / "healthy", link=None))]
    (tmp_path / "page.html").write_text(comparison.comparison_page(runs))
    with page() as shown:
        for width in (1280, 400):
            shown.show(tmp_path / "page.html", width)
            assert shown.value(SEEN) == [[figure, True] for figure in FIGURES for _ in runs]
            assert [shown.value(each) for each in (TOO_WIDE, OVERLAPS, CUT)] == [[]] * 3, width


def test_tables_of_many_long_names_fit_their_page(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "figures_of", lambda *_: NOT_DRAWN)
    run = write_run(tmp_path / "long")
    told = msgspec.json.decode(run.summary.read_bytes())
    named = [told["witnesses"][1]["named"][0] | {"link": f"p{at}:leaf12>spine{at}3"} for at in range(5)]
    missed = [f"p{at}:spine12>leaf13" for at in range(5)]
    full = told["witnesses"][1] | {"named": named, "missed": missed, "note": "12 of 64 verdicts are insufficient"}
    told["witnesses"] = [full | {"packets": 1_048_576, "seconds": 1234.56, "witness": "SprayCheck declared"}] * 3
    told["injected"][0] |= {"requested_text": "p=1%,r=20%,bad=80%,good=0.1% of what goes to h12, first transmissions"}
    run.summary.write_bytes(msgspec.json.encode(told))
    words = "gemodel p=1%,r=20%,bad=80%,good=0.1% of what goes to h12, first transmissions"
    run.truth.write_text(run.truth.read_text().replace("drop 1%", words).replace('"by":"scenario"', '"by":"hand"'))
    report_page.write_report(run)
    with page() as shown:
        for width in (1280, 1024, 800, 400):
            shown.show(run.report, width)
            assert "gemodel" in shown.value("document.querySelector('#broken').innerText")
            assert shown.value(TOO_WIDE) == [], width


def test_comparisons_of_any_number_of_runs_fit_their_page(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "figures_of", lambda *_: [])  # they have a test of their own
    runs = []
    for at in range(10):
        run = write_run(tmp_path / f"run-{at}", link=LINK if at % 2 else None)
        run.scenario.write_text(f"name: a-name-of-{at}\nwords: {'many-words-' * 6}{at}\ndrop: {at}%")
        runs.append(read_run(run))
    with page() as shown:
        for count in (2, 6, 7, 10):
            file = tmp_path / f"{count}.html"
            file.write_text(comparison.comparison_page(runs[:count]))
            for width in (1280, 800, 400):
                shown.show(file, width)
                assert shown.messages() == []
                assert shown.value(TOO_WIDE) == [], (count, width)


def test_what_is_too_wide_would_be_noticed(tmp_path):
    file = tmp_path / "wide.html"
    cells = "<td style='white-space: nowrap'>" + "word " * 60
    file.write_text(f"<div style='overflow: hidden; width: 50%'><table>{cells}</table></div><pre>{'x' * 400}</pre>")
    with page() as shown:
        shown.show(file, 1280)
        assert {found.partition(" ")[0] for found in shown.value(TOO_WIDE)} >= {"HTML", "DIV", "TABLE", "TD"}


def test_a_page_that_asks_for_something_would_be_noticed(tmp_path):
    file = tmp_path / "bad.html"
    file.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('no'); nothing.here</script>")
    with page() as shown:
        shown.show(file, 1280)
        shown.value("1")
        assert "http://127.0.0.1:9/x.png" in shown.requests()
        assert len(shown.messages()) >= 2
