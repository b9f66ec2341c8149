"""The queue pair's state table: every state meets every event, and goes where the table says or refuses."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from agent.core.completion import CompletionQueue
from agent.core.config import PeerQp, QpConfig
from agent.core.errors import StateError
from agent.core.events import QpState
from agent.core.memory_regions import MemoryRegion, RegionTable
from agent.core.qp import TRANSITIONS, QueuePair
from agent.wire.array.columns import WriteColumns
from agent.wire.array.control_columns import AckColumns, NackColumns, ProbeColumns
from agent.wire.constants import AETH_NAK, NackReason, NakCode, Opcode
from tests.unit.agent.core.qp_pair import profile_of
from tests.unit.agent.core.test_requester import sacks_of

RESET, INIT, RTR, RTS, ERROR = QpState
REFUSED = None
PEER = PeerQp(4, 0)
MEMORY = np.zeros(64, np.uint8)
VA, RKEY = 1 << 32, 9
PROFILE = profile_of()
CONFIG = QpConfig(pmtu=16, start_psn=0, ack_timeout_ns=1000, linear_cnt=2, exp_cnt=0, transport_ack=False)


def in_state(state: QpState) -> QueuePair:
    """A queue pair walked so far; what has been posted in RTS has been sent."""
    regions = RegionTable()
    regions.register(MemoryRegion(VA, RKEY, MEMORY.copy()))
    qp = QueuePair(3, CONFIG, PROFILE, regions, np.random.default_rng(1), CompletionQueue())
    if state in (INIT, RTR):
        qp._go(INIT, 0)
    if state is RTR:
        qp._responder.expect(PEER.qpn, PEER.start_psn)
        qp._go(RTR, 0)
    if state in (RTS, ERROR):
        qp.connect(PEER, 0)
        qp.post_write(MemoryRegion(0, 1, MEMORY), 0, 16, VA, RKEY)
        assert len(qp.transmit(10, 0)) == 1
    if state is ERROR:
        qp.fail(0)
    qp.drain_events()
    assert qp.state is state
    return qp


def one(value: int, dtype: type) -> np.ndarray:
    return np.array([value], dtype)


def write(rkey: int) -> WriteColumns:
    return WriteColumns(
        psn=one(0, np.uint32), opcode=one(Opcode.WRITE_ONLY, np.uint8), flags=one(0, np.uint8),
        dqpn=one(3, np.uint32), ce=one(False, np.bool_), trimmed=one(False, np.bool_),
        trimmed_lasthop=one(False, np.bool_), ev=PROFILE.evs[:1], msn=one(0, np.uint16), rqmsn=one(0, np.uint16),
        tx_timestamp=one(0, np.uint16), va=one(VA, np.uint64), rkey=one(rkey, np.uint32), dmalen=one(16, np.uint32),
        imm=one(0, np.uint32), payload_offset=one(0, np.int64), payload_bytes=one(16, np.uint32), memory=MEMORY,
        plane=0,
    )  # fmt: skip


def nack(reason: NackReason, qp: QueuePair) -> NackColumns:
    row = int(qp._requester._in_flight.evs_of(np.array([0]))[0])
    return NackColumns(
        nack_psn=one(0, np.uint32), nack_reason=one(reason, np.uint8), vendor_info=one(0, np.uint8),
        ev=PROFILE.evs[row : row + 1], spdcid=one(0, np.uint16), dpdcid=one(0, np.uint16),
        tx_timestamp=one(0, np.uint16), dqpn=one(3, np.uint32), plane=0,
    )  # fmt: skip


NACK_COLUMNS = ("nack_psn", "nack_reason", "vendor_info", "ev", "spdcid", "dpdcid", "tx_timestamp", "dqpn")


def ack(syndrome: int) -> AckColumns:
    return AckColumns(
        psn=one(0, np.uint32), syndrome=one(syndrome, np.uint8), msn=one(0, np.uint32), dqpn=one(3, np.uint32), plane=0
    )


PROBE = ProbeColumns(
    probe_id=one(5, np.uint16), spdcid=one(0, np.uint16), dpdcid=one(0, np.uint16), tx_timestamp=one(0, np.uint16),
    tsr=one(True, np.bool_), ev=PROFILE.evs[:1], ce=one(False, np.bool_), dqpn=one(3, np.uint32), plane=0,
)  # fmt: skip


def let_timeouts_pass(qp: QueuePair) -> None:
    for second in range(1, 5):
        qp.on_timer(second * 10**9)
        qp.transmit(10, second * 10**9)


EVENTS: dict[str, tuple[Callable[[QueuePair], object], dict[QpState, QpState | None]]] = {
    # event: what makes it, and the state after it in RESET, INIT, RTR, RTS, ERROR
    "connect": (
        lambda qp: qp.connect(PEER, 1),
        {RESET: RTS, INIT: REFUSED, RTR: REFUSED, RTS: REFUSED, ERROR: REFUSED},
    ),
    "post a write": (
        lambda qp: qp.post_write(MemoryRegion(0, 1, MEMORY), 0, 1, VA, RKEY),
        {RESET: REFUSED, INIT: REFUSED, RTR: REFUSED, RTS: RTS, ERROR: REFUSED},
    ),
    "post a receive": (
        lambda qp: qp.post_receives(0),
        {RESET: REFUSED, INIT: INIT, RTR: RTR, RTS: RTS, ERROR: REFUSED},
    ),
    "fail by request": (lambda qp: qp.fail(1), dict.fromkeys(QpState, ERROR)),
    "a write arrives": (lambda qp: qp.receive_writes(write(RKEY), 1), {state: state for state in QpState}),
    "a write to forbidden memory arrives": (
        lambda qp: qp.receive_writes(write(RKEY + 1), 1),
        {RESET: RESET, INIT: INIT, RTR: ERROR, RTS: ERROR, ERROR: ERROR},
    ),
    "a write without bytes arrives": (
        lambda qp: qp.receive_writes(replace(write(RKEY), payload_bytes=one(0, np.uint32)), 1),
        {RESET: RESET, INIT: INIT, RTR: ERROR, RTS: ERROR, ERROR: ERROR},
    ),
    "a retriable NACK arrives": (
        lambda qp: qp.receive_nacks(nack(NackReason.TRIMMED, qp), 1),
        {state: state for state in QpState},
    ),
    "a fatal NACK arrives": (
        lambda qp: qp.receive_nacks(nack(NackReason.UNEXP_EVENT, qp), 1),
        {RESET: RESET, INIT: INIT, RTR: RTR, RTS: ERROR, ERROR: ERROR},
    ),
    "a NAK arrives": (
        lambda qp: qp.receive_acks(ack(AETH_NAK | NakCode.REMOTE_ACCESS_ERROR), 1),
        {RESET: RESET, INIT: INIT, RTR: RTR, RTS: ERROR, ERROR: ERROR},
    ),
    "a probe arrives": (lambda qp: qp.receive_probes(PROBE, 1), {state: state for state in QpState}),
    "the last timeout passes": (
        let_timeouts_pass,
        {RESET: RESET, INIT: INIT, RTR: RTR, RTS: ERROR, ERROR: ERROR},
    ),
    "a port falls": (lambda qp: qp.on_port_state(0, False, 1), {state: state for state in QpState}),
    "the peer's ports fall": (lambda qp: qp.on_peer_ports(0, 1), {state: state for state in QpState}),
}


@pytest.mark.parametrize("state", list(QpState), ids=lambda state: state.value)
@pytest.mark.parametrize("event", EVENTS)
def test_every_state_answers_every_event_as_specified(state, event):
    happen, after = EVENTS[event]
    qp = in_state(state)
    if after[state] is REFUSED:
        with pytest.raises(StateError) as refused:
            happen(qp)
        assert (refused.value.state, qp.state) == (state.value, state)
    else:
        happen(qp)
        assert qp.state is after[state]


@pytest.mark.parametrize(("psn", "acknowledged"), [(1, False), (0x800001, False), (0xFFFFFF, False), (0, True)])
def test_a_refusal_of_what_is_not_outstanding_is_a_ghost(psn, acknowledged):
    """Never sent, or acknowledged long ago: counted, and the queue pair goes on (RoCE drops ghost answers)."""
    qp = in_state(RTS)
    if acknowledged:
        qp.receive_sacks(sacks_of({0}, start_psn=0), 1)
        assert qp.completed_messages == 1
    unexpected = replace(nack(NackReason.UNEXP_EVENT, qp), nack_psn=one(psn, np.uint32))
    qp.receive_nacks(unexpected, 1)
    for code in NakCode:
        qp.receive_acks(replace(ack(AETH_NAK | code), psn=one(psn, np.uint32)), 1)
    counters = qp.progress().requester
    assert qp.state is RTS
    assert counters.acks_rejected == len(NakCode)
    assert (counters.nacks_rejected, counters.nacks_stale) in ((1, 0), (0, 1))


def test_a_fatal_nack_counts_beside_another_of_the_same_packet():
    qp = in_state(RTS)
    both = [nack(reason, qp) for reason in (NackReason.TRIMMED, NackReason.UNEXP_EVENT)]
    columns = {name: np.repeat(getattr(both[0], name), 2) for name in NACK_COLUMNS}
    columns["nack_reason"] = np.array([NackReason.TRIMMED, NackReason.UNEXP_EVENT], np.uint8)
    qp.receive_nacks(replace(both[0], **columns), 1)
    assert qp.state is ERROR


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("theirs", [True, False, None])
def test_extensions_are_used_only_if_both_ends_agree(ours, theirs):
    """A port mask in SACKs is neither obeyed nor written, a window not advertised, unless it was agreed."""
    config = structs.replace(CONFIG, dynamic_mpr=ours, ev=structs.replace(CONFIG.ev, port_mask=ours))
    qp = QueuePair(3, config, PROFILE, RegionTable(), np.random.default_rng(1))
    qp.connect(PeerQp(4, 0, dynamic_mpr=theirs, port_mask=theirs), 0)
    qp.post_write(MemoryRegion(0, 1, MEMORY), 0, 16, VA, RKEY)
    qp.transmit(10, 0)
    agreed = ours and theirs is not False
    assert qp.offer().port_mask is qp.offer().dynamic_mpr is ours
    qp.receive_sacks(replace(sacks_of({0}, start_psn=0), port_mask=one(0b010, np.uint32)), 1)
    assert qp._requester.ev_set.remote_up[:2].tolist() == [True, not agreed]
    qp.receive_probes(PROBE, 1)
    sack = qp.acknowledge(1)
    assert (sack.port_mask is not None) is agreed
    assert bool(sack.mpr[0]) is agreed


@pytest.mark.parametrize("state", list(QpState), ids=lambda state: state.value)
def test_only_states_that_receive_place_and_answer(state):
    qp = in_state(state)
    qp.receive_writes(write(RKEY), 1)
    qp.receive_probes(PROBE, 1)
    receives = state in (RTR, RTS)
    assert qp.progress().responder.received == int(receives)
    assert qp.progress().responder.probes == int(receives)
    assert (qp.acknowledge(10**9) is not None) is receives


@pytest.mark.parametrize("state", list(QpState), ids=lambda state: state.value)
def test_only_rts_sends_data(state):
    qp = in_state(state)
    if state is RTS:
        qp.post_write(MemoryRegion(0, 1, MEMORY), 0, 16, VA, RKEY)
    assert (qp.transmit(10, 1) is not None) is (state is RTS)


@pytest.mark.parametrize("old", list(QpState))
@pytest.mark.parametrize("new", list(QpState))
def test_no_other_way_than_the_tables(old, new):
    qp = in_state(old)
    if new in TRANSITIONS[old]:
        qp._go(new, 5)
        assert qp.state is new
    else:
        with pytest.raises(StateError):
            qp._go(new, 5)
        assert qp.state is old
