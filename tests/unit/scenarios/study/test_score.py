"""Lines of results that cannot be: no count below nothing or above what it is of, no key of another point."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.study.score import flaws_of
from scenarios.study.simulate import simulate
from tests.unit.scenarios.study.test_model import point

ROW = simulate(point(spines=4, leaves=4, packets=300))
HEALTHY = simulate(point("none", spines=4, leaves=4, packets=300))
COUNTS = (
    "flows", "paths", "bad", "bad_failed", "bad_insufficient", "good", "good_failed", "good_insufficient", "good_flows",
    "good_flows_alarmed", "named_right", "named_wrong", "candidates", "candidates_wrong",
)  # fmt: skip


def flaws(row=ROW, **changed):
    return list(flaws_of(msgspec.structs.replace(row, **changed)))


@pytest.mark.parametrize("row", [ROW, HEALTHY])
def test_what_was_scored_has_no_flaw(row):
    assert (flaws(row), flaws(row, outcome="overloaded", seconds=0.0)) == ([], [])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"bad_failed": 99, "bad_insufficient": 0},
            f"`bad_failed` and `bad_insufficient` together are 99; at most {ROW.bad}, as `bad` says",
        ),
        ({"good_flows_alarmed": -1}, "`good_flows_alarmed` is -1; at least 0"),
        ({"good_flows_alarmed": 99}, f"`good_flows_alarmed` is 99; at most {ROW.good_flows}, as `good_flows` says"),
        ({"named_right": 5}, "`named_right` is 5; at most 1, as `links` says"),
        ({"candidates_wrong": 1}, "`candidates_wrong` is 1; at most 0, as `candidates` says"),
        ({"seconds": -0.5}, "`seconds` is -0.5; at least 0"),
        ({"allowed_miss": 1.5}, "`allowed_miss` is 1.5; at most 1"),
        ({"good_scores": ()}, f"`good_scores` has 0 numbers; `good_flows` says {ROW.good_flows}"),
        ({"key": "nonsense"}, "`key` is no point of a study: "),
        ({"key": "{}"}, "`key` is no point of a study: "),
        ({"seed": 77}, "`seed` is 77; `key` says 1"),
        ({"rate": 0.5}, "`rate` is 0.5; `key` says 0.01"),
        ({"leaves": 0}, "`leaves` is 0; at least 1"),
    ],
)
def test_what_cannot_be_is_told_with_its_key(changed, told):
    assert [flaw for flaw in flaws(**changed) if flaw.startswith(told)], flaws(**changed)


@given(st.sampled_from(COUNTS), st.integers(max_value=-1))
def test_no_count_is_below_nothing(name, value):
    assert f"`{name}` is {value}; at least 0" in flaws(**{name: value})


@given(st.sampled_from(COUNTS), st.integers(min_value=ROW.paths + 1, max_value=2**60))
def test_no_count_is_above_what_it_is_of(name, value):
    """But for `flows`, `paths` and `candidates`, which are of nothing else, and so is what is asked of their parts."""
    if name not in ("flows", "paths", "candidates"):
        assert flaws(**{name: value})
