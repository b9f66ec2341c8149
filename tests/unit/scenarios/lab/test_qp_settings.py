"""A scenario's transport reaches the workers whole: every setting has a key, defaults are those of the core."""

import re
from typing import get_type_hints

import msgspec
import pytest

from agent.core.config import LossRule, QpConfig, SprayPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.ev.config import EvConfig, LossPolicy
from agent.host import requests as ask
from agent.spraycheck.expectation import Expectation
from scenarios.file.model import Detector
from scenarios.file.transport import EvTreatment, Transport
from scenarios.lab.qp_settings import paced, qp_settings_of

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


def settings(record: msgspec.Struct) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_every_setting_of_a_worker_has_a_key() -> None:
    plain = qp_settings_of(Transport(), 1)
    changed = paced(qp_settings_of(Transport.model_validate(UNLIKE), 2), 8_000_000)
    assert changed.nscc is not None
    pairs = [(plain, changed), (plain.ev, changed.ev), (ask.NsccSettings(port_bps=10**10), changed.nscc)]
    for before, after in pairs:
        assert [name for name, value in settings(after).items() if value == getattr(before, name)] == []


def test_units_are_those_of_the_worker() -> None:
    changed = qp_settings_of(Transport.model_validate(UNLIKE), 2)
    assert (changed.ack_timeout_ns, changed.sack_delay_ns) == (70_000_000, 50_000)
    assert (changed.ev.bad_window_ns, changed.ev.tail_probe_ns, changed.ev.revive_ns) == (
        2 * 10**7,
        7_500_000,
        3 * 10**7,
    )
    assert changed.nscc == ask.NsccSettings(
        500_000, 100_000, 100_000_000, 400_000, 1 << 20, True, 7.0, 0.5, 3.0, 0.5, 0.25, 2, 900_000, True, 9216, 300_000
    )


def test_what_is_left_out_is_what_the_core_does_by_default() -> None:
    plain = qp_settings_of(Transport(), 1)
    assert plain.nscc is None
    own = {"tail_probe_ns": 125_000_000, "loss_policy": "off"}
    assert settings(plain.ev) == {name: getattr(EvConfig(), name) for name in settings(plain.ev)} | own
    core = QpConfig()
    same = ("sack_delay_ns", "linear_cnt", "exp_cnt", "dynamic_mpr", "max_wimm", "transport_ack", "nack_out_of_window")
    assert [name for name in same if getattr(plain, name) != getattr(core, name)] == []
    assert (plain.loss_rule, plain.ack_timeout_ns, plain.mpr) == (core.loss_rule.value, 500_000_000, None)
    nscc = qp_settings_of(Transport.model_validate({"congestion": {"algorithm": "nscc"}}), 1).nscc
    assert nscc is not None
    default = NsccConfig()
    assert settings(nscc) == {name: getattr(default, name, False) for name in settings(nscc)}


@pytest.mark.parametrize(("given", "ns"), [(None, 125_000_000), (0, None), (10, 10_000_000)])
def test_tail_probes_follow_the_timeout_unless_told(given: float | None, ns: int | None) -> None:
    assert qp_settings_of(Transport(tail_probe_ms=given), 1).ev.tail_probe_ns == ns


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        (Transport, "spray", SprayPolicy),
        (Transport, "loss_rule", LossRule),
        (EvTreatment, "loss_policy", LossPolicy),
        (Detector, "expectation", Expectation),
        (ask.QpSettings, "policy", SprayPolicy),
        (ask.QpSettings, "loss_rule", LossRule),
        (ask.EvSettings, "loss_policy", LossPolicy),
    ],
)
def test_the_words_of_a_choice_are_the_cores(part, key, words):
    said = str(get_type_hints(part)[key])
    assert re.findall(r"'([a-z-]+)'", said) == [each.value for each in words]
