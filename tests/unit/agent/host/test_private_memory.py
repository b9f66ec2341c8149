"""Memory of an engine's own: writable zeros, gone from the process as soon as nobody has it."""

from pathlib import Path

import pytest

from agent.host.memory.private import make_private


def resident_bytes() -> int:
    """What of this process is in memory (proc(5), statm: pages)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("size", [1, 5000, (4 << 20) + 1])
def test_it_is_zeros_that_can_be_written(size):
    data = make_private(size)
    assert data.shape == (size,)
    assert not data.any()
    data[-1] = 7
    assert data[-1] == 7


@pytest.mark.parametrize(("size", "count"), [(64 << 20, 2), (8 << 20, 16), (256 << 10, 512)], ids=str)
def test_many_pieces_go_back_at_once_whatever_their_size(size, count):
    before = resident_bytes()
    for _ in range(2):
        pieces = [make_private(size) for _ in range(count)]
        for piece in pieces:
            piece[:] = 1
        assert resident_bytes() - before > 0.9 * size * count
        del pieces, piece
        assert resident_bytes() - before < 0.1 * size * count
