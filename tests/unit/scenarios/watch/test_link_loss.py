"""Losses of links from losses of paths: a faulty link shows its loss, the others across the same paths do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.watch.link_loss import LinkLoss, PathCount, PathId, link_losses

PACKETS = 4096


def losses(paths: dict[PathId, PathCount]) -> dict[str, LinkLoss]:
    return {str(link): loss for link, loss in link_losses(paths).items()}


def fabric_with(bad: str, share: float, seed: int, strides: tuple[int, ...] = (1, 3)) -> dict[PathId, PathCount]:
    """Every leaf of eight sends to two others over eight spines; one link drops a share."""
    rng = np.random.default_rng(seed)
    found = {}
    for leaf in range(8):
        for stride in strides:
            for spine in range(8):
                path = PathId(0, leaf, spine, (leaf + stride) % 8)
                hit = bad in map(str, path.links)
                found[path] = PathCount(PACKETS, int(rng.binomial(PACKETS, share)) if hit else 0)
    return found


@pytest.mark.parametrize("bad", ["p0:leaf3>spine5", "p0:spine2>leaf6"])
def test_only_the_faulty_link_shows_a_loss_whatever_the_seed(bad: str) -> None:
    for seed in range(200):
        found = losses(fabric_with(bad, 0.01, seed))
        assert [link for link, known in found.items() if known.loss] == [bad]
        assert 0.004 < found[bad].loss < 0.014  # the least of two counts around 1 %: their deviation is 0.16 %


def test_with_one_path_across_a_link_its_two_links_show_the_same() -> None:
    path = PathId(1, 0, 2, 3)
    assert losses({path: PathCount(1000, 10)}) == {
        "p1:leaf0>spine2": LinkLoss(1000, 0.01),
        "p1:spine2>leaf3": LinkLoss(1000, 0.01),
    }


def test_a_handful_of_packets_does_not_hide_the_loss_of_thousands() -> None:
    paths = {PathId(0, 0, 0, 1): PathCount(10_000, 100), PathId(0, 0, 0, 2): PathCount(20, 0)}
    assert losses(paths)["p0:leaf0>spine0"] == LinkLoss(10_020, 0.01)


def test_of_a_link_that_nothing_was_sent_over_nothing_is_claimed() -> None:
    assert losses({PathId(0, 0, 0, 1): PathCount(0, 0)})["p0:leaf0>spine0"] == LinkLoss(0, None)


COUNTS = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(lambda pair: PathCount(*pair))
PATHS = st.builds(PathId, st.integers(0, 1), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))


@given(st.dictionaries(PATHS, COUNTS))
def test_a_share_is_a_share_and_no_path_across_that_counts_lost_less(paths: dict[PathId, PathCount]) -> None:
    for link, known in link_losses(paths).items():
        across = [count for path, count in paths.items() if link in path.links]
        assert known.sent == sum(count.sent for count in across)
        if known.loss is not None:
            assert 0 <= known.loss <= 1
            busiest = max(across, key=lambda count: count.sent)
            assert known.loss <= min(1, busiest.lost / busiest.sent)
