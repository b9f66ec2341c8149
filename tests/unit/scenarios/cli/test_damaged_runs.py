"""Two hundred damaged run folders; `make mutate` tries ten thousand."""

import pytest

from tests.fuzz.mutate_runs import failures_of


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 201, 50))
def test_no_damage_to_a_run_ends_in_a_traceback(tmp_path, first):
    assert failures_of(range(first, first + 50), tmp_path, draw_every=200) == []
