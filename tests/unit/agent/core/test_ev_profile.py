import numpy as np
import pytest

from agent.core.errors import ConfigError
from agent.core.ev.profile_sources import GenField, active_rows, auto_profile, exp_profile, generated_evs

PLANES = np.repeat(np.arange(4, dtype=np.uint8), 16)
EVS = np.arange(64, dtype=np.uint32) + 1000


def test_auto_picks_equally_many_of_each_plane_at_random():
    one, two = (auto_profile(EVS, PLANES, 32, np.random.default_rng(seed)) for seed in (1, 2))
    assert np.bincount(one.planes).tolist() == [8, 8, 8, 8]
    assert len(set(one.evs.tolist())) == 32
    assert np.array_equal(PLANES[one.evs - 1000], one.planes)
    assert set(one.evs.tolist()) != set(two.evs.tolist())


def test_auto_gives_duplicates_when_paths_are_few():
    profile = auto_profile(EVS[::16], PLANES[::16], 16, np.random.default_rng(0))
    assert np.bincount(profile.planes).tolist() == [4, 4, 4, 4]
    assert len(set(profile.evs.tolist())) == 4


def test_auto_refuses_what_planes_cannot_share():
    with pytest.raises(ConfigError, match="cannot be split"):
        auto_profile(EVS, PLANES, 10, np.random.default_rng(0))


def test_exp_keeps_what_is_given():
    profile = exp_profile([7, 7, 9], [0, 1, 0])
    assert profile.evs.tolist() == [7, 7, 9]
    with pytest.raises(ConfigError, match="32 bits"):
        exp_profile([1 << 32], [0])


def test_gen_takes_index_bits_into_mask_bits_most_significant_first():
    fields = [GenField(8, 0x10, 0, 3, 0x03), GenField(8, 0x80, 0, 3, 0x11)]
    found = generated_evs(fields, 16, bits=16).tolist()
    assert found[:5] == [0x1080, 0x1081, 0x1090, 0x1091, 0x1180]
    assert found[-1] == 0x1391


def test_gen_leaves_out_what_lies_outside_min_and_max():
    # 8/4/4 tiers with 180 valid values of the first: 180 to 255 are excluded.
    fields = [GenField(8, 0, 0, 179, 0xFF), GenField(4, 0), GenField(4, 2)]
    found = generated_evs(fields, 180)
    assert found[0] == 2
    assert int(found.max()) >> 8 == 179
    with pytest.raises(ConfigError, match="180 EVs, 181"):
        generated_evs(fields, 181)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([GenField(20, 0), GenField(20, 0)], "take 40 bits"),
        ([GenField(4, 16)], "does not fit 4 bits"),
        ([GenField(4, 0, 0, 3, 0x1)], "does not fit its mask"),
    ],
)
def test_gen_refuses_impossible_fields(fields, reason):
    with pytest.raises(ConfigError, match=reason):
        generated_evs(fields, 1)


def test_the_active_rows_are_an_equal_share_of_each_plane():
    rows = active_rows(PLANES, 8, np.random.default_rng(3))
    assert np.bincount(PLANES[rows]).tolist() == [2, 2, 2, 2]
    assert active_rows(PLANES, None, np.random.default_rng(3)).tolist() == list(range(64))
