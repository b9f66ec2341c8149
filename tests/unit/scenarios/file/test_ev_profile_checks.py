"""A profile that its mode or the fabric cannot give is told, with what would do."""

from typing import Any

import pytest

from scenarios.file.ev_profile_checks import profile_misfits
from scenarios.file.transport import EvProfile

SPINES: Any = ({"width": 16, "init_val": 0xC000}, {"width": 16, "init_val": 0x1000, "mask": 7, "max": 7})
"""Eight spines of plane 0."""


def misfits(**profile: Any) -> list[str]:
    return [".".join(each.key) for each in profile_misfits(EvProfile.model_validate(profile), planes=2, spines=8)]


@pytest.mark.parametrize(
    "profile",
    [{}, {"count": 4}, {"mode": "exp", "evs": (0xC0001105,)}, {"mode": "gen", "count": 8, "fields": SPINES}],
    ids=["all", "picked", "given", "generated"],
)
def test_sound_profiles_are_silent(profile: dict[str, Any]) -> None:
    assert misfits(**profile) == []


@pytest.mark.parametrize(
    ("profile", "keys"),
    [
        ({"count": 3}, ["ev.profile.count"]),
        ({"evs": (0xC0001105,)}, ["ev.profile.evs"]),
        ({"mode": "exp"}, ["ev.profile.mode"]),
        ({"mode": "exp", "evs": (0xC0001108,)}, ["ev.profile.evs"]),
        ({"mode": "gen"}, ["ev.profile.mode", "ev.profile.mode"]),
        ({"mode": "gen", "count": 9, "fields": SPINES}, ["ev.profile.fields"]),
    ],
    ids=["planes", "auto with values", "exp without", "no such spine", "gen without", "too few values"],
)
def test_misfits_are_told(profile: dict[str, Any], keys: list[str]) -> None:
    assert misfits(**profile) == keys
