"""Rates with their intervals, and ROC curves, from rows made by hand."""

import csv

import pytest
from msgspec.structs import fields
from scipy.stats import binomtest

from results.study.tables import CELL, ROC, cells_table, interval, roc_table, runs_table, telling, write_csv
from scenarios.study.model import Point


def row(**parts):
    values = {
        "key": "k",
        "mode": "simulated",
        "spray": "rotation",
        "expectation": "uniform",
        "loss_policy": "off",
        "planes": 1,
        "leaves": 8,
        "spines": 8,
        "rate": 0.01,
        "packets": 1000,
        "failure": "one",
        "strides": [1, 3],
        "asked_rate": 0.01,
        "allowed_miss": 0.001,
        "allowed_false_alarm": 0.001,
        "seed": 1,
        "outcome": "ok",
        "snr": 0.3,
        "flows": 16,
        "paths": 128,
        "bad": 2,
        "bad_failed": 1,
        "bad_insufficient": 1,
        "good": 126,
        "good_failed": 0,
        "good_insufficient": 0,
        "good_flows": 14,
        "good_dispersion": 0.1,
        "good_flows_alarmed": 0,
        "links": ["p0:leaf3>spine5"],
        "named": [],
        "named_right": 0,
        "named_wrong": 0,
        "candidates": 0,
        "candidates_wrong": 0,
        "common": [],
        "state": "none",
        "seconds": None,
        "bad_scores": [2.0, 5.0],
        "good_scores": [1.0, 3.0],
    }
    return values | parts


@pytest.mark.parametrize(("happened", "of"), [(0, 40), (40, 40), (3, 320), (1, 1), (0, 1)])
def test_intervals_are_clopper_and_pearsons(happened, of):
    exact = binomtest(happened, of).proportion_ci(0.95, "exact")
    assert interval(happened, of) == pytest.approx((exact.low, exact.high))


def test_a_cell_adds_up_its_runs_but_not_overloaded_ones():
    named = {
        "named": ["p0:leaf3>spine5"],
        "named_right": 1,
        "bad_failed": 2,
        "state": "named",
        "seconds": 2.5,
        "seed": 2,
    }
    wrong = {"named": ["p0:leaf1>spine5"], "named_wrong": 1, "seed": 3, "outcome": "overloaded"}
    (cell,) = cells_table([row(), row(**named), row(**wrong)])
    assert (cell["runs"], cell["overloaded"], cell["miss"], cell["miss_of"]) == (2, 1, 1, 4)
    assert (cell["found"], cell["link_found"], cell["wrong"], cell["seconds_median"]) == (1, 1, 0, 2.5)
    assert cell["miss_low"] < 0.25 < cell["miss_high"]


def test_a_healthy_cell_has_no_misses():
    (cell,) = cells_table([row(failure="none", rate=0.0, bad=0, bad_failed=0, links=[])])
    assert (cell["miss_of"], cell["miss_rate"], cell["found"]) == (0, None, 1)


def test_a_curve_goes_from_all_alarms_to_all_misses():
    points = [
        (each["false_alarm_rate"], each["miss_rate"]) for each in roc_table([row(), row(failure="none", bad_scores=[])])
    ]
    assert points == [(1.0, 0.0), (0.5, 0.0), (0.5, 0.5), (0.0, 0.5), (0.0, 1.0)]


def test_tables_are_flat(tmp_path):
    (flat,) = runs_table([row(links=["a", "b"])])
    assert not {"bad_scores", "good_scores", "key"}.intersection(flat)
    write_csv(tmp_path / "x.csv", [flat])
    write_csv(tmp_path / "empty.csv", [])
    (line,) = csv.DictReader((tmp_path / "x.csv").read_text().splitlines())
    assert (line["links"], line["strides"], line["named"]) == ("a b", "1 3", "")
    assert None not in line


OTHER = {
    "mode": "fabric", "spray": "random", "expectation": "declared", "loss_policy": "paper", "planes": 2, "leaves": 4,
    "spines": 4, "strides": [1], "asked_rate": 0.02, "allowed_miss": 0.01, "allowed_false_alarm": 0.01, "packets": 7,
}  # fmt: skip


def test_all_that_decides_how_a_run_ends_tells_cells_and_curves_apart():
    values = {field.name for field in fields(Point)} - {"seed"}
    assert {name.removeprefix("allowed_") for name in CELL} == {*values, "mode"}
    assert {*CELL} - {*OTHER} == {"rate", "failure"}


@pytest.mark.parametrize(("name", "value"), [*OTHER.items(), ("rate", 0.02), ("failure", "same-leaf")])
def test_different_experiments_are_not_pooled(name, value):
    rows = [row(), row(seed=2), row(**{name: value})]
    cells = cells_table(rows)
    assert [cell["runs"] for cell in cells] == [2, 1]
    shown = [each for each in CELL if each != name]
    assert telling(cells, shown) == (name,)
    assert telling(cells[:1], shown) == telling(cells, CELL) == telling([], shown) == ()
    if name != "failure":
        curves = {tuple(line[each] for each in ROC) for line in roc_table(rows)}
        assert len(curves) == 2


def test_a_curve_takes_healthy_runs_of_what_was_asked_whatever_the_rate():
    healthy = row(failure="none", rate=0.0, bad_scores=[], good_scores=[4.0] * 8)
    other = row(failure="none", rate=0.0, asked_rate=0.02, bad_scores=[], good_scores=[99.0])
    lines = roc_table([row(), row(rate=0.02), healthy, other])
    alarms = [line["false_alarm_rate"] for line in lines if line["threshold"] == 3.0]
    assert alarms == pytest.approx([8 / 12, 8 / 12])
    assert {line["rate"] for line in lines} == {0.01, 0.02}
