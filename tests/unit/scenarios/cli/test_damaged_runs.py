"""Two hundred damaged run folders; `make mutate` tries ten thousand."""

import pytest

from tests.fuzz.mutate_runs import failures_of


@pytest.mark.slow
def test_no_damage_to_a_run_ends_in_a_traceback(tmp_path):
    assert failures_of(range(1, 201), tmp_path, draw_every=200) == []
