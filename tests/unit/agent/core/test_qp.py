import numpy as np
import pytest

from agent.core.config import PeerQp, QpConfig, SprayPolicy
from agent.core.errors import RegionError, StateError
from agent.core.events import PortOwner, PortsChanged, QpErrorReason, QpFailed, QpState, QpStateChanged
from agent.core.memory_regions import RegionTable
from agent.core.psn import offsets_of
from agent.core.qp import TRANSITIONS, QueuePair
from tests.unit.agent.core.qp_pair import QpPair, Weather, profile_of


def new_qp(**settings):
    return QueuePair(3, QpConfig(**settings), profile_of(), RegionTable(), np.random.default_rng(1))


def test_a_connection_walks_the_table():
    qp = new_qp()
    assert qp.state is QpState.RESET
    qp.connect(PeerQp(4, 7), 5)
    walked = [(e.old, e.new) for e in qp.drain_events() if isinstance(e, QpStateChanged)]
    assert walked == [(QpState.RESET, QpState.INIT), (QpState.INIT, QpState.RTR), (QpState.RTR, QpState.RTS)]
    assert qp.drain_events() == []
    with pytest.raises(StateError) as raised:
        qp.connect(PeerQp(4, 7), 6)
    assert raised.value.state == "RTS"


def test_every_state_can_fail_and_failure_is_final():
    assert all(QpState.ERROR in TRANSITIONS[s] for s in QpState if s is not QpState.ERROR)
    assert not TRANSITIONS[QpState.ERROR]


def test_posting_needs_rts_and_bytes():
    pair = QpPair(0, QpConfig())
    source = pair.ends[0].source
    with pytest.raises(StateError):
        new_qp().post_write(source, 0, 1, 0, 0)
    with pytest.raises(RegionError):
        pair.ends[0].qp.post_write(source, 0, len(source.data) + 1, 0, 0)
    assert pair.ends[0].qp.post_write(source, 0, 10, 0, 0) == 0
    assert pair.ends[0].qp.post_writes(source, 0, 10, 0, 0, 3) == range(1, 5)


def test_an_unconnected_queue_pair_neither_sends_nor_wakes():
    qp = new_qp()
    assert qp.transmit(10, 0) is None
    assert qp.acknowledge(0) is None
    assert qp.next_deadline_ns() is None
    qp.on_timer(10**12)
    assert qp.drain_events() == []


def test_the_starting_psn_is_drawn_unless_given():
    assert new_qp(start_psn=77).start_psn == 77
    assert new_qp().start_psn == new_qp().start_psn
    assert 0 <= new_qp().start_psn < 1 << 24


@pytest.mark.parametrize("policy", list(SprayPolicy))
def test_shares_of_the_planes_are_known_before_sending(policy):
    pair = QpPair(5, QpConfig(pmtu=16, policy=policy, start_psn=(1 << 24) - 100), profile=profile_of(3, 5))
    qp = pair.ends[0].qp
    pair.post(0, 1600, 1600)
    first = qp.posted_pkts
    shares = qp.plane_shares(first, 700)
    pair.post(0, 700 * 16, 5000)
    pair.run(10**9)
    psn = np.concatenate([b.psn for b in pair.ends[0].batches])
    ev = np.concatenate([b.ev_index for b in pair.ends[0].batches])
    offsets = offsets_of(psn, qp.start_psn, 0)
    measured = (offsets >= first) & (offsets < first + 700)
    for share in shares:
        mine = measured & (pair.profile.planes[ev] == share.plane)
        assert share.packets == mine.sum()
        assert share.last_psn == psn[mine][-1]
    assert sum(s.packets for s in shares) == 700


def test_exhausted_retries_end_in_error_and_flush():
    config = QpConfig(pmtu=16, ack_timeout_ns=1_000_000, linear_cnt=2, exp_cnt=2)
    pair = QpPair(1, config, writes=Weather(dead_evs=frozenset(range(16))))
    pair.post(0, 1000, 100)
    pair.run(10**9)
    this = pair.ends[0]
    assert this.qp.state is QpState.ERROR
    assert this.events[-1] == QpFailed(this.events[-1].now_ns, QpErrorReason.RETRY_EXCEEDED, 10)
    # The first sending and two retries at the fixed interval, two doubled ones.
    assert this.events[-1].now_ns == 1_000_000_000 + (1 + 1 + 1 + 2 + 4) * 1_000_000
    assert this.qp.transmit(10, 10**12) is None
    assert this.qp.progress().completed_messages == 0


def test_endless_retries_survive_a_long_outage():
    config = QpConfig(pmtu=16, ack_timeout_ns=1_000_000, linear_cnt=0, exp_cnt=25)
    pair = QpPair(1, config, writes=Weather(dead_evs=frozenset(range(16))))
    pair.post(0, 1000, 100)
    end_ns = pair.now_ns + 5 * 10**9
    while pair.now_ns < end_ns:
        pair.step()
    this = pair.ends[0]
    assert this.qp.state is QpState.RTS
    this.writes.weather = Weather()
    pair.run(10**9)
    pair.check_delivered()


def test_counters_are_copies():
    pair = QpPair(0, QpConfig(pmtu=16))
    pair.post(0, 100, 100)
    before, evs = pair.ends[0].qp.progress(), pair.ends[0].qp.ev_counters()
    pair.run(10**9)
    assert before.requester.packets_tx == evs.tx_first.sum() == 0
    assert pair.ends[0].qp.ev_counters().tx_first.sum() == 7


def test_ports_that_change_are_told_once():
    qp = new_qp()
    qp.on_port_state(1, False, 5)
    qp.on_peer_ports(0b010, 6)
    qp.on_peer_ports(0b010, 7)
    told = [event for event in qp.drain_events() if isinstance(event, PortsChanged)]
    assert [(event.now_ns, event.owner, 1 in event.down) for event in told] == [
        (5, PortOwner.LOCAL, True),
        (6, PortOwner.PEER, True),
    ]


RESTING = {"on_timer", "control", "acknowledge", "wanted_ev_probe"}
"""Asked only when due (`is_due`)."""

QUIET = {
    *("state", "peer_qpn", "posted_pkts", "completed_messages", "has_backlog", "offer", "plane_shares", "progress"),
    *("reordering", "ev_counters", "ev_states", "ways", "reverse_rows", "is_due", "rest", "next_deadline_ns"),
    *("drain_watched", "drain_replaced", "drain_events", "report_evs", "refuse", "brake", "watch"),
    *("post_write", "post_writes", "post_receives"),
}
"""Nothing of what is asked when due follows from these: they read, or prepare what `transmit` and arrivals do."""


def test_every_verb_that_gives_a_queue_pair_something_to_do_wakes_it():
    public = {name for name in vars(QueuePair) if not name.startswith("_")}
    waking = {name for name in public if hasattr(vars(QueuePair)[name], "__wrapped__")}
    assert public - RESTING - QUIET == waking
