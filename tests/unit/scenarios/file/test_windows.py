"""Windows that fit the rings of the ports they lead to."""

import pytest

from agent.host.settings import RX_SLOTS
from scenarios.file.windows import fitting_window


@pytest.mark.parametrize(
    ("asked", "queue_pairs", "planes", "window"),
    [(256, 2, 2, 256), (256, 28, 2, 54), (256, 28, 4, 164), (16, 28, 4, 16), (256, 5000, 1, 1), (16384, 1, 1, 1536)],
)
def test_a_window_is_as_asked_or_fits(asked: int, queue_pairs: int, planes: int, window: int) -> None:
    assert fitting_window(asked, queue_pairs, planes) == window


@pytest.mark.parametrize("queue_pairs", [1, 3, 7, 64])
@pytest.mark.parametrize("planes", [1, 2, 4])
def test_all_windows_together_fit_with_a_plane_out_of_use(queue_pairs: int, planes: int) -> None:
    window = fitting_window(1 << 14, queue_pairs, planes)
    assert queue_pairs * window / max(1, planes - 1) <= RX_SLOTS * 3 / 4
