"""Which packets a fault looks at."""

import pytest

from agent.wire.constants import Dscp
from faults.selector import ALL, Only, spares_first_sent


@pytest.mark.parametrize(
    ("only", "spared"),
    [
        (ALL, False),
        (Only(dscp=Dscp.TRIMMABLE_RETX), True),
        (Only(dscp=Dscp.CONTROL), True),
        (Only(dscp=Dscp.TRIMMABLE), False),
        (Only(dscp=Dscp.NO_TRIM, qpn=8), False),
        (Only(control=True), True),
        (Only(first_sent=True, last=3), False),
    ],
)
def test_what_takes_no_first_transmission_is_known_by_value_and_by_words(only: Only, spared: bool) -> None:
    assert only.spares_first_sent is spared
    assert spares_first_sent(f"50%{only}") is spared
