"""The list holds for the fast codec and for hosts that speak by Scapy's layers.

Scapy takes a thousand times as long a packet, so in every run it plays those tests of each line that send few packets;
`make conformance` plays all.
"""

import os

import pytest

from agent.io.codec import FAST
from tests.unit.agent.io.memory_lab import CODECS

FOR_BOTH = (
    "test_every_packet_carries_a_whole_reth",
    "test_short_messages_are_only_packets_with_a_msn_each",
    "test_immediates_ride_in_the_last_packet",
    "test_immediates_come_in_the_order_sent_whatever_the_packets_do",
    "test_too_many_in_flight_end_in_an_invalid_request",
    "test_trigger_",
    "test_a_trim_inside_the_fabric_skips_that_ev_only",
    "test_duplicates_are_placed_once_and_answered",
    "test_no_other_ev_is_ever_in_skip",
    "test_a_queue_pair_made_while_a_port_is_down_leaves_its_plane",
    "test_exhausted_retries_end_the_queue_pair_and_flush_it",
    "test_a_retransmission_takes_another_ev_of_the_same_plane",
    "test_two_codecs_understand_one_another",
)
"""How their names begin."""
ALL_BY_SCAPY = os.environ.get("SPRAYLAB_CONFORMANCE") == "scapy"


def pytest_generate_tests(metafunc):
    both = metafunc.function.__name__.startswith(FOR_BOTH)
    names = ["scapy"] if ALL_BY_SCAPY else ["fast", "scapy"] if both else ["fast"]
    metafunc.parametrize("codecs", names, indirect=True)


@pytest.fixture(autouse=True)
def codecs(request):
    """By Scapy: the host that sends, and by the fast codec the one that answers; so both sides of the seam are met."""
    chosen = (FAST,)
    if request.param == "scapy":
        from agent.io.scapy_port import SCAPY

        chosen = (SCAPY, FAST)
    token = CODECS.set(chosen)
    yield
    CODECS.reset(token)
