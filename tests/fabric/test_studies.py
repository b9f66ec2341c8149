"""`spraylab study` on a fabric, and its model held against it: the same points, counts within their chance."""

import json
import math

import msgspec
import pytest
from click.testing import CliRunner
from scipy.stats import binom, chi2

from agent.spraycheck.statistics.calibration import ROTATION_ENDS
from scenarios.cli.main import main
from scenarios.lab.lab_dir import labs_up
from scenarios.study.model import Point
from scenarios.study.simulate import simulate
from tests.support.namespaces import needs_root

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

PACKETS, RATE, SPINES = 2000, 0.03, 4
FILE = f"""version: 1
name: both
leaves: 4
spines: [{SPINES}]
spray: [rotation, random]
expectation: [uniform, declared]
rates: [{100 * RATE:g}%]
packets: [{PACKETS}]
seeds: 1
healthy_seeds: 1
"""


def test_fabric_and_model_agree(tmp_path):
    (tmp_path / "both.yaml").write_text(FILE)
    words = (str(tmp_path / "both.yaml"), "--folder", str(tmp_path / "out"), "--lab", "both", "--json", "--no-figures")
    done = CliRunner().invoke(main, ["study", *words])
    assert done.exit_code == 0, done.output
    assert "both" not in labs_up()
    rows = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert {row["outcome"] for row in rows} == {"ok"}, "this machine did not keep up"
    assert len(rows) == 8
    assert len(list((tmp_path / "out" / "runs").glob("*-study-*"))) == 4, "a run answers both expectations"
    for row in rows:
        model = msgspec.json.decode(msgspec.json.encode(simulate(msgspec.json.decode(row["key"], type=Point))))
        same = ("links", "flows", "paths", "bad", "good", "good_flows")
        if row["spray"] == "rotation":
            same = (*same, "bad_failed", "named", "state")
        assert {name: row[name] for name in same} == {name: model[name] for name in same}
    broken, healthy = rows[0], next(row for row in rows if row["spray"] == "random" and row["failure"] == "none")
    assert_binomial(broken)
    assert broken["seconds"] > 0
    assert_spread(healthy)


def assert_binomial(row):
    """Under rotation what is missing on the bad paths was lost, but for the ends of flows."""
    missing = round(sum(score * math.sqrt(PACKETS) for score in row["bad_scores"]))
    low, high = binom.ppf([1e-4, 1 - 1e-4], PACKETS * row["bad"], RATE)
    ends = ROTATION_ENDS * row["bad"]
    assert low - ends <= missing <= high + ends
    assert max(row["good_scores"]) * math.sqrt(PACKETS) <= ROTATION_ENDS


def assert_spread(row):
    """Under random spraying the counts of a healthy flow are multinomial: chi-square with k - 1 degrees of freedom."""
    low, high = chi2.ppf([1e-4, 1 - 1e-4], row["flows"] * (SPINES - 1))
    assert low <= row["good_dispersion"] * row["good"] <= high
