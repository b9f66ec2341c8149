import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.sack import EMPTY, NEWS, bitmaps_of, bits_of, spread

HELD = st.lists(st.integers(0, 2), min_size=1, max_size=600).map(lambda v: np.array(v, np.uint8))


@given(HELD, st.integers(0, 1000))
def test_bitmaps_show_all_news_and_nothing_that_is_not_there(held, walk):
    bitmaps = bitmaps_of(held, walk)
    shown = set()
    for start, bits in zip(bitmaps.starts.tolist(), bitmaps.bits.tolist(), strict=True):
        block = [start + i for i in range(64) if start + i < len(held)]
        assert bits == sum(1 << (p - start) for p in block if held[p] != EMPTY)
        shown.update(block)
    assert set(np.flatnonzero(held == NEWS).tolist()) <= shown
    blocks = -(-len(held) // 64)
    with_news = {p // 64 for p in np.flatnonzero(held == NEWS).tolist()}
    assert bitmaps.starts.tolist() == sorted(64 * b for b in with_news | {walk % blocks})


@given(HELD)
def test_walking_shows_every_block_in_turn(held):
    blocks = -(-len(held) // 64)
    starts = {int(s) for walk in range(blocks) for s in bitmaps_of(held, walk).starts}
    assert starts == set(range(0, 64 * blocks, 64))


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
