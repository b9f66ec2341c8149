"""Explanations: their likelihood, and the flow that decides between them."""

import numpy as np
import pytest

from agent.spraycheck.accuse.explanations import FIT_ALARM, Observation, deciding_flow, fit, shares
from agent.spraycheck.paths import FabricLink, FabricPath

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


UPLINK, DOWN = FabricLink(0, 3, 5, up=True), FabricLink(0, 4, 5, up=False)
EITHER = {frozenset({UPLINK}): 0.5, frozenset({DOWN}): 0.5}


def test_a_flow_over_one_suspect_and_a_link_known_to_be_healthy():
    cleared = {FabricLink(0, 6, 5, up=False)}
    found = deciding_flow(EITHER, {UPLINK: 0.01, DOWN: 0.01}, range(8), cleared)
    assert found is not None
    assert (found.path, found.rate) == (FabricPath(0, 3, 5, 6), 0.01)


def test_lowest_numbers_decide_among_equals_and_unknown_rates_stay_unknown():
    found = deciding_flow(EITHER, {}, range(8), ())
    assert found is not None
    assert (found.path, found.rate) == (FabricPath(0, 0, 5, 4), None)


def test_two_leaves_have_no_other_pair():
    assert deciding_flow(EITHER, {}, {3, 4}, ()) is None


def test_the_likeliest_split_is_preferred():
    third = FabricLink(0, 6, 5, up=False)
    found = deciding_flow({frozenset({UPLINK}): 0.1, frozenset({DOWN}): 0.5, frozenset({third}): 0.4}, {}, range(8), ())
    assert found is not None
    assert (DOWN in found.path.links) != bool({UPLINK, third} & set(found.path.links))
