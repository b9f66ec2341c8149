"""Tails of the binomial distribution, exact. From scipy.special, since scipy.stats takes half a second to import."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc


def at_most(k: int, n: int, p: float) -> float:
    """Compute P(X <= k) for X ~ Binomial(n, p), any k."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else float(bdtr(k, n, p))


def at_least(k: int, n: int, p: float) -> float:
    """Compute P(X >= k) for X ~ Binomial(n, p), any k."""
    if k <= 0:
        return 1.0
    return 0.0 if k > n else float(bdtrc(k - 1, n, p))


def quantile(probability: float, n: int, p: float) -> int:
    """Find the smallest k with P(X <= k) >= `probability`."""
    below, enough = -1, n
    while enough - below > 1:
        middle = (below + enough) // 2
        if at_most(middle, n, p) >= probability:
            enough = middle
        else:
            below = middle
    return enough


def all_at_least(k: NDArray[np.int64], n: NDArray[np.int64], p: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Compute P(X >= k) for X ~ Binomial(n, p), element by element, any shapes that broadcast; 0 <= k <= n."""
    return np.asarray(bdtrc(k - 1, n, p), np.float64)
