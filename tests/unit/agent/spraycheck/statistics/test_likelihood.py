"""Rates and likelihoods of explanations against simulated counts."""

import numpy as np
import pytest

from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.likelihood import FIT_ALARM, Observation, fit, shares

STRAY = 1e-6
UP, DOWN4, DOWN6 = (
    FabricLink(0, 3, 5, up=True),
    FabricLink(0, 4, 5, up=False),
    FabricLink(0, 6, 5, up=False),
)


def observed(rng, rates, pairs=((3, 4), (3, 6), (1, 4), (2, 6)), sent=20_000):
    paths = [FabricPath(0, source, 5, target) for source, target in pairs]
    arrive = [np.prod([1 - rates.get(link, 0.0) for link in path.links]) for path in paths]
    return [Observation(path, sent, int(rng.binomial(sent, 1 - p))) for path, p in zip(paths, arrive, strict=True)]


def test_the_rate_of_one_link_is_the_share_lost_on_its_paths():
    seen = [Observation(FabricPath(0, 3, 5, 4), 1000, 10), Observation(FabricPath(0, 3, 5, 6), 3000, 26)]
    found = fit([UP], seen, STRAY)
    assert found.rates == pytest.approx((36 / 4000,), abs=1e-5)
    assert found.fits


@pytest.mark.parametrize("rates", [{UP: 0.01, DOWN4: 0.03}, {DOWN4: 0.01, DOWN6: 0.002}, {UP: 0.05}])
def test_rates_are_found_within_their_chance(rates):
    rng = np.random.default_rng(1)
    for _ in range(50):
        found = fit(rates, observed(rng, rates), STRAY)
        for link, rate in zip(found.links, found.rates, strict=True):
            assert abs(rate - rates[link]) < 5 * np.sqrt(rates[link] / 20_000) + 2e-3 * (len(rates) > 1)


def test_the_right_explanation_is_doubted_as_rarely_as_stated():
    rng = np.random.default_rng(2)
    doubted = sum(not fit([UP], observed(rng, {UP: 0.02}, ((3, 4), (3, 6), (3, 7))), STRAY).fits for _ in range(2000))
    assert doubted <= 5  # P(6 or more) is 2e-6 at FIT_ALARM
    assert FIT_ALARM == 1e-4


def test_one_link_cannot_explain_two_rates():
    rng = np.random.default_rng(3)
    seen = observed(rng, {DOWN4: 0.01, DOWN6: 0.05}, ((3, 4), (3, 6)))
    one, two = fit([UP], seen, STRAY), fit([DOWN4, DOWN6], seen, STRAY)
    assert not one.fits
    assert two.fits
    assert shares([one, two])[1] > 0.999


def test_a_short_look_at_another_path_counts_for_what_it_is():
    """500 packets without a loss are too few for a verdict, and make a 1 % drop there e^5 times less likely."""
    seen = [Observation(FabricPath(0, 3, 5, 4), 1000, 10), Observation(FabricPath(0, 3, 5, 6), 500, 0)]
    first, second = shares([fit([UP], seen, STRAY), fit([DOWN4], seen, STRAY)])
    assert second / first == pytest.approx(1.5**10, rel=0.02)


def test_without_counts_explanations_of_one_size_are_equally_likely():
    assert shares([fit([UP], [], STRAY), fit([DOWN4], [], STRAY)]) == pytest.approx([0.5, 0.5])
