"""Packets for a queue pair from a host that is not its peer, right in every other way: dropped and counted."""

from dataclasses import replace

import numpy as np
import pytest

from agent.core.events import QpState
from agent.wire.array.columns import SackBatch
from agent.wire.array.control import encode_control
from agent.wire.array.control_columns import AckBatch, NackBatch, ProbeBatch
from agent.wire.array.encode import encode_sacks, encode_writes
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import AETH_ACK, AETH_NAK, NackReason, NakCode
from tests.unit.agent.conformance.agents import step_for
from tests.unit.agent.io.memory_lab import Lab, build

PACKETS = 20


def lab_with_a_stranger() -> tuple[Lab, object]:
    """Host 0 has sent a whole message to host 1, which has not answered; host 2 knows all about them."""
    lab = build(hosts=3)
    flow = lab.flow(0, 1, PACKETS * 256, max_wimm=4)
    return lab, flow


def forged(lab: Lab, target: int, qpn: int, batch, encode, source: int) -> None:
    """Send a batch to a queue pair of `target` from `source`."""
    hosts = lab.engine.hosts
    evs = next(iter(hosts[target].channels.values())).profile.evs
    template = FlowTemplate.for_peer(hosts[source].address, hosts[target].address, qpn, evs)
    hosts[source]._put(template, batch, encode)
    hosts[source]._send()


def column(value, dtype, count):
    return np.full(count, value, dtype)


def sack(psn, count):
    zero = {
        name: column(0, dtype, count)
        for name, dtype in (
            ("ack_psn_offset", np.int16), ("pr", np.bool_), ("rtx", np.bool_), ("m", np.uint8), ("ev", np.uint32),
            ("spdcid", np.uint16), ("dpdcid", np.uint16), ("mpr", np.uint8), ("bitmap", np.uint64),
            ("tx_timestamp", np.uint16), ("ooo_count", np.uint16), ("restore_cwnd", np.bool_),
            ("rcv_cwnd_pen", np.uint8), ("rcvd_bytes", np.uint32), ("ev_index", np.uint16),
        )
    }  # fmt: skip
    return SackBatch(cack_psn=column(psn, np.uint32, count), sack_offset=column(1, np.int16, count), **zero)


def ack(psn, count, syndrome=AETH_ACK):
    return AckBatch(
        psn=column(psn, np.uint32, count),
        syndrome=column(syndrome, np.uint8, count),
        msn=column(1, np.uint32, count),
        ev_index=column(0, np.uint16, count),
    )


def nack(psn, count):
    ids = {name: column(0, np.uint16, count) for name in ("spdcid", "dpdcid", "tx_timestamp", "ev_index")}
    return NackBatch(
        nack_psn=column(psn, np.uint32, count),
        nack_reason=column(NackReason.UNEXP_EVENT, np.uint8, count),
        vendor_info=column(0, np.uint8, count),
        ev=column(0, np.uint32, count),
        **ids,
    )


def probe(psn, count):
    names = ("probe_id", "spdcid", "dpdcid", "tx_timestamp", "ev_index")
    return ProbeBatch(**{name: column(0, np.uint16, count) for name in names})


AT_SENDER = {
    "SACK": (sack, encode_sacks),
    "ACK": (ack, encode_control),
    "NAK": (lambda psn, n: ack(psn, n, AETH_NAK | NakCode.REMOTE_ACCESS_ERROR), encode_control),
    "NACK": (nack, encode_control),
    "probe": (probe, encode_control),
}


@pytest.mark.parametrize("count", [1, 40], ids=["read one by one", "read as columns"])
@pytest.mark.parametrize("kind", AT_SENDER)
@pytest.mark.parametrize("source", [1, 2], ids=["peer", "stranger"])
def test_only_the_peer_is_believed(kind, source, count):
    lab, flow = lab_with_a_stranger()
    qp = flow.source.qp
    sent = qp.transmit(PACKETS, 0)
    assert len(sent) == PACKETS
    make, encode = AT_SENDER[kind]
    forged(lab, 0, flow.source.qpn, make(int(sent.psn[-1]), count), encode, source)
    lab.fabric.advance(200_000)
    host = lab.engine.hosts[0]
    host.receive(lab.fabric.now_ns)
    progress = qp.progress()
    heard = {
        "SACK": progress.requester.sacks,
        "ACK": progress.requester.acks,
        "NAK": count * (progress.state is QpState.ERROR),
        "NACK": count * (progress.state is QpState.ERROR),
        "probe": progress.responder.probes,
    }[kind]
    is_peer = source == 1
    assert heard == count * is_peer
    assert host.not_its_peer == count * (not is_peer)
    assert (progress.in_flight_pkts == PACKETS) or is_peer


@pytest.mark.parametrize("count", [1, PACKETS], ids=["read one by one", "read as columns"])
def test_a_write_of_a_stranger_is_not_placed(count):
    lab, flow = lab_with_a_stranger()
    writes = flow.source.qp.transmit(count, 0)
    forged(lab, 1, flow.target.qpn, replace(writes, source=np.full(PACKETS * 256, 0xAB, np.uint8)), encode_writes, 2)
    lab.fabric.advance(200_000)
    host = lab.engine.hosts[1]
    host.receive(lab.fabric.now_ns)
    assert host.not_its_peer == count
    assert flow.target.qp.progress().responder.received == 0
    assert not flow.is_right()


def test_a_strangers_packets_among_those_of_the_peer_are_left_out():
    lab, flow = lab_with_a_stranger()
    step_for(lab, 20_000)
    writes = flow.source.qp.transmit(PACKETS, lab.fabric.now_ns)
    assert writes is None, "all has left"
    stale = ack(flow.source.qp.start_psn + PACKETS - 1 & 0xFFFFFF, 7, AETH_NAK | NakCode.INVALID_REQUEST)
    forged(lab, 0, flow.source.qpn, stale, encode_control, 2)
    lab.run(flow)
    assert flow.is_right()
    assert lab.engine.hosts[0].not_its_peer == 7
