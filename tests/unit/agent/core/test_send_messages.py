"""Segmentation of posted writes; what a sender declares is exact for any division of packets into batches and flows."""

import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.errors import RegionError
from agent.core.send.messages import FlowShares, MessageTable
from agent.wire.constants import Opcode

VA = 0xFFFF_FFFF_0000_0000


def naive(posts, pmtu):
    """(opcode, msn, va, dmalen, source offset, payload) of every packet, one at a time."""
    packets, number = [], 0
    for offset, length, message_bytes in posts:
        for start in range(0, length, message_bytes):
            size = min(message_bytes, length - start)
            for into in range(0, size, pmtu):
                payload = min(pmtu, size - into)
                first, last = into == 0, into + payload == size
                opcode = {
                    (True, True): Opcode.WRITE_ONLY,
                    (True, False): Opcode.WRITE_FIRST,
                    (False, True): Opcode.WRITE_LAST,
                    (False, False): Opcode.WRITE_MIDDLE,
                }[first, last]
                at = start + into
                packets.append((opcode, number & 0xFFFF, VA + at, size, offset + at, payload))
            number += 1
    return packets


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 900), st.integers(1, 300)), min_size=1, max_size=12),
    st.integers(1, 64),
    st.randoms(use_true_random=False),
)
def test_segments_equal_the_packets_of_a_loop(posts, pmtu, shuffle):
    source = np.zeros(1000, np.uint8)
    table = MessageTable(pmtu)
    for offset, length, message_bytes in posts:
        table.post(source, offset, length, VA, 3, message_bytes)
    expected = naive(posts, pmtu)
    assert table.end == len(expected)
    assert table.posted_bytes == sum(length for _, length, _ in posts)
    order = list(range(len(expected)))
    shuffle.shuffle(order)
    got = table.segments(np.array(order))
    columns = (got.opcode, got.msn, got.va, got.dmalen, got.source_offset, got.payload_bytes)
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == [expected[i] for i in order]
    assert (got.rkey == 3).all()
    assert got.source is source


@settings(max_examples=50)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=60), st.integers(1, 50), st.data())
def test_messages_complete_in_order_as_the_point_passes_their_end(lengths, pmtu, data):
    table, source = MessageTable(pmtu), np.zeros(200, np.uint8)
    ends, done, point = [], 0, 0
    for length in lengths:
        assert table.post(source, 0, length, 0, 0, length) == range(len(ends), len(ends) + 1)
        ends.append(table.end)
        point = data.draw(st.integers(point, table.end))
        first, count, size = table.complete_below(point)
        expected = sum(end <= point for end in ends) - done
        assert (first, count, size) == (done, expected, sum(lengths[done : done + expected]))
        done += expected
        started = ends[done - 1] if done else 0
        assert table.bytes_below(point) == sum(lengths[:done]) + (point - started) * pmtu
        if done < len(ends):
            assert table.segments(np.array([table.end - 1])).payload_bytes[0] == (length - 1) % pmtu + 1
    table.complete_below(table.end)
    assert table.completed == table.posted == len(lengths)
    assert table.completed_bytes == table.posted_bytes == table.bytes_below(table.end)


def test_segments_end_before_another_source_memory():
    one, two = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    table = MessageTable(10)
    for source in (one, two, one):
        table.post(source, 0, 30, 0, 0, 30)
    got = table.segments(np.arange(9))
    assert len(got) == 3
    assert got.source is one
    assert table.segments(np.arange(3, 9)).source is two
    assert len(table.segments(np.array([0, 7, 8, 4]))) == 3


@pytest.mark.parametrize("release", [lambda table: table.complete_below(table.end), MessageTable.release])
def test_memory_is_held_only_while_something_of_it_may_be_sent(release):
    table, other = MessageTable(10), np.zeros(100, np.uint8)
    gone = np.zeros(100, np.uint8)
    held = weakref.ref(gone)
    table.post(gone, 0, 30, 0, 0, 30)
    del gone
    assert held() is not None
    release(table)
    assert held() is None
    if table.completed:
        table.post(other, 0, 30, 0, 0, 30)
        assert table.segments(np.arange(3, 6)).source is other


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": -1},
        {"length": 0},
        {"offset": 60},
        {"message_bytes": 0},
        {"message_bytes": 1 << 32},
        {"va": (1 << 64) - 49},
        {"va": -1},
        {"rkey": 1 << 32},
    ],
)
def test_what_cannot_be_sent_is_refused(wrong):
    good = {"offset": 0, "length": 50, "va": 0, "rkey": 0, "message_bytes": 50}
    with pytest.raises(RegionError):
        MessageTable(10).post(np.zeros(100, np.uint8), **(good | wrong))


EVS = 5


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 40)), max_size=6),
    cuts=st.lists(st.integers(1, 30), max_size=30),
    seed=st.integers(0, 99),
)
def test_every_flow_gets_its_own_packets_and_no_others(gaps, cuts, seed):
    shares, flows, at = FlowShares(EVS), [], 0
    for gap, packets in gaps:
        flows.append((at + gap, packets))
        at += gap + packets
        shares.watch(*flows[-1])
    total = sum(cuts)
    evs = np.random.default_rng(seed).integers(0, EVS, total).astype(np.uint16)
    sent = 0
    for cut in cuts:
        shares.record(sent, evs[sent : sent + cut])
        sent += cut
    ended = shares.drain_ended()
    expected = [(first, packets) for first, packets in flows if first + packets <= total]
    assert [each.first for each in ended] == [first for first, _ in expected]
    for each, (first, packets) in zip(ended, expected, strict=True):
        assert each.tx_first.tolist() == np.bincount(evs[first : first + packets], minlength=EVS).tolist()
    shares.give_up()
    rest = shares.drain_ended()
    assert len(ended) + len(rest) == len(flows)
    for each, (first, packets) in zip(rest, flows[len(ended) :], strict=True):
        assert each.tx_first.tolist() == np.bincount(evs[first : first + packets], minlength=EVS).tolist()
    assert shares.drain_ended() == []
