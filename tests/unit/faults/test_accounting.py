"""Which kinds count all that they cost: every kind has an answer, and only those that shut or delay say no."""

import pytest

from faults.accounting import SHUT, why_uncounted
from faults.model import KINDS, By
from faults.traits import drop_rate_of
from faults.wording import worded

UNCOUNTED = {"delay", "reorder", "rate", "down", "flap", "reboot", "crash"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_every_kind_is_known(kind):
    assert (why_uncounted(kind.kind, kind.makers[0]) is not None) == (kind.word in UNCOUNTED)
    assert (kind.kind in SHUT) == (By.LINK in kind.makers)


def test_corruption_is_counted_by_ebpf_only():
    (corrupt,) = worded({"corrupt": "1%"}).faults
    assert drop_rate_of(corrupt) is None
    assert why_uncounted(corrupt.kind, "ebpf") is None
    assert "netem" in (why_uncounted(corrupt.kind, "netem") or "")
