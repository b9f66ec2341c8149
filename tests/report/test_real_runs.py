"""Reports of real runs in a browser: one fault, none, three, and one on a machine that did not keep up."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest

from results.files.run_dir import RunDir
from results.report.comparison import comparison_page
from results.report.run_data import read_run
from tests.report.layout import CUT, OVERLAPS, SEEN, TOO_WIDE
from tests.support.chromium import BROWSER, page
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab

pytestmark = [
    pytest.mark.root,
    needs_root,
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (apt install chromium)"),
    pytest.mark.timeout(300),
]

TRAFFIC = """
version: 1
name: {name}
description: {description}
transport: {{pmtu: 256, window_pkts: 128, ack_timeout_ms: 5000}}
workloads:
  - {{type: write, strides: [1, 3], message_bytes: 256KiB, {packets}}}
detector: {{min_rate: 3%}}
{rest}
"""
THREE_FAULTS = """
faults:
  - {link: "p0:leaf2>spine1", gemodel: {p: 1%, r: 20%, bad: 80%, good: 0.1%}, only_first: true, only_size: 200-4000}
  - {link: "p1:spine0>leaf3", corrupt: 10%, at: 100ms, for: 400ms}
  - {link: "p1:leaf0>spine2", duplicate: 2%, only_to: h1, only_first: true}
expect: {detection: recorded}
"""
"""Of long words, which have to fit into the tables."""
SCENARIOS = {
    "gray": ("One link drops 3 %.", "packets: 8192", 'faults: [{link: "p0:leaf2>spine1", drop: 3%}]'),
    "healthy": ("Nothing is wrong.", "packets: 8192", ""),
    "three-faults": ("Losses in bursts, copies, and for a while flipped bits.", "packets: 8192", THREE_FAULTS),
    "overloaded": ("More is asked for than any machine can send.", "packets: 32768, rate: 2Gbit", ""),
}
"""Description, packets and rate of a flow, and what is broken."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunDir]]:
    """A run of each, on one small lab, with its report."""
    folder = tmp_path_factory.mktemp("runs")
    with own_lab(folder, reports=True) as lab:
        lab("up", "--planes", "2", "--leaves", "4", "--spines", "4")
        yield {name: run_of(lab, name, folder, (5,) if name == "overloaded" else (0, 1, 5)) for name in SCENARIOS}


def run_of(lab: Lab, name: str, folder: Path, codes: tuple[int, ...]) -> RunDir:
    description, packets, rest = SCENARIOS[name]
    file = folder / f"{name}.yaml"
    file.write_text(TRAFFIC.format(name=name, description=description, packets=packets, rest=rest))
    run = lab.start("run", "--attach", str(file))
    _, said = run.communicate(timeout=240)
    assert run.returncode in codes, said
    return RunDir((folder / "latest").resolve())


def test_they_open_without_a_word_and_show_every_figure(runs: dict[str, RunDir]) -> None:
    boxes = {}
    with page() as shown:
        for name, run in runs.items():
            for width, dark in ((1280, False), (400, True)):
                shown.show(run.report, width, dark)
                assert shown.messages() == [], name
                assert [url for url in shown.requests() if not url.startswith("data:")] == [run.report.as_uri()], name
                seen = dict(shown.value(SEEN))
                assert {"fabric", "arrivals", "arrivals-all", "timeline", "reordering"} <= set(seen), name
                assert all(seen.values()), (name, width, seen)
                assert shown.value(TOO_WIDE) == [], (name, width)
                assert shown.value(OVERLAPS) == [], (name, width)
            boxes[name] = shown.value("document.querySelector('.verdict').innerText")
    assert "not to be trusted" in boxes["overloaded"]
    assert "This machine did not keep up" in boxes["overloaded"]
    assert "no number on this page is to be trusted" in runs["overloaded"].report.read_text()
    compared = runs["gray"].path.parent / "compared.html"
    compared.write_text(comparison_page([read_run(runs["gray"]), read_run(runs["three-faults"])]))
    with page() as shown:
        for width in (1280, 400):
            shown.show(compared, width)
            assert shown.messages() == []
            assert len(seen := shown.value(SEEN)) == 10
            assert all(there for _, there in seen), (width, seen)
            assert [shown.value(each) for each in (TOO_WIDE, OVERLAPS, CUT)] == [[]] * 3, width
    for link in ("p0:leaf2>spine1", "p1:spine0>leaf3", "p1:leaf0>spine2"):
        assert escape(link) in runs["three-faults"].report.read_text()
