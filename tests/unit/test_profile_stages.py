"""The profile of the hot loop times functions by name: each of them must be there."""

import pytest

from tests.bench.profile_transport import STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_times_is_there(stage):
    for owner, name in STAGES[stage]:
        assert callable(getattr(owner, name, None)), f"{owner!r} has no {name}"
