"""The spread of measured times."""

import numpy as np
import pytest

from agent.host.programs.measurements import spread_of


@pytest.mark.parametrize(("times", "median"), [([7], 7), ([9, 1, 5], 5), ([1, 9], 5), ([8, 1, 2, 3], 2.5)])
def test_the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle(times: list[int], median: float) -> None:
    spread = spread_of(np.array(times, np.int64))
    assert spread is not None
    assert spread.median == median
