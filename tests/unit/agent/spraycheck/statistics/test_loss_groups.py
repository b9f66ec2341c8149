"""Groups of paths that lose more than the rest of their flow, over many seeded flows with the stated error rates."""

import numpy as np
import pytest
from scipy.stats import binom

from agent.spraycheck.statistics.loss_groups import GROUP_ALARM, in_lossy_group

STRAY, STRICT = 1e-6, 1e-3 / 4096
PACKETS, PATHS, FLOWS = 2000, 8, 20_000


def flags(*lost: int) -> list[bool]:
    counts = np.array(lost, np.int64)
    return in_lossy_group(np.full_like(counts, PACKETS), counts, STRAY, STRICT).tolist()


@pytest.mark.parametrize(
    ("lost", "failed"),
    [
        ((0, 0, 156, 28), (2, 3)),  # one that loses much beside one that loses little
        ((300, 100, 30, 12, 0, 0, 0, 0), (0, 1, 2, 3)),
        ((40, 40, 40, 40, 40, 40, 40, 0), range(7)),
        ((40, 38, 41, 44, 39, 37, 42, 40), ()),
        ((0,) * 8, ()),
        ((1, 0, 0, 0, 0, 0, 0, 0), ()),
    ],
)
def test_failed_paths_do_not_hide_one_another(lost, failed):
    assert [at for at, flag in enumerate(flags(*lost)) if flag] == list(failed)


def drawn(seed: int, rates: list[float]) -> tuple[np.ndarray, np.ndarray]:
    sent = np.full((FLOWS, PATHS), PACKETS, np.int64)
    return sent, np.random.default_rng(seed).binomial(sent, np.broadcast_to(rates, sent.shape)).astype(np.int64)


@pytest.mark.parametrize("rate", [0.0005, 0.002, 0.01, 0.1])
def test_losses_common_to_all_paths_rarely_split_them(rate):
    alarms = int(in_lossy_group(*drawn(1, [rate] * PATHS), STRAY, STRICT).any(-1).sum())
    assert alarms <= binom.ppf(1 - 1e-6, FLOWS, GROUP_ALARM)


@pytest.mark.parametrize("rate", [0.0005, 0.002, 0.01])
def test_behind_a_failed_path_they_split_the_rest_no_more_often(rate):
    """The second look is at the level of the first."""
    found = in_lossy_group(*drawn(2, [0.3] + [rate] * (PATHS - 1)), STRAY, STRICT)
    assert found[:, 0].all()
    assert int(found[:, 1:].any(-1).sum()) <= binom.ppf(1 - 1e-6, FLOWS, GROUP_ALARM)


def test_a_path_that_loses_little_shows_beside_one_that_loses_much():
    """Seven losses are enough: (1/7)^7 times the groups and sizes there are is below the level."""
    found = in_lossy_group(*drawn(3, [0.08, 0.01] + [0.0] * (PATHS - 2)), STRAY, STRICT)
    assert found[:, 0].all()
    assert int((~found[:, 1]).sum()) <= binom.ppf(1 - 1e-6, FLOWS, binom.cdf(6, PACKETS, 0.01))
    assert not found[:, 2:].any()
