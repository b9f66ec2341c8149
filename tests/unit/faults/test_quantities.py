"""Rates as people write them, and the 32-bit numbers they become."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.errors import FaultError, RateError
from faults.kinds import RandomDrop
from faults.mechanisms.netem_config import chance_of, rate_of_chance
from faults.quantities import CERTAIN, parse_rate, rate_of_threshold, render_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1%", Fraction(1, 100)),
        ("0.5%", Fraction(1, 200)),
        (".5%", Fraction(1, 200)),
        ("50bp", Fraction(1, 200)),
        ("0.1 bp", Fraction(1, 100_000)),
        ("0.001%", Fraction(1, 100_000)),
        (" 100% ", Fraction(1)),
        ("0%", Fraction(0)),
        ("0bp", Fraction(0)),
    ],
)
def test_rates_are_read_exactly(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.005", "'0.005' has no unit; write 0.005% or 0.5%, whichever is meant"),
        ("1", "'1' has no unit; write 1% or 100%, whichever is meant"),
        ("5", "'5' has no unit; write 5%"),
        ("0", "'0' has no unit; write 0%"),
        ("500", "'500' is not a rate; write it as 1%, 0.5% or 50bp"),
        ("1e-3", "'1e-3' has no unit; write 0.001% or 0.1%, whichever is meant"),
        ("", "'' is not a rate; write it as 1%, 0.5% or 50bp"),
        ("-1%", "'-1%' is not a rate; write it as 1%, 0.5% or 50bp"),
        ("1 percent", "'1 percent' is not a rate; write it as 1%, 0.5% or 50bp"),
        ("nan%", "'nan%' is not a rate; write it as 1%, 0.5% or 50bp"),
        ("100.1%", "'100.1%' is more than everything; the largest rate is 100%"),
        (
            "0.000000001%",
            "'0.000000001%' is below what 32 random bits can make; the smallest rate is 0.000000024%",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(text, message):
    with pytest.raises(RateError) as caught:
        parse_rate(text)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, FaultError)


def test_the_smallest_rate_of_the_hint_is_possible():
    assert RandomDrop(parse_rate("0.000000024%")).threshold == 1


@pytest.mark.parametrize(("rate", "threshold"), [("0%", 0), ("100%", CERTAIN), ("50%", 2**31), ("1%", 42_949_673)])
def test_thresholds(rate, threshold):
    assert RandomDrop(parse_rate(rate)).threshold == threshold


rates = st.fractions(0, 1).filter(lambda rate: rate == 0 or rate * CERTAIN >= 1)


@given(rates)
def test_the_rate_in_force_is_within_half_a_step(rate):
    drop = RandomDrop(rate)
    assert abs(rate_of_threshold(drop.threshold) - rate) <= Fraction(1, 2 * CERTAIN)


@given(rates.filter(bool))
def test_netem_is_within_a_step_and_a_half_and_never_off(rate):
    """netem drops when its random number is at most `loss`, so `loss` is one less, and 0 would mean never."""
    loss = chance_of(rate)
    assert 1 <= loss < CERTAIN
    assert abs(rate_of_chance(loss) - rate) <= Fraction(3, 2 * CERTAIN)


def test_netem_off_and_full():
    assert rate_of_chance(0) == 0
    assert rate_of_chance(chance_of(Fraction(1))) == 1


@pytest.mark.parametrize("text", ["1%", "0.5%", "0.001%", "100%", "0%", "33.3%"])
def test_rates_are_written_as_they_were_read(text):
    assert render_rate(parse_rate(text)) == text
    assert str(RandomDrop(parse_rate(text))) == f"drop {text}"
