"""SACK bitmaps show what is held and what is new; reordering extents equal RFC 4737's definition, for any arrivals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.receive.arrivals import EMPTY, NEWS, ReorderCounts, Reordering, bitmaps_of
from agent.core.send.sack_reader import bits_of, spread
from agent.wire.constants import BTH_RETRANSMISSION

HELD = st.lists(st.integers(0, 2), min_size=1, max_size=600).map(lambda v: np.array([*v[:-1], max(v[-1], 1)], np.uint8))
"""Up to the highest packet that is held."""


def blocks_that_hold(held):
    return sorted({p // 64 for p in np.flatnonzero(held != EMPTY).tolist()})


@given(HELD, st.integers(0, 1000))
def test_bitmaps_show_all_news_and_nothing_that_is_not_there(held, walk):
    bitmaps = bitmaps_of(held, walk)
    shown = set()
    for start, bits in zip(bitmaps.starts.tolist(), bitmaps.bits.tolist(), strict=True):
        block = [start + i for i in range(64) if start + i < len(held)]
        assert bits == sum(1 << (p - start) for p in block if held[p] != EMPTY)
        shown.update(block)
    assert set(np.flatnonzero(held == NEWS).tolist()) <= shown
    holding = blocks_that_hold(held)
    with_news = {p // 64 for p in np.flatnonzero(held == NEWS).tolist()}
    assert bitmaps.starts.tolist() == sorted(64 * b for b in with_news | {holding[walk % len(holding)]})
    assert bitmaps.bits.all(), "a bitmap of zeros says nothing"


@given(HELD)
def test_walking_shows_every_block_that_holds_anything_in_turn(held):
    holding = blocks_that_hold(held)
    starts = {int(s) for walk in range(len(holding)) for s in bitmaps_of(held, walk).starts}
    assert starts == {64 * block for block in holding}


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5), st.data())
def test_spread_is_the_union_of_the_bits_inside(bitmaps, data):
    span = data.draw(st.integers(0, 300))
    starts = data.draw(st.lists(st.integers(-500, 500), min_size=len(bitmaps), max_size=len(bitmaps)))
    expected = np.zeros(span, bool)
    for start, bitmap in zip(starts, bitmaps, strict=True):
        for i in range(64):
            if bitmap >> i & 1 and 0 <= start + i < span:
                expected[start + i] = True
    bits = bits_of(np.array(bitmaps, np.uint64))
    assert bits.shape == (len(bitmaps), 64)
    assert np.array_equal(spread(np.array(starts, np.int64), bits, span), expected)


@given(HELD, st.integers(0, 20))
def test_what_a_responder_writes_a_requester_reads(held, walk):
    bitmaps = bitmaps_of(np.minimum(held, 1), walk)
    assert np.array_equal(spread(bitmaps.starts, bits_of(bitmaps.bits), len(held)), held != EMPTY)


def counted(arrivals, window=1024, batch=7):
    reordering = Reordering(window)
    for start in range(0, len(arrivals), batch):
        part = arrivals[start : start + batch]
        offsets = np.array([offset for offset, _ in part], np.int64)
        reordering.note(offsets, np.array([BTH_RETRANSMISSION * resent for _, resent in part], np.uint8))
    return reordering.counts()


def by_the_book(arrivals):
    """RFC 4737, section 4.2: the extent is i - j for the least j with s[j] > s[i]."""
    stream = [offset for offset, resent in arrivals if not resent]
    extents = [
        next((i - j for j, earlier in enumerate(stream[:i]) if earlier > offset), 0) for i, offset in enumerate(stream)
    ]
    late = [0] * 20
    for extent in extents:
        late[extent.bit_length() - 1] += extent > 0
    while late and not late[-1]:
        late.pop()
    return ReorderCounts(extents.count(0), tuple(late), max(extents, default=0))


def firsts(*offsets):
    return [(offset, False) for offset in offsets]


@pytest.mark.parametrize(
    ("arrivals", "in_order", "late", "most"),
    [
        (firsts(0, 1, 2, 3), 4, (), 0),
        (firsts(1, 0, 3, 2), 2, (2,), 1),
        (firsts(4, 0, 1, 2, 3), 1, (1, 2, 1), 4),
        (firsts(1, 2, 3, 0), 3, (0, 1), 3),
        ([*firsts(0, 2, 3), (1, True), *firsts(5, 4)], 4, (1,), 1),
        ([], 0, (), 0),
    ],
)
def test_extents_by_hand(arrivals, in_order, late, most):
    assert counted(arrivals) == ReorderCounts(in_order, late, most)


@st.composite
def shuffled_stream(draw):
    """Offsets displaced by less than the window, some of them resent."""
    count = draw(st.integers(1, 400))
    window = draw(st.sampled_from([1, 5, 64, 300]))
    shifts = draw(st.lists(st.integers(0, window - 1), min_size=count, max_size=count))
    resent = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    order = sorted(range(count), key=lambda offset: offset + shifts[offset])
    return [(offset, resent[offset]) for offset in order], window, draw(st.integers(1, 500))


@given(shuffled_stream())
def test_any_arrivals_are_counted_by_the_book(case):
    arrivals, window, batch = case
    assert counted(arrivals, max(window, 1), batch) == by_the_book(arrivals)


@pytest.mark.parametrize("batch", [1, 256, 1024, 20_000])
def test_long_streams_are_counted_as_in_one_piece(batch):
    """More packets than are looked at together, most of them resends, over a ring that wraps many times."""
    rng = np.random.default_rng(3)
    order = np.argsort(np.arange(20_000) + rng.integers(0, 100, 20_000), kind="stable")
    arrivals = list(zip(order.tolist(), (rng.random(20_000) < 0.9).tolist(), strict=True))
    assert counted(arrivals, 128, batch) == by_the_book(arrivals)
