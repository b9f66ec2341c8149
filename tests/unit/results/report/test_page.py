"""The report says what the folder says, of any folder, and nothing else; it needs nothing but itself."""

import dataclasses
import re
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from matplotlib.image import imread

from results.files.event_log import write_records
from results.files.run_dir import RunDir
from results.metrics import totals_of
from results.report import arrivals_figure, fabric_figure, reordering_figure, timeline_figure
from results.report.page import FILES as FILES_OF_FIGURES
from results.report.page import figures_of, page_of, write_report
from results.report.run_data import RunData, read_run
from results.report.scales import Reach
from results.report.sentences import sentence_of
from results.report.style import BESIDE_IN, COLUMN_IN, WIDTH_IN, Drawn, save
from results.summary import CaptureResult, LabChange, Summary, summary_json
from tests.support.run_folder import FABRIC, LINK, ROUNDS, detect_records, write_collective_run, write_run

FIGURES = ("fabric", "arrivals", "arrivals-all", "timeline", "reordering")
NOT_DRAWN = [Drawn(name, name, "", absent="not drawn") for name in FIGURES]
"""Where the words are the question: drawing takes seconds."""


def page(run: RunDir) -> str:
    return page_of(read_run(run), NOT_DRAWN)


@pytest.fixture(scope="module")
def gray(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "20260304T050607Z-gray-link-1")


@pytest.fixture(scope="module")
def gray_page(gray):
    write_report(gray)
    return gray.report.read_text()


def drawn_timeline(data: RunData, width_in: float = WIDTH_IN) -> Drawn:
    return timeline_figure.draw(data, width_in, timeline_figure.reaches(data))


def drawn_arrivals(data: RunData) -> Drawn:
    return arrivals_figure.draw(data, WIDTH_IN, arrivals_figure.reaches(data))[0]


def text_of(html: str) -> str:
    """What a reader sees: without markup, blanks alike."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).replace("&gt;", ">")


def test_the_verdict_is_one_sentence(gray_page):
    assert (
        "as expected Link p0:leaf3>spine5 had the fault drop 1%; SprayCheck named exactly this link 5.95 s "
        "after the first packet; all 256 MiB arrived intact, with 80 packets resent."
    ) in text_of(gray_page)


def test_the_tables_say_what_was_asked_for_and_measured(gray_page):
    text = text_of(gray_page)
    assert "p0:leaf3>spine5 drop 1% drop 1% before traffic, 6.20 8,194 80 0.98% (0.79% to 1.21%) ebpf" in text
    assert "SprayCheck uniform * p0:leaf3>spine5 1 0 none 5.95 8,192 2 100% 100%" in text
    assert "p0:leaf3>spine5>… 80" in text
    assert "h3 > h4 – 0x3001 16 MiB 65,536 40 0 6.00 22.0 ✓ byte for byte" in text
    assert "losses unexplained 0 resent without an injected drop; at most 4" in text
    assert "payload bytes" in text


def test_the_figures_mark_what_failed_and_who_was_accused(gray_page):
    text = text_of(gray_page)
    assert "p0:leaf3>spine5: failed and accused" in text
    assert "p0 leaf3 > leaf4" in text
    assert "MRC events – – – – – – – – – no events (loss policy off)" in text
    assert "what agents and witnesses reported" in text
    assert (
        "1,048,576 first transmissions of 16 flows, 50.0% of them in order; the furthest came 15 packets late" in text
    )


def test_nothing_is_fetched(gray_page):
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+", gray_page)) - {"http://www.w3.org"}
    assert addresses == set()
    assert not re.search(r"<(script|iframe|img|object|link (?!rel=\"icon\" href=\"data:))", gray_page)
    assert "url(http" not in gray_page


def test_ids_are_there_once(gray_page):
    ids = re.findall(r'\bid="([^"]+)"', gray_page)
    repeated = {one for one in ids if ids.count(one) > 1}
    # matplotlib numbers its groups in each figure anew; nothing refers to those.
    assert {one for one in repeated if f"#{one}" in gray_page} == set()


def test_figures_are_files_too(gray, gray_page):
    names = {path.name for path in gray.figures.iterdir()}
    wanted = {f"{stem}.{kind}" for stem in FIGURES for kind in ("svg", "png", "pdf")}
    assert names == wanted | {f"{stem}-column.{kind}" for stem in FIGURES for kind in ("svg", "pdf")}
    assert set(FILES_OF_FIGURES) == {*FIGURES, *(f"{stem}-column" for stem in FIGURES)}
    for stem, inches in (("timeline", WIDTH_IN), ("timeline-column", COLUMN_IN)):
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", (gray.figures / f"{stem}.pdf").read_bytes())
        assert box
        assert float(box[1]) == pytest.approx(72 * inches)
    assert all((gray.figures / f"{stem}.png").read_bytes().startswith(b"\x89PNG") for stem in FIGURES)
    assert all("var(--" not in (gray.figures / f"{stem}.svg").read_text() for stem in FIGURES)


def test_a_run_draws_what_its_page_needs_and_leaves_the_paper_to_the_report(tmp_path):
    run = write_run(tmp_path / "x")
    write_report(run, for_paper=False)
    drawn = {path.name for path in run.figures.iterdir()}
    assert drawn == {f"{stem}.{kind}" for stem in FIGURES for kind in ("svg", "png")}


def test_the_same_folder_gives_the_same_page(gray, gray_page):
    data = read_run(gray)
    assert page_of(data, figures_of(data), figures_of(data, COLUMN_IN)) == gray_page


def test_what_a_scenario_says_is_text_only(tmp_path):
    run = write_run(tmp_path / "x")
    run.scenario.write_text("name: <script>alert(1)</script>\ndescription: '<b>bold</b> & more'\n")
    html = page(run)
    assert "<script>" not in html
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in html


FILES = (
    "summary.json", "topology.json", "detect.jsonl", "agent.jsonl", "counters.jsonl", "truth.jsonl", "env.json",
    "scenario.yaml",
)  # fmt: skip


@pytest.mark.parametrize("missing", FILES)
def test_any_one_file_may_be_missing(gray, tmp_path, missing):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(gray.path, copy.path)
    (copy.path / missing).unlink()
    html = page(copy)
    assert f"{missing}: No such file or directory" in html
    assert text_of(html).count("Reliability of these numbers") == 1


def gone(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


def spoilt(path):
    path.write_bytes(b"\xff\n")


LOSSES = [gone, emptied, spoilt]
UNTOLD = "the folder does not show what was broken"


@pytest.mark.parametrize("lose", LOSSES)
def test_a_run_whose_faults_are_lost_is_not_called_whole(tmp_path, lose):
    run = write_run(tmp_path / "x")
    lose(run.truth)
    data = read_run(run)
    assert any(problem.startswith("truth.jsonl: ") for problem in data.problems)
    assert f"The folder does not show what was broken; SprayCheck named {LINK} 5.95 s" in sentence_of(data).text
    text = text_of(page_of(data, figures_of(data)))
    assert f"{UNTOLD} (truth.jsonl)" in text
    assert "The folder does not show what was broken (truth.jsonl)." in text
    assert f"{LINK}: accused" in text
    assert "not recorded (truth.jsonl)" in text
    assert not [told for told in ("nothing was broken", "had no fault") if told in text]


def test_what_was_broken_is_not_known_by_a_scenario_without_a_summary(tmp_path):
    run = write_run(tmp_path / "x", link=None)
    assert (UNTOLD in text_of(page(run)), "nothing was broken" in text_of(page(run))) == (False, True)
    gone(run.summary)
    assert "nothing was broken" in text_of(page(run)), "the scenario has no fault"
    run.scenario.write_text("name: x\nfaults:\n- {target: p0:leaf3>spine5, drop: 1%}\n")
    assert UNTOLD in text_of(page(run))
    emptied(run.scenario)
    assert UNTOLD in text_of(page(run))


def test_a_truth_that_tells_no_fault_which_the_summary_has_is_not_believed(tmp_path):
    run = write_run(tmp_path / "x")
    run.truth.write_text(run.truth.read_text().splitlines()[1] + "\n")
    assert "truth.jsonl: no fault that was set is in it" in read_run(run).problems
    assert UNTOLD in text_of(page(run))


@pytest.mark.parametrize("lose", LOSSES)
def test_witnesses_and_agents_whose_records_are_lost_are_not_called_silent(tmp_path, lose):
    run = write_run(tmp_path / "x")
    for path in (run.detect, run.agent):
        lose(path)
    data = read_run(run)
    assert {problem.partition(":")[0] for problem in data.problems} == {"detect.jsonl", "agent.jsonl"}
    text = text_of(page_of(data, figures_of(data)))
    assert "the folder does not show what arrived (detect.jsonl)" in text
    assert "the folder does not show what senders lost (agent.jsonl)" in text
    assert "The folder does not show who was accused (detect.jsonl)." in text
    assert (text.count("not recorded (detect.jsonl)"), text.count("not recorded (agent.jsonl)")) == (2, 2)
    assert "resent so far (line, right); not recorded: agent.jsonl" in text
    assert not [told for told in ("no sender lost", "not accused", "no verdict was") if told in text]


def test_a_run_in_which_nothing_was_judged_has_no_verdict_and_no_problem(tmp_path):
    run = write_run(tmp_path / "x", link=None)
    emptied(run.detect)
    assert read_run(run).problems == ["detect.jsonl: empty"]
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["detected"] |= {"state": "silent", "verdicts": {}}
    run.summary.write_bytes(msgspec.json.encode(summary))
    data = read_run(run)
    assert data.problems == []
    assert figures_of(data)[1].absent == "no verdict was recorded (detect.jsonl)"


def test_agents_that_were_to_record_nothing_are_no_problem(tmp_path):
    run = write_run(tmp_path / "x", link=None)
    emptied(run.agent)
    assert read_run(run).problems == ["agent.jsonl: empty"]
    run.scenario.write_text("name: x\nevents: off\n")
    assert read_run(run).problems == []
    assert "the folder does not show what senders lost" in text_of(page(run))


def test_a_folder_of_empty_files_says_of_each_that_it_is(tmp_path):
    run = write_run(tmp_path / "x")
    for name in FILES:
        emptied(run.path / name)
    assert sorted(read_run(run).problems) == sorted(f"{name}: empty" for name in FILES)


def test_captures_and_what_they_do_not_hold_are_told(gray, tmp_path):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(gray.path, copy.path)
    summary = msgspec.json.decode(copy.summary.read_bytes(), type=Summary)
    files = (CaptureResult("pcap/a.pcap", 1600, 3, 100, True), CaptureResult("pcap/b.pcap", None, None, 100))
    load = msgspec.structs.replace(summary.load, events_cut=12_000)
    copy.summary.write_bytes(summary_json(msgspec.structs.replace(summary, captures=files, load=load)))
    text = text_of(page(copy))
    for told in (
        "1,600 packets in pcap/a.pcap; up to 100 bytes of each; the kernel lost 3 more; FULL: later ones",
        "packets in pcap/b.pcap; up to 100 bytes of each; tcpdump reported no number",
        "12,000 the oldest, by limits.events",
    ):
        assert told in text


def test_what_somebody_else_changed_is_told_and_not_called_wrong(gray, tmp_path):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(gray.path, copy.path)
    summary = msgspec.json.decode(copy.summary.read_bytes(), type=Summary)
    change = LabChange("p0-spine5", "leaf3", "mtu", "9000", "1500", "has MTU 1500", ("p0:leaf3>spine5",), "both")
    named = tuple(msgspec.structs.replace(each, right=False, changed=True) for each in summary.detected.named)
    detected = msgspec.structs.replace(summary.detected, named=named, missed=())
    copy.summary.write_bytes(
        summary_json(msgspec.structs.replace(summary, detected=detected, changed=(change,), outcome="fail"))
    )
    text = text_of(page(copy))
    assert "SprayCheck named p0:leaf3>spine5, which somebody else changed" in text
    assert "Somebody else changed the lab, not spraylab: p0-spine5 port leaf3 has MTU 1500." in text


def test_figures_of_what_is_left(gray, tmp_path):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(gray.path, copy.path)
    for missing in ("summary.json", "counters.jsonl", "truth.jsonl"):
        (copy.path / missing).unlink()
    absent = {figure.name: figure.absent for figure in figures_of(read_run(copy))}
    assert absent == dict.fromkeys(FIGURES, "") | {"reordering": "the summary does not record the order of arrival"}


def test_an_empty_folder_has_a_report_that_says_so(tmp_path):
    data = read_run(RunDir(tmp_path))
    assert len(data.problems) == 8
    html = page_of(data, figures_of(data))
    assert "the folder does not show the fabric" in html
    assert "no file of the folder has a record with a time" in html
    assert sentence_of(data).outcome == "unfinished"


def test_broken_lines_and_documents_are_told_of(gray, tmp_path):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(gray.path, copy.path)
    with copy.agent.open("ab") as file:
        file.write(
            b'{"event": "LOSS", "mono_ns": 1\n\xff\n{"event":"NEWS","v":9}\n{"event":"EV_STATE","evs":{"a":"b"}}\n'
        )
    copy.summary.write_text('{"v": 2}')
    copy.topology.write_text('{"planes": 99, "leaves": 1, "spines": 1, "hosts_per_leaf": 1}')
    copy.scenario.write_text("a: [")
    problems = read_run(copy).problems
    told = {problem.partition(":")[0] for problem in problems}
    assert told == {"scenario.yaml", "topology.json", "summary.json", "agent.jsonl"}
    assert "agent.jsonl: 4 lines cannot be read (the first: line 84: Input data was truncated)" in problems
    assert "not finished" in page(copy)


def test_an_overloaded_run_is_not_to_be_trusted(tmp_path):
    text = text_of(page(write_run(tmp_path / "x", outcome="overloaded")))
    assert "not to be trusted This machine did not keep up (ring drops), so nothing below is to be trusted." in text


def test_warnings_of_the_machine_are_told(tmp_path):
    run = write_run(tmp_path / "x")
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["load"]["warnings"] = ["engines waited long"]
    run.summary.write_bytes(msgspec.json.encode(summary))
    text = text_of(page(run))
    assert "warning engines waited long" in text
    assert "with 80 packets resent. Warning: engines waited long." in text
    assert "this machine kept up" not in text


def test_what_a_shut_port_cost_the_other_way_is_told(tmp_path):
    run = write_run(tmp_path / "x")
    records = run.truth.read_text().replace("drop 1%", "down").replace('"dropped_reverse":null', '"dropped_reverse":76')
    run.truth.write_text(records)
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["injected"] = []
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert "8,194 80 76 lost the other way ebpf" in text_of(page(run))


def test_what_a_fault_hit_is_told_beside_what_was_asked_for(tmp_path):
    run = write_run(tmp_path / "x")
    truth = run.truth.read_text().replace("drop 1%", "corrupt 1%")
    run.truth.write_text(truth.replace('"requested":0.01', '"requested":null'))
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["injected"] = []
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert "8,194 80 80 hit, 0.98% (0.79% to 1.21%) ebpf" in text_of(page(run))


def test_a_link_named_for_what_is_no_drop_is_not_called_sound(tmp_path):
    run = write_run(tmp_path / "x")
    run.truth.write_text(run.truth.read_text().replace("drop 1%", "corrupt 1%"))
    summary = msgspec.json.decode(run.summary.read_bytes())
    (named,) = summary["detected"]["named"]
    other = named | {"link": "p1:leaf0>spine0", "right": False}
    summary["detected"]["named"] = [named | {"right": False}, other]
    run.summary.write_bytes(msgspec.json.encode(summary))
    text = sentence_of(read_run(run)).text
    assert f"SprayCheck named {LINK}, which had corrupt 1% and dropped nothing" in text
    assert "SprayCheck named p1:leaf0>spine0, which did not drop;" in text


@pytest.mark.parametrize(("seconds", "shown"), [((5.9,), 1), ((0.1,), 1), ((0.1, 5.9), 2), ((0.1, 0.3, 0.31), 1)])
def test_names_of_the_accused_stand_where_no_star_is(gray, seconds, shown):
    data = read_run(gray)
    last = next(each for each in reversed(data.accusations) if each.links)
    said = [dataclasses.replace(last, at_ns=data.zero_ns + round(at * 1e9)) for at in seconds]
    svg = drawn_timeline(dataclasses.replace(data, accusations=said, faults=[])).svg
    assert svg.count(LINK.replace(">", "&gt;")) == shown, "the last one always has its name"


def test_the_last_star_has_all_names_and_others_those_they_added(gray):
    data = read_run(gray)
    last = next(each for each in reversed(data.accusations) if each.links)
    later = (LINK, "p1:leaf0>spine2", "p1:leaf1>spine2")
    said = [
        dataclasses.replace(last, at_ns=data.zero_ns + round(at * 1e9), links=links)
        for at, links in ((2, (LINK,)), (5.9, later))
    ]
    text = text_of(drawn_timeline(dataclasses.replace(data, accusations=said, faults=[])).svg)
    assert f"{LINK}, p1:leaf0>spine2, p1:leaf1>spine2" in text
    assert text.count(LINK) == 2
    taken_back = [said[0], dataclasses.replace(said[1], links=(), state="none")]
    assert "nobody" in text_of(drawn_timeline(dataclasses.replace(data, accusations=taken_back, faults=[])).svg)
    many = [dataclasses.replace(said[0], links=tuple(f"p0:leaf{at}>spine{at}" for at in range(20)))]
    text = text_of(drawn_timeline(dataclasses.replace(data, accusations=many, faults=[])).svg)
    assert re.search(r"p0:leaf0>spine0, .* and \d+ more", text)


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDTH_IN, BESIDE_IN, COLUMN_IN])
def test_no_label_of_a_figure_in_a_file_is_cut(gray, width, tmp_path):
    save(figures_of(read_run(gray), width), tmp_path)
    for name in FIGURES:
        pixels = imread(tmp_path / f"{name}.png")
        edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
        assert [bool((edge == pixels[0, 0]).all()) for edge in edges] == [True] * 4, name


def test_a_star_tells_the_links_of_which_one_is_accused(gray):
    data = read_run(gray)
    sets = ((LINK, "p0:spine5>leaf4"),)
    open_ended = [dataclasses.replace(data.accusations[-1], links=(), candidates=sets)]
    text = text_of(drawn_timeline(dataclasses.replace(data, accusations=open_ended)).svg)
    assert f"one of {LINK}, p0:spine5>leaf4" in text
    many = [
        dataclasses.replace(
            data.accusations[-1], links=(), candidates=(tuple(f"p0:leaf{at}>spine5" for at in range(20)),)
        )
    ]
    text = text_of(drawn_timeline(dataclasses.replace(data, accusations=many)).svg)
    assert "one of 20 links" in text


def test_dashes_are_told_only_where_there_are_thresholds(gray):
    data = read_run(gray)
    assert "is below the threshold" in text_of(page(gray))
    by_rate = drawn_arrivals(data)
    assert "the dashes are the threshold" in by_rate.caption
    assert "threshold" in by_rate.svg
    none = dataclasses.replace(data.verdicts, threshold=np.full(len(data.verdicts), np.nan))
    declared = dataclasses.replace(data, verdicts=none)
    arrivals = drawn_arrivals(declared)
    assert "dashes" not in arrivals.caption
    assert "threshold" not in arrivals.svg
    assert "how many packets it sent over a path" in page_of(declared, NOT_DRAWN)


def test_goodput_stays_in_its_plot_and_a_last_moment_is_no_rate_of_its_own(gray):
    data = read_run(gray)
    times, acked = data.progress.at_ns, data.progress.acked_bytes
    jump = dataclasses.replace(
        data.progress,
        at_ns=np.append(times, times[-1] + 1_000_000),
        acked_bytes=np.concatenate([acked, acked[-1:] + 10_000_000]),
        resent=np.concatenate([data.progress.resent, data.progress.resent[-1:]]),
    )
    figure = drawn_timeline(dataclasses.replace(data, progress=jump)).figure
    axes = next(each for each in figure.axes if each.get_title(loc="left").startswith("goodput"))
    highest = max(float(np.max(line.get_ydata())) for line in axes.lines)
    assert 0 < highest < axes.get_ylim()[1]
    assert highest < 10_000_000 * 8 / 1e6 / 0.01


def test_the_map_and_its_bar_are_of_one_colour_that_a_dark_page_can_change(gray_page):
    figure = gray_page[gray_page.index('id="arrivals-all"') :].partition("</figure>")[0]
    assert "<image" not in figure
    assert figure.count("var(--fault)") > 24
    assert "a triangle one that is not judged alone (insufficient; spraylab detect RUN says why)" in text_of(figure)


def test_a_fault_set_by_hand_is_told(tmp_path):
    run = write_run(tmp_path / "x")
    run.truth.write_text(run.truth.read_text().replace('"by":"scenario"', '"by":"hand"'))
    assert "0.98% (0.79% to 1.21%) ebpf, set by hand" in text_of(page(run))


def test_long_names_of_faults_are_cut_where_the_timeline_has_no_room(gray):
    data = read_run(gray)
    words = "gemodel p=1%,r=20%,bad=80%,good=0.1% of 200-4000 B, first transmissions"
    long = dataclasses.replace(data, faults=[dataclasses.replace(data.faults[0], words=words)])
    whole, cut = (drawn_timeline(long, width).svg for width in (WIDTH_IN, BESIDE_IN))
    assert words in whole
    assert words not in cut
    assert words[:30] in cut


def test_a_link_that_nobody_had_to_name_did_not_go_unnoticed(tmp_path):
    run = write_run(tmp_path / "x")
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["detected"] |= {"named": [], "missed": [LINK], "decides": False}
    run.summary.write_bytes(msgspec.json.encode(summary))
    text = text_of(page(run))
    assert f"{LINK} dropped packets and was not named, which is recorded and decides nothing; all 256 MiB" in text
    assert "unnoticed" not in text
    summary["detected"]["missed"] = []
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert "no link was accused, which is recorded and decides nothing" in text_of(page(run))


def test_verdicts_of_several_flows_together_are_told(tmp_path):
    run = write_run(tmp_path / "x")
    assert "by several flows together" not in text_of(page(run))
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["detected"]["added_up"] = 1200
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert "1,200 of them only by several flows together; each alone is too small." in text_of(page(run))


def test_a_failed_run_says_what_failed(tmp_path):
    text = text_of(page(write_run(tmp_path / "x", outcome="fail")))
    assert "Not as expected: the right links are named." in text
    assert "✗ fails the right links are named" in text


def test_suspects_that_cannot_be_told_apart_are_named(tmp_path):
    run = write_run(tmp_path / "x")
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["detected"] |= {"named": [], "candidates": [["p0:leaf3>spine5", "p0:spine5>leaf4"]], "fewest": [1]}
    run.summary.write_bytes(msgspec.json.encode(summary))
    text = sentence_of(read_run(run)).text
    assert "SprayCheck accused one of p0:leaf3>spine5, p0:spine5>leaf4 and could not decide which" in text
    summary["detected"]["candidates"] *= 2
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert "SprayCheck accused 2 sets of links and could not decide" in sentence_of(read_run(run)).text


def test_a_healthy_run_accuses_nobody(tmp_path):
    text = text_of(page(write_run(tmp_path / "x", link=None)))
    assert "Nothing was broken; no link was accused; all 256 MiB arrived intact" in text
    assert LINK not in text


def test_what_did_not_happen_is_said_and_not_drawn(tmp_path):
    run = write_run(tmp_path / "x", link=None)
    summary = msgspec.json.decode(run.summary.read_bytes())
    for flow in summary["flows"]:
        flow["reordering"] = {"in_order": 65536, "late": [], "most": 0}
    run.summary.write_bytes(msgspec.json.encode(summary))
    data = read_run(run)
    still = dataclasses.replace(data.progress, resent=0 * data.progress.resent)
    data = dataclasses.replace(data, progress=still, agents=dataclasses.replace(data.agents, lost=Counter()))
    reordering = reordering_figure.draw(data, WIDTH_IN, reordering_figure.reaches(data))
    assert reordering.absent == "all 1,048,576 first transmissions of 16 flows arrived in order"
    timeline = drawn_timeline(data).figure
    assert timeline is not None
    losses = next(axes for axes in timeline.axes if axes.get_title(loc="left").startswith("packets lost"))
    assert [text.get_text() for text in losses.texts] == ["none"]


def test_a_collective_is_right_by_its_numbers_and_has_a_table(tmp_path):
    run = write_collective_run(tmp_path / "x")
    text = text_of(page(run))
    assert "byte wrong" not in text
    assert "bytes wrong" not in text
    assert text.count("✓ checked round of all-reduce") == 4
    assert "barriers, 8 queue pairs – – 40 B 40 0 0" in text
    assert "h0, h1, h2, h3 8 MiB 10 688.88 690.12 731.00 0.0122 0.0183 ✓ 8,388,608 right" in text
    told = (
        "all 528.0 MiB arrived, with 0 packets resent; compared: one round of all-reduce, all 8,388,608 numbers right"
    )
    assert told in text
    assert "intact" not in text
    assert "all-reduce, 8 MiB 688.88 ms a round (median 690.12 ms), busbw 0.0183 GB/s, 10 rounds" in text
    assert "4 flows and 8 queue pairs of barriers" in text


def test_a_collective_that_is_wrong_or_did_not_end_is_not_called_right(tmp_path):
    wrong = text_of(page(write_collective_run(tmp_path / "wrong", msgspec.structs.replace(ROUNDS, wrong=12))))
    assert (wrong.count("✗ all-reduce: 12 numbers wrong"), "✗ 12 numbers wrong" in wrong) == (4, True)
    assert "12 of 8,388,608 numbers of collectives are wrong" in wrong
    ended = text_of(page(write_collective_run(tmp_path / "ended", None)))
    assert (ended.count("✗ all-reduce did not end"), "✗ did not end" in ended) == (4, True)


def test_what_was_compared_is_told_where_writes_and_collectives_meet(tmp_path):
    data = read_run(write_collective_run(tmp_path / "x"))
    mixed = write_run(tmp_path / "y")
    summary = read_run(mixed).summary
    flows = (*summary.flows, *data.summary.flows)
    both = msgspec.structs.replace(
        summary, flows=flows, totals=totals_of(flows, 6_000_000_000), collectives=data.summary.collectives
    )
    mixed.summary.write_bytes(summary_json(both))
    told = "compared: 256 MiB of writes, byte for byte and one round of all-reduce, all 8,388,608 numbers right"
    assert told in text_of(page(mixed))


def test_a_flow_has_both_its_queue_pairs_in_the_table(tmp_path):
    run = write_run(tmp_path / "x")
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["flows"][0] |= {"source_qpn": 0x2, "qpn": 0x1001}
    run.summary.write_bytes(msgspec.json.encode(summary))
    text = text_of(page(run))
    assert "flow from QP to QP data" in text
    assert "h0 > h1 0x2 0x1001 16 MiB" in text


def test_flows_of_one_pair_of_leaves_have_panels_of_their_own_and_names(gray):
    def titles(*flows):
        lines = detect_records(FABRIC)
        like = next(line for line in lines if line["event"] == "DETECT")
        said = [
            like | {"spine": spine, "src_host": src, "dst_host": dst, "qpn": qpn}
            for src, dst, qpn in flows for spine in range(8)
        ]  # fmt: skip
        with TemporaryDirectory() as folder:
            run = write_run(Path(folder) / "x")
            run.detect.unlink()
            write_records(run.detect, said, "x", 1)
            data = read_run(run)
            figure = arrivals_figure.draw(data, WIDTH_IN, arrivals_figure.reaches(data))[0].figure
        return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]

    assert titles((0, 1, 0x1001)) == ["p0  leaf0 > leaf1"]
    assert titles((0, 2, 0x2001), (1, 2, 0x2002)) == ["p0  leaf0 > leaf1\nh0 > h2", "p0  leaf0 > leaf1\nh1 > h2"]
    assert titles((0, 2, 0x2001), (0, 2, 0x2002), (1, 2, 0x2003)) == [
        "p0  leaf0 > leaf1\nh0 > h2, QP 0x2001",
        "p0  leaf0 > leaf1\nh0 > h2, QP 0x2002",
        "p0  leaf0 > leaf1\nh1 > h2",
    ]


def test_barriers_are_no_flows_of_the_timeline(tmp_path):
    figure = drawn_timeline(read_run(write_collective_run(tmp_path / "x"))).figure
    axes = next(each for each in figure.axes if each.get_title(loc="left").startswith("goodput of each of 4 flows"))
    median = axes.lines[-1].get_ydata()
    assert np.allclose(median[1:], (132 << 20) * 8 / 6 / 1e6), "not that of eight queue pairs without data"


def test_a_write_that_was_not_compared_is_not_said_to_have_zero_bytes_wrong(tmp_path):
    run = write_run(tmp_path / "x")
    summary = msgspec.json.decode(run.summary.read_bytes())
    summary["flows"][0] |= {"state": "ERROR", "bytes_verified": 0}
    run.summary.write_bytes(msgspec.json.encode(summary))
    assert (text_of(page(run)).count("✗ 0 B compared"), "0 bytes wrong" in text_of(page(run))) == (1, False)


def test_lines_of_failed_and_accused_links_meet_their_nodes(gray):
    data = read_run(gray)
    figure = fabric_figure.draw(data).figure
    axes = figure.axes[0]
    nodes = np.concatenate([each.get_offsets() for each in axes.collections[1:]])
    boxes = axes.transData.transform(nodes)
    marked = [line for line in axes.lines if line.get_linewidth() > 2]
    assert len(marked) == 2, "failed and accused"
    for line in marked:
        for end in line.get_transform().transform(line.get_xydata()):
            away_pt = np.abs(boxes - end).max(axis=1).min() * 72 / figure.dpi
            assert away_pt <= 4, "half of the side of a node's box"


def test_the_label_of_a_link_stands_above_its_upper_end(tmp_path):
    def label(link):
        run = write_run(tmp_path / link.replace(">", "-"))
        data = read_run(run)
        moved = [dataclasses.replace(fault, link=link) for fault in data.faults]
        data = dataclasses.replace(data, faults=moved)
        figure = fabric_figure.draw(data).figure
        figure.draw_without_rendering()
        axes = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("plane 0"))
        text = next(text for text in axes.texts if text.get_text().startswith(f"{link}: failed"))
        box = text.get_window_extent()
        node = axes.transData.transform(((int(link[-1]) + 0.5) / 8, 1.5))[0]
        assert axes.get_window_extent().x0 - 5 < box.x0, link
        assert box.x1 < axes.get_window_extent().x1 + 5, link
        return box.x0 < node < box.x1

    assert all(label(f"p0:leaf3>spine{spine}") for spine in (0, 3, 4, 7))


def test_legends_are_of_what_is_there(gray, tmp_path):
    healthy = read_run(write_run(tmp_path / "x", link=None))
    fabric, arrivals = fabric_figure.draw(healthy).svg, drawn_arrivals(healthy).svg
    assert not [text for text in ("injected", "accused") if text in fabric]
    assert "healthy" in arrivals
    assert not [text for text in ("failed", "insufficient") if text in arrivals]
    assert "accused for certain" in fabric_figure.draw(read_run(gray)).svg
    assert "one of these" not in fabric_figure.draw(read_run(gray)).svg


@pytest.mark.parametrize(
    ("spines", "failed", "ticks"),
    [
        (8, {5}, list(range(8))),
        (16, {5}, [0, 2, 5, 8, 10, 12, 14]),
        (64, {13, 63}, [0, 13, 24, 32, 40, 48, 63]),
        (64, set(range(20)), [0, 8, 16, 24, 32, 40, 48, 56]),
    ],
)
def test_the_spine_that_failed_has_its_number_at_the_axis(spines, failed, ticks):
    told = arrivals_figure._spine_ticks(Reach(0, spines - 1), 8, failed)
    assert [tick for tick in told if tick not in ticks] == []
    assert failed <= set(told) or len(failed) > 4
    assert told == ticks


def test_times_of_one_fault_share_a_row_and_its_name_covers_no_bar(gray):
    data = read_run(gray)
    times = [(at, at + 400_000_000) for at in range(data.zero_ns, data.zero_ns + 6 * 10**9, 10**9)]
    words = "flap period=1s,duty=40%,count=6,jitter=0s"
    flaps = [dataclasses.replace(data.faults[0], words=words, since_ns=at, until_ns=end) for at, end in times]
    figure = drawn_timeline(dataclasses.replace(data, faults=flaps)).figure
    axes = figure.axes[0]
    assert len(axes.patches) == 6
    (name,) = axes.texts
    assert name.get_text().startswith(LINK)
    figure.draw_without_rendering()
    box = name.get_window_extent()
    assert not [bar for bar in axes.patches if bar.get_window_extent().overlaps(box)]


def test_the_legend_of_losses_touches_no_bar(gray):
    for width in (WIDTH_IN, COLUMN_IN):
        figure = drawn_timeline(read_run(gray), width).figure
        axes = next(each for each in figure.axes if "packets lost" in each.get_title(loc="left"))
        figure.draw_without_rendering()
        box = axes.get_legend().get_window_extent()
        assert axes.patches
        assert not [bar for bar in axes.patches if bar.get_height() and bar.get_window_extent().overlaps(box)]


def test_a_flow_that_has_ended_has_no_rate_and_takes_none_from_the_median(gray):
    data = read_run(gray)
    flows = [
        msgspec.structs.replace(flow, seconds=3.1 if at < 12 else 6.0) for at, flow in enumerate(data.summary.flows)
    ]
    acked = data.progress.acked_bytes.copy()
    acked[:, :12] = np.minimum(2 * acked[:, :12], acked[-1, :12])
    some = dataclasses.replace(
        data,
        summary=msgspec.structs.replace(data.summary, flows=tuple(flows)),
        progress=dataclasses.replace(data.progress, acked_bytes=acked),
    )
    figure = drawn_timeline(some).figure
    axes = next(each for each in figure.axes if each.get_title(loc="left").startswith("goodput"))
    assert "the median of those that send" in axes.get_title(loc="left")
    median = axes.lines[-1].get_ydata()
    rate = (16 << 20) * 8 / 6 / 1e6
    assert median[-1] == pytest.approx(rate, rel=0.01)
    assert median[2] == pytest.approx(2 * rate, rel=0.01)
    assert not [line for line in axes.lines[:12] if np.isfinite(line.get_ydata()[-1])]
