"""Settings that fit one another and the fabric are silent; those that will surprise are told."""

from typing import Any

import pytest

from scenarios.file.transport import EvProfile, Transport
from scenarios.file.transport_checks import cautions_of, measuring_cautions_of, misfits, misfits_on, profile_misfits


def transport(**parts: Any) -> Transport:
    return Transport.model_validate(parts)


def test_defaults_fit_and_surprise_nobody() -> None:
    plain = transport()
    assert [*misfits(plain), *misfits_on(plain, 2, 8)] == []
    assert [*cautions_of(plain, 2, 8), *measuring_cautions_of(plain, 2, 8)] == []


@pytest.mark.parametrize(
    ("ev", "key", "right"),
    [
        ({"active": 3}, "active", "a multiple of 2"),
        ({"active": 6}, "active", "at most 4"),
        ({"active": 2, "min_active": 3}, "min_active", "at most 2"),
    ],
)
def test_paths_must_suffice(ev: dict[str, int], key: str, right: str) -> None:
    (found,) = misfits_on(transport(ev=ev), planes=2, spines=2)
    assert (found.key, found.right) == (("ev", key), right)


def test_copies_count_as_paths() -> None:
    assert list(misfits_on(transport(copies=2, ev={"active": 6}), planes=2, spines=2)) == []


def test_yaml_reads_off_as_false_and_it_is_meant_as_a_word() -> None:
    off: Any = {"loss_policy": False}
    assert transport(ev=off).ev.loss_policy == "off"
    assert transport(congestion={"algorithm": False}).congestion.algorithm == "off"


def test_measuring_needs_all_paths_alike() -> None:
    (policy,) = measuring_cautions_of(transport(ev={"loss_policy": "paper"}), 2, 8)
    assert "all paths are expected to get equal counts" in policy
    (active,) = measuring_cautions_of(transport(ev={"active": 8}), 2, 8)
    assert "transport.ev.active is 8 of 16" in active


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"window_pkts": 31}, "less than twice the 16 EVs"),
        ({"trimming": True}, "no switch of this fabric trims"),
        (
            {"ev": {"revive_after": 3}},
            "transport.ev.revive_after: without effect while transport.ev.loss_policy is off",
        ),
        ({"ev": {"loss_policy": "paper", "bad_after": 2}}, "transport.ev.bad_after: without effect"),
        ({"congestion": {"shared": True}}, "transport.congestion.shared: without effect"),
    ],
)
def test_what_will_surprise_is_told(parts: dict[str, Any], told: str) -> None:
    (caution,) = cautions_of(transport(**parts), planes=2, spines=8)
    assert told in caution


def test_a_small_window_is_fine_where_lateness_proves_a_loss() -> None:
    assert list(cautions_of(transport(window_pkts=16, loss_rule="both"), 2, 8)) == []


SPINES: Any = ({"width": 16, "init_val": 0xC000}, {"width": 16, "init_val": 0x1000, "mask": 7, "max": 7})
"""Eight spines of plane 0."""


def wrong_keys(**profile: Any) -> list[str]:
    return [".".join(each.key) for each in profile_misfits(EvProfile.model_validate(profile), planes=2, spines=8)]


@pytest.mark.parametrize(
    "profile",
    [{}, {"count": 4}, {"mode": "exp", "evs": (0xC0001105,)}, {"mode": "gen", "count": 8, "fields": SPINES}],
    ids=["all", "picked", "given", "generated"],
)
def test_sound_profiles_are_silent(profile: dict[str, Any]) -> None:
    assert wrong_keys(**profile) == []


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
def test_wrong_keys_are_named(profile: dict[str, Any], keys: list[str]) -> None:
    assert wrong_keys(**profile) == keys
