from hypothesis import given
from hypothesis import strategies as st

from agent.core.send.pacer import CATCH_UP_NS, Pacer

INTERVAL_NS = 1_000


def sent_by(pacer, times_ns, limit=1 << 20):
    """Packets sent if all that are due are sent at these times, by time."""
    sent = []
    for now_ns in times_ns:
        count = pacer.room(limit, now_ns)
        if count:
            pacer.on_sent(count, now_ns)
        sent.append(count)
    return sent


def test_one_packet_to_begin_with_and_then_one_an_interval():
    pacer = Pacer(INTERVAL_NS)
    assert pacer.due_ns is None
    assert sent_by(pacer, [5_000, 5_999, 6_000, 6_000, 9_500]) == [1, 0, 1, 0, 3]
    assert pacer.due_ns == 10_000


def test_what_is_not_sent_when_due_is_made_up_for_but_not_for_ever():
    pacer = Pacer(INTERVAL_NS)
    assert sent_by(pacer, [0, CATCH_UP_NS]) == [1, CATCH_UP_NS // INTERVAL_NS]
    assert sent_by(pacer, [10 * CATCH_UP_NS]) == [CATCH_UP_NS // INTERVAL_NS + 1]


def test_no_more_than_the_limit():
    pacer = Pacer(INTERVAL_NS)
    assert sent_by(pacer, [0], limit=0) == [0]
    pacer.on_sent(1, 0)
    assert pacer.room(3, 100_000) == 3


@given(st.lists(st.integers(0, CATCH_UP_NS), min_size=1, max_size=50), st.integers(1, 10**7))
def test_never_faster_than_asked_and_never_slower_while_asked_often_enough(gaps, interval_ns):
    pacer, now_ns, total = Pacer(interval_ns), 1_000_000_007, 0
    start_ns = now_ns
    for gap in [0, *gaps]:
        now_ns += gap
        total += sum(sent_by(pacer, [now_ns], limit=1 << 62))
        assert total == 1 + (now_ns - start_ns) // interval_ns
