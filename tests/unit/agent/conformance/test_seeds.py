"""Two agents under seeded trouble of every kind at once: all data right, exactly once, in bounded time."""

from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace

from agent.core.config import EvConfig, LossPolicy, LossRule, SprayPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.congestion.nscc import Nscc
from agent.core.events import QpState
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Dscp, Opcode
from tests.unit.agent.conformance.agents import DATA, PAPER, mark_congestion, trimmer
from tests.unit.agent.io.memory_lab import Flow, Lab, build

SEEDS = 104
CHUNKS = 8
BOUND_NS = 4_000_000_000


def weather_of(rng: np.random.Generator, seed: int, planes: int) -> tuple[PathRule, ...]:
    """Loss 0 to 20 %, SACK loss, reordering, duplication, trimming, marks and a dead plane, each in some seeds."""
    rules = [PathRule(opcodes=DATA, loss=float(rng.choice([0, 0.005, 0.05, 0.2])))]
    if rng.random() < 0.5:
        rules.append(PathRule(opcodes=(Opcode.SACK, Opcode.ACKNOWLEDGE), loss=float(rng.choice([0.05, 0.2]))))
    if rng.random() < 0.4:
        rules.append(PathRule(spine=1, delay_ns=int(rng.integers(10_000, 300_000))))
    if rng.random() < 0.3:
        rules.append(PathRule(jitter_ns=int(rng.integers(5_000, 100_000))))
    if rng.random() < 0.3:
        rules.append(PathRule(duplicate=0.1))
    if rng.random() < 0.3:
        rules.append(PathRule(alter=trimmer(0.1, seed, Dscp.TRIMMED if seed % 2 else Dscp.TRIMMED_LASTHOP)))
    if rng.random() < 0.2:
        rules.append(PathRule(source=0, spine=0, opcodes=DATA, alter=mark_congestion))
    if rng.random() < 0.3 and planes > 1:
        first_ns = int(rng.choice([0, 100_000]))
        rules.append(PathRule(plane=planes - 1, loss=1.0, first_ns=first_ns, end_ns=int(rng.choice([5, 30]) * 10**6)))
    return tuple(rules)


def settings_of(rng: np.random.Generator, planes: int) -> dict:
    policy = LossPolicy(rng.choice(["paper", "threshold", "off"]))
    ev = replace(PAPER, loss_policy=policy) if rng.random() < 0.8 else EvConfig(loss_policy=policy)
    return {
        "window_pkts": int(rng.choice([64, 200, 512])),
        "start_psn": (1 << 24) - int(rng.integers(1, 300)) if rng.random() < 0.5 else None,
        "policy": SprayPolicy(rng.choice(["rotation", "random"])),
        "loss_rule": LossRule(rng.choice(["same-ev", "generic", "both"])),
        "ack_timeout_ns": 3_000_000,
        "exp_cnt": 25,
        "transport_ack": bool(rng.random() < 0.8),
        "dynamic_mpr": bool(rng.random() < 0.3),
        "nack_out_of_window": bool(rng.random() < 0.3),
        "ev": replace(ev, active=4 * planes // 2 if rng.random() < 0.3 else None, port_mask=bool(rng.random() < 0.5)),
    }


@dataclass(frozen=True)
class Played:
    """A seed that went well: what it was made of, and what happened."""

    lab: Lab
    flows: tuple[Flow, ...]


def play(seed: int) -> Played:
    rng = np.random.default_rng((seed, 19))
    planes = int(rng.choice([1, 2, 4]))
    lab = build(planes=planes, rules=weather_of(rng, seed, planes), seed=seed)
    control = (lambda: Nscc(NsccConfig(base_rtt_ns=100_000), 352, planes)) if rng.random() < 0.4 else None
    flows = [lab.flow(0, 1, 150 * 256, message_bytes=int(rng.choice([256, 1000, 38_400])), control=control,
                      imm=5 if rng.random() < 0.5 else None, **settings_of(rng, planes))]  # fmt: skip
    if rng.random() < 0.3:
        flows.append(lab.flow(1, 0, 50 * 256, message_bytes=999, **settings_of(rng, planes)))
    lab.run(*flows, until_ns=BOUND_NS, step_ns=int(rng.choice([10_000, 30_000])))
    for flow in flows:
        check(flow)
    return Played(lab, tuple(flows))


def check(flow: Flow) -> None:
    sent, got = flow.source.qp.progress(), flow.target.qp.progress()
    assert flow.is_right()
    assert sent.state is got.state is QpState.RTS
    assert got.responder.received == flow.source.qp.posted_pkts
    assert got.responder.received_bytes == sent.posted_bytes
    assert got.responder.messages == sent.completed_messages == sent.posted_messages
    arrived = flow.target.qp.completions.poll()
    assert [item.wr_id for item in arrived] == list(range(got.responder.immediates))
    assert len(arrived) in (0, sent.posted_messages)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_data_is_right_exactly_once_in_bounded_time(chunk):
    for seed in range(chunk, SEEDS, CHUNKS):
        try:
            play(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", range(4))
def test_two_codecs_understand_one_another(seed):
    """A few of the same seeds for every pair of codecs."""
    play(seed)
