"""PSN wrap at 2^24; MSN wrap at 2^16; rcvd_bytes wrap."""

import numpy as np
import pytest

from agent.core.psn import offsets_of
from agent.core.receive.arrivals import ReceiveRing
from agent.io.memory_fabric import PathRule
from tests.unit.agent.conformance.agents import DATA, Wiretap
from tests.unit.agent.io.memory_lab import build


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("before", [1, 64, 700])
def test_the_psn_wraps(before, loss):
    lab = build(rules=(PathRule(loss=loss),), seed=before)
    flow = lab.flow(0, 1, 1500 * 256, start_psn=(1 << 24) - before)
    lab.run(flow)
    assert flow.is_right()
    assert flow.target.qp.progress().responder.received == 1500


def test_the_msn_wraps():
    tap = Wiretap()
    lab = build(rules=(PathRule(loss=0.001), PathRule(source=0, opcodes=DATA, alter=tap)))
    flow = lab.flow(0, 1, 66_000, message_bytes=1, pmtu=1, window_pkts=2000)
    lab.run(flow)
    assert flow.is_right()
    writes = tap.decoded(lab.engine.hosts[1].address.address).writes
    number = offsets_of(writes.psn, flow.source.qp.start_psn, 33_000)
    assert (writes.msn == number % (1 << 16)).all(), "a packet a message, so both count alike"
    assert number.max() > 1 << 16
    assert flow.source.qp.progress().completed_messages == 66_000
    assert flow.target.qp.progress().responder.messages == 66_000


def test_the_byte_clock_wraps():
    ring = ReceiveRing(256)
    ring._nominal_bytes = ((1 << 24) - 1) * 256
    assert ring.rcvd_bytes == (1 << 24) - 1
    ring.enter(np.array([0]), np.array([200], np.uint32))
    assert ring.rcvd_bytes == 1
