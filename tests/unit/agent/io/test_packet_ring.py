"""The layout of rings; the rings themselves are tested on a kernel, tests/kernel/test_packet_ring.py."""

import pytest

from agent.io.packet_ring import RingGeometry


@pytest.mark.parametrize("frame_bytes", [60, 166, 400, 1500, 4242, 9018])
def test_ring_geometry_has_no_gap(frame_bytes):
    geometry = RingGeometry.holding(2048, frame_bytes, 66)
    assert geometry.slot_bytes >= frame_bytes + 66
    assert geometry.slots >= 2048
    assert geometry.block_bytes % geometry.slot_bytes == 0
    assert geometry.block_bytes % 4096 == 0
    assert geometry.total_bytes % geometry.block_bytes == 0


def test_ring_geometry_wastes_little():
    geometry = RingGeometry.holding(1024, 4242, 66)
    assert geometry.slot_bytes == 4352
    assert geometry.block_bytes <= 1 << 21
    assert geometry.slots < 1024 * 1.5
