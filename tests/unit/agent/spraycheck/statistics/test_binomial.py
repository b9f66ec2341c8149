"""The tails against scipy.stats, edges included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from agent.spraycheck.statistics.binomial import at_least, at_most, quantile


@given(st.integers(-2, 300), st.integers(0, 200), st.floats(0, 1))
def test_tails_are_those_of_the_distribution(k, n, p):
    assert at_most(k, n, p) == pytest.approx(binom.cdf(k, n, p), abs=1e-9)
    assert at_least(k, n, p) == pytest.approx(binom.sf(k - 1, n, p), abs=1e-9)


@pytest.mark.parametrize(("n", "p"), [(32_000_000, 0.99 / 8), (4098, 0.99), (160_000, 1 / 64), (5000, 1.0)])
@pytest.mark.parametrize("probability", [1e-9, 1e-4, 0.5])
def test_quantiles_of_large_flows(n, p, probability):
    found = quantile(probability, n, p)
    assert found == binom.ppf(probability, n, p)
    assert at_most(found, n, p) >= probability > at_most(found - 1, n, p)
