import numpy as np
import pytest

from agent.core.errors import RegionError
from agent.core.memory_regions import MemoryRegion, RegionTable

VA = 0x7000


def table(size=1000, rkey=5, va=VA):
    region = MemoryRegion(va, rkey, np.zeros(size, np.uint8))
    regions = RegionTable()
    regions.register(region)
    return regions, region


def place(regions, rkeys, vas, lengths, memory, offsets):
    return regions.place(
        np.array(rkeys, np.uint32), np.array(vas, np.uint64), np.array(lengths, np.uint32), memory, np.array(offsets)
    ).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_rows_land_where_they_say_in_any_order_and_alignment(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.choice([1, 7, 64, 600]))
    count = int(rng.integers(1, 40))
    regions, region = table(count * width + 50)
    memory = rng.integers(1, 256, (count * (width + 30),), dtype=np.uint8)
    lengths = np.where(rng.random(count) < 0.2, rng.integers(0, width + 1, count), width)
    slots = rng.permutation(count)
    starts = rng.permutation(count) * (width + 30) if seed % 2 else np.arange(count) * (width + 30)
    shift = int(rng.integers(0, 50))
    expected = np.zeros_like(region.data)
    for slot, start, length in zip(slots, starts, lengths, strict=True):
        expected[slot * width + shift :][:length] = memory[start : start + length]
    assert all(place(regions, [5] * count, slots * width + shift + VA, lengths, memory, starts))
    assert np.array_equal(region.data, expected)


def test_only_rows_wholly_inside_a_known_region_are_placed():
    regions, region = table(100)
    other = MemoryRegion(0, 9, np.zeros(10, np.uint8))
    regions.register(other)
    memory = np.full(64, 7, np.uint8)
    rows = [(5, VA, 8), (5, VA + 92, 8), (5, VA + 93, 8), (5, VA - 1, 8), (5, 2**64 - 1, 8), (6, VA, 8), (9, 2, 8)]
    placed = place(regions, *zip(*rows, strict=True), memory, [0] * len(rows))
    assert placed == [True, True, False, False, False, False, True]
    assert np.flatnonzero(region.data).tolist() == [*range(8), *range(92, 100)]
    assert np.flatnonzero(other.data).tolist() == [*range(2, 10)]


def test_a_row_longer_than_the_region_is_refused():
    regions, region = table(10)
    assert place(regions, [5], [VA], [11], np.ones(64, np.uint8), [0]) == [False]
    assert not region.data.any()


def test_read_only_memory_is_never_written():
    regions = RegionTable()
    data = np.zeros(10, np.uint8)
    data.flags.writeable = False
    regions.register(MemoryRegion(0, 1, data))
    assert place(regions, [1], [0], [4], np.ones(64, np.uint8), [0]) == [False]


def test_keys_are_unique_and_known():
    regions, region = table()
    with pytest.raises(RegionError):
        regions.register(region)
    assert regions.lookup(5) is region
    assert list(regions) == [region]
    regions.deregister(5)
    for act in (regions.lookup, regions.deregister):
        with pytest.raises(RegionError):
            act(5)


@pytest.mark.parametrize(
    "data",
    [np.zeros((2, 2), np.uint8), np.zeros(4, np.uint16), np.zeros(8, np.uint8)[::2]],
    ids=["2d", "u16", "strided"],
)
def test_region_memory_is_flat_bytes(data):
    with pytest.raises(RegionError):
        MemoryRegion(0, 1, data)
