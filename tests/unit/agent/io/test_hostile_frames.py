"""A short attack on live hosts; `python -m tests.fuzz.fuzz_host` is the long one."""

import pytest

from agent.wire.array.decode import RejectReason
from tests.fuzz.fuzz_host import KINDS, Fuzz


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_hostile_frames_are_counted_and_harm_nobody_else(seed):
    """Nothing raises, no byte outside a region changes, other pairs' data arrives right and without a resend."""
    tally = Fuzz(seed).run(40_000)
    assert tally.frames == 40_000
    assert all(tally.delivered[kind] for kind in KINDS)
    seldom = {RejectReason.ACCEPTED, RejectReason.ANNOUNCEMENT, RejectReason.ROUTING_HEADER}
    assert all(tally.rejected[reason] for reason in set(RejectReason) - seldom)
    assert tally.unknown_qp > 0
    assert tally.judged
    assert all(count > 0 for count in tally.judged.values()), tally.judged


def test_an_attack_is_determined_by_its_seed():
    assert Fuzz(9).run(1_500) == Fuzz(9).run(1_500)
