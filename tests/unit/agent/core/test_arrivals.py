import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.receive.ring import EMPTY, NEWS, bitmaps_of
from agent.core.send.sack_reader import bits_of, spread

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
