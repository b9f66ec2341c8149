"""Figures of what varies, and of nothing else."""

from xml.etree import ElementTree

from results.figures import draw_figures
from results.study_table import cells_table, roc_table
from tests.unit.results.test_study_table import row


def test_a_study_of_one_cell_has_only_its_curve(tmp_path):
    rows = [row()]
    drawn = draw_figures(cells_table(rows), roc_table(rows), tmp_path)
    assert [path.name for path in drawn] == ["roc.svg", "roc.png"]


def test_what_varies_is_drawn_and_repeats_byte_by_byte(tmp_path):
    rows = [
        row(packets=packets, spines=spines, failure=failure)
        for packets in (100, 300, 1000) for spines in (4, 8, 16) for failure in ("one", "same-leaf")
    ]  # fmt: skip
    tables = cells_table(rows), roc_table(rows)
    first, second = (draw_figures(*tables, tmp_path / name) for name in ("a", "b"))
    assert {path.stem for path in first} == {"roc", "misses", "spines", "time-to-detect", "failures"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg = ElementTree.parse(tmp_path / "a" / "misses.svg").getroot()
    texts = " ".join(text for text in svg.itertext())
    assert "packets on each spine" in texts


def test_nothing_done_draws_nothing(tmp_path):
    assert draw_figures([], [], tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
