"""A scenario's transport reaches the workers whole: every setting has a key, defaults are those of the core."""

import re
from typing import get_type_hints

import msgspec
import pytest

from agent.core.config import EvConfig, LossPolicy, LossRule, QpConfig, SprayPolicy
from agent.core.congestion.config import NsccConfig
from agent.host.control import requests as ask
from agent.host.settings import RX_SLOTS
from agent.spraycheck.statistics.verdicts import Expectation
from scenarios.file.model import Detector
from scenarios.file.qp_settings import fitting_window, paced, qp_settings_of
from scenarios.file.transport import EvTreatment, Transport

UNLIKE = {
    "pmtu": 1024, "window_pkts": 100, "ack_timeout_ms": 70, "retries": {"linear": 1, "doubling": 2}, "spray": "random",
    "copies": 2, "start_psn": 9, "loss_rule": "both", "tail_probe_ms": 7.5, "reverse_probe_ms": 3, "port_mask": True,
    "mpr": 20, "dynamic_mpr": True, "max_wimm": 5, "transport_ack": False, "sack_delay_us": 50,
    "nack_out_of_window": True, "trimming": True,
    "ev": {
        "profile": {"count": 8},
        "loss_policy": "threshold", "bad_after": 5, "bad_window_ms": 20, "active": 4, "min_active": 2, "skip_ms": 2,
        "skip_share": 0.25, "swap_after": 4, "swap_memory_ms": 20, "plane_silent_after": 4, "start_rotations": 3,
        "leave_lossy_planes": True, "plane_retry_ms": 700,
        "probe_interval_ms": 5, "probe_max_interval_ms": 50, "probe_timeout_ms": 4, "revive_after": 3, "revive_ms": 30,
    },
    "congestion": {
        "algorithm": "nscc", "base_rtt_us": 500, "base_rtt_floor_us": 100, "link_rate": "100Mbit",
        "target_delay_us": 400, "max_window": "1MiB", "shared": True,
        "fi_bytes": 7.0, "fi_scale": 0.5, "eta_bytes": 3.0, "gamma": 0.5, "max_md_jump": 0.25, "qa_gate": 2,
        "qa_threshold_us": 900, "disable_qa": True, "adjust_bytes": "9KiB", "adjust_period_us": 300,
    },
}  # fmt: skip


def test_every_setting_of_a_request_has_a_key() -> None:
    plain = qp_settings_of(Transport.model_validate({"congestion": {"algorithm": "nscc"}}), 1)
    changed = paced(qp_settings_of(Transport.model_validate(UNLIKE), 2), 8_000_000)
    pairs = [(plain, changed), (plain.core, changed.core), (plain.core.ev, changed.core.ev), (plain.nscc, changed.nscc)]
    same = [
        name for one, other in pairs for name in one.__struct_fields__ if getattr(one, name) == getattr(other, name)
    ]
    assert set(same) == set(OF_THE_CORE_ALONE)


OF_THE_CORE_ALONE = {
    "mpr_dest": "the peer offers it",
    "max_wimm_dest": "the peer offers it",
    "rotations_per_order": "no experiment asks for it",
    "sack_gen_threshold_bytes": "no experiment asks for it",
    "ack_coalesce_ns": "no experiment asks for it",
    "reorder_pkts": "no experiment asks for it",
    "reorder_floor_ns": "no experiment asks for it",
    "trimming": "of a congestion control: it follows `trimming` of the queue pair",
}
"""Settings that no key sets, and why."""


def test_units_are_those_of_the_core() -> None:
    changed = qp_settings_of(Transport.model_validate(UNLIKE), 2)
    core, ev = changed.core, changed.core.ev
    assert (core.ack_timeout_ns, core.sack_delay_ns, core.policy) == (70_000_000, 50_000, SprayPolicy.RANDOM)
    assert (ev.bad_window_ns, ev.tail_probe_ns, ev.revive_ns) == (20_000_000, 7_500_000, 30_000_000)
    assert (ev.loss_policy, core.loss_rule) == (LossPolicy.THRESHOLD, LossRule.BOTH)
    assert changed.shared_window
    assert changed.nscc == NsccConfig(
        base_rtt_ns=500_000, base_rtt_floor_ns=100_000, port_bps=100_000_000, target_delay_ns=400_000,
        max_cwnd_bytes=1 << 20, fi_bytes=7.0, fi_scale=0.5, eta_bytes=3.0, gamma=0.5, max_md_jump=0.25, qa_gate=2,
        qa_threshold_ns=900_000, disable_qa=True, adjust_bytes_threshold_bytes=9216, adjust_period_threshold_ns=300_000,
    )  # fmt: skip


def test_what_is_left_out_is_what_the_core_does_by_default() -> None:
    plain = qp_settings_of(Transport(), 1)
    own = {"pmtu": 256, "window_pkts": 256, "ack_timeout_ns": 500_000_000}
    assert plain == ask.QpSettings(QpConfig(seed=1, ev=EvConfig(tail_probe_ns=125_000_000), **own))
    nscc = qp_settings_of(Transport.model_validate({"congestion": {"algorithm": "nscc"}}), 1).nscc
    assert nscc == NsccConfig()


def test_a_request_arrives_as_it_was_made() -> None:
    settings = qp_settings_of(Transport.model_validate(UNLIKE), 2)
    request = ask.CreateQp(0, 1, settings)
    assert msgspec.json.decode(msgspec.json.encode(request), type=ask.Request) == request


@pytest.mark.parametrize(("given", "ns"), [(None, 125_000_000), (0, None), (10, 10_000_000)])
def test_tail_probes_follow_the_timeout_unless_told(given: float | None, ns: int | None) -> None:
    assert qp_settings_of(Transport(tail_probe_ms=given), 1).core.ev.tail_probe_ns == ns


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        (Transport, "spray", SprayPolicy),
        (Transport, "loss_rule", LossRule),
        (EvTreatment, "loss_policy", LossPolicy),
        (Detector, "expectation", Expectation),
    ],
)
def test_the_words_of_a_choice_are_the_cores(part, key, words):
    said = str(get_type_hints(part)[key])
    assert re.findall(r"'([a-z-]+)'", said) == [each.value for each in words]


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
