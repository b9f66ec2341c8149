import numpy as np
import pytest

from agent.core.config import QpConfig
from agent.core.errors import ConfigError
from agent.core.ev.profile_sources import EvProfile


def test_all_problems_are_reported_together():
    with pytest.raises(ConfigError) as raised:
        QpConfig(pmtu=0, window_pkts=0, start_psn=1 << 24, exp_cnt=26, sack_gen_threshold_bytes=-1)
    assert len(raised.value.problems) == 5
    assert "pmtu is 0, must be 1..8192" in raised.value.problems


def test_windows_are_the_smaller_of_ours_and_what_the_peer_offers():
    assert QpConfig(window_pkts=2048, mpr_dest=8).send_window_psns == 1024
    assert QpConfig(window_pkts=100, mpr_dest=8).send_window_psns == 100
    assert QpConfig(mpr=8).receive_window_psns == 1024


@pytest.mark.parametrize(("pmtu", "threshold"), [(256, 64 * 1024), (4096, 64 * 4096)])
def test_the_default_threshold_is_one_bitmap_of_packets(pmtu, threshold):
    assert QpConfig(pmtu=pmtu).sack_threshold_bytes == threshold
    assert QpConfig(pmtu=pmtu, sack_gen_threshold_bytes=7).sack_threshold_bytes == 7


@pytest.mark.parametrize(("evs", "planes"), [(0, 0), (2, 3)])
def test_a_profile_needs_a_plane_for_each_of_at_least_one_ev(evs, planes):
    with pytest.raises(ConfigError):
        EvProfile(np.zeros(evs, np.uint32), np.zeros(planes, np.uint8))
