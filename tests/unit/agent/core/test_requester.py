from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from agent.core.config import QpConfig
from agent.core.ev.profile_sources import EvProfile
from agent.core.events import MessagesCompleted, PacketsLost, PacketsTimedOut
from agent.core.send.requester import Requester
from agent.wire.array.columns import SackColumns
from agent.wire.constants import BTH_ACK_REQUEST, BTH_RETRANSMISSION, Opcode

START_PSN = (1 << 24) - 3
PROFILE = EvProfile(np.arange(8, dtype=np.uint32), np.array([0, 0, 0, 0, 1, 1, 1, 1], np.uint8))
CONFIG = QpConfig(pmtu=10, window_pkts=16, ack_timeout_ns=100_000, linear_cnt=1, exp_cnt=2, transport_ack=False)


class Sender:
    """A requester, what it reported, and the packets it sent as (offset, ev, flags)."""

    def __init__(self, config=CONFIG, packets=40):
        self.events = []
        rng = np.random.default_rng(0)
        self.requester = Requester(config, PROFILE, START_PSN, rng, self.events.append)
        self.source = np.arange(packets * 10, dtype=np.uint64).astype(np.uint8)
        self.requester.messages.post(self.source, 0, len(self.source), 0x1000, 7, 100)
        self.sent = []

    def transmit(self, limit=256, now_ns=0):
        batch = self.requester.transmit(limit, now_ns)
        if batch is None:
            return []
        offsets = ((batch.psn.astype(np.int64) - START_PSN) % (1 << 24)).tolist()
        rows = list(zip(offsets, batch.ev_index.tolist(), batch.flags.tolist(), strict=True))
        self.sent += rows
        return rows

    def hear(self, received, now_ns=0, **changes):
        self.requester.receive_sacks(sacks_of(received, **changes), now_ns)

    def told(self, kind):
        return [e for e in self.events if isinstance(e, kind)]


def sacks_of(received, starts=None, rtx=False, mpr=0, start_psn=START_PSN):
    """The SACKs of a responder that holds exactly these offsets; `starts` are the blocks it shows, default all."""
    next_ = next(i for i in range(10**6) if i not in received)
    above = {r for r in received if r > next_}
    if starts is None:
        starts = range(next_, max(above, default=next_) + 1, 64)
    n = len(starts)
    bitmaps = [sum(1 << i for i in range(64) if start + i in above) for start in starts]
    zeros = {
        name: np.zeros(n, dtype)
        for name, dtype in (
            ("ack_psn_offset", np.int16), ("pr", bool), ("m", np.uint8), ("ev", np.uint32), ("spdcid", np.uint16),
            ("dpdcid", np.uint16), ("tx_timestamp", np.uint16), ("restore_cwnd", bool), ("rcv_cwnd_pen", np.uint8),
            ("rcvd_bytes", np.uint32), ("dqpn", np.uint32),
        )
    }  # fmt: skip
    return SackColumns(
        **zeros,
        cack_psn=np.full(n, (start_psn + next_ - 1) % (1 << 24), np.uint32),
        rtx=np.full(n, rtx),
        mpr=np.full(n, mpr, np.uint8),
        sack_offset=np.array([start - next_ + 1 for start in starts], np.int16),
        bitmap=np.array(bitmaps, np.uint64),
        ooo_count=np.full(n, len(above), np.uint16),
        plane=0,
    )


def test_a_batch_says_where_its_bytes_come_from_and_go():
    sender = Sender()
    batch = sender.requester.transmit(12, 8192 * 70_000)
    assert batch.psn.tolist() == [(START_PSN + i) % (1 << 24) for i in range(12)]
    assert batch.opcode.tolist() == [Opcode.WRITE_FIRST, *[Opcode.WRITE_MIDDLE] * 8, Opcode.WRITE_LAST, 0xC6, 0xC7]
    assert batch.msn.tolist() == [0] * 10 + [1, 1]
    assert batch.va.tolist() == [0x1000 + 10 * i for i in range(12)]
    assert batch.source_offset.tolist() == [10 * i for i in range(12)]
    assert set(batch.dmalen.tolist()) == {100}
    assert batch.tx_timestamp == 70_000 % 65536
    assert batch.source is sender.source


def test_sending_stops_at_the_window_and_asks_for_an_answer_there():
    sender = Sender()
    rows = sender.transmit()
    assert len(rows) == 16
    assert [flags for _, _, flags in rows] == [0] * 15 + [BTH_ACK_REQUEST]
    assert sender.transmit() == []
    sender.hear(set(range(3)))
    assert [(o, f) for o, _, f in sender.transmit()] == [(16, 0), (17, 0), (18, 0)]


def test_the_last_packet_of_the_backlog_asks_for_an_answer():
    sender = Sender(packets=10)
    assert [f for _, _, f in sender.transmit(4)] == [0] * 4
    assert [f for _, _, f in sender.transmit()] == [0] * 5 + [BTH_ACK_REQUEST]


def test_messages_complete_when_the_cumulative_point_passes_them():
    sender = Sender(packets=12)
    sender.transmit()
    sender.hear(set(range(9)) | {10, 11}, 5)
    assert not sender.told(MessagesCompleted)
    sender.hear(set(range(12)), 6)
    assert sender.told(MessagesCompleted) == [MessagesCompleted(6, 0, 2, 120)]
    assert sender.requester.acked_bytes == 120
    assert sender.requester.timer.deadline_ns is None


def ev_of(sender, offset):
    return [ev for o, ev, _ in sender.sent if o == offset][-1]


def test_a_lost_packet_goes_out_again_first_on_another_ev_of_its_plane():
    sender = Sender()
    sender.transmit()
    ev = ev_of(sender, 2)
    later = next(o for o, e, _ in sender.sent if e == ev and o > 2)
    sender.hear({0, 1, later}, 9)
    assert sender.told(PacketsLost) == [PacketsLost(9, (ev,), (1,))]
    rows = sender.transmit()
    offset, other, flags = rows[0]
    assert (offset, flags & BTH_RETRANSMISSION) == (2, BTH_RETRANSMISSION)
    assert other != ev
    assert PROFILE.planes[other] == PROFILE.planes[ev]
    assert [o for o, _, _ in rows[1:]] == [16, 17]
    assert not any(f & BTH_RETRANSMISSION for _, _, f in rows[1:])
    counters, evs = sender.requester.counters, sender.requester.evs
    assert (counters.lost, counters.packets_rtx, counters.packets_tx) == (1, 1, 18)
    assert (evs.lost[ev], evs.tx_rtx[other], evs.acked.sum(), evs.tx_first.sum()) == (1, 1, 3, 18)


def test_a_stale_sack_tells_what_arrived_but_not_what_is_missing():
    sender = Sender()
    sender.transmit()
    ev = ev_of(sender, 2)
    later = next(o for o, e, _ in sender.sent if e == ev and o > 2)
    old, new = {0, 1, 4}, {0, 1, 2, 3, 4, later}
    sender.hear(new)
    before = sender.requester.in_flight_pkts
    # Overtaken: it shows 2 and 3 missing, which have arrived since.
    sender.hear(old)
    assert sender.requester.counters.sacks_stale == 1
    assert not sender.told(PacketsLost)
    assert sender.requester.in_flight_pkts == before


def test_positive_news_of_a_stale_sack_counts():
    config = structs.replace(CONFIG, window_pkts=300, mpr_dest=3)
    sender = Sender(config, packets=300)
    sender.transmit(300)
    sender.hear({0, 200, 201}, starts=[1])
    sender.hear({0, 10, 200, 201}, starts=[1])
    assert sender.requester.evs.acked.sum() == 2
    sender.hear({0, 200, 201}, starts=[192])
    assert sender.requester.counters.sacks_stale == 1
    assert sender.requester.evs.acked.sum() == 4


def test_without_all_news_only_shown_gaps_are_lost():
    """The SACK that showed arrivals 128 and on was lost; only what another bitmap shows missing is taken as such."""
    config = structs.replace(CONFIG, window_pkts=300, mpr_dest=3)
    sender = Sender(config, packets=300)
    sender.transmit(300)
    arrived = set(range(290)) - {5, 70, 150}
    sender.hear(arrived, starts=[64])
    # 5 is the PSN after the cumulative point, 70 is shown; both have later arrivals on their EVs within that bitmap.
    assert [o for o, _, f in sender.transmit() if f & BTH_RETRANSMISSION] == [5, 70]
    sender.hear(arrived, starts=[0, 128, 192, 256])
    assert [o for o, _, f in sender.transmit() if f & BTH_RETRANSMISSION] == [150]
    assert sender.requester.in_flight_pkts == 10 + 3


def test_an_impossible_sack_is_rejected_whole():
    sender = Sender()
    sender.transmit(4)
    sender.hear(set(range(5)))
    sender.hear({0, 1, 2, 3, 5})
    sender.hear({0, 9})
    assert sender.requester.counters.sacks_rejected == 2
    assert sender.requester.in_flight_pkts == 3
    sender.hear(set(range(4)))
    assert sender.requester.in_flight_pkts == 0


def test_bits_beyond_what_was_sent_are_ignored():
    sender = Sender()
    sender.transmit(4)
    everything_but_1_and_3 = np.array([2**64 - 1 - 0b101], np.uint64)
    sender.requester.receive_sacks(replace(sacks_of({0, 2}), bitmap=everything_but_1_and_3), 0)
    assert sender.requester.in_flight_pkts == 2
    assert sender.requester.evs.acked.sum() == 2


def test_a_timeout_resends_a_few_and_its_answer_decides_about_the_rest():
    sender = Sender()
    sender.transmit(now_ns=0)
    sender.requester.on_timer(99_999)
    assert sender.transmit() == []
    sender.requester.on_timer(100_000)
    assert [(o, f) for o, _, f in sender.transmit(now_ns=100_000)] == [(i, BTH_RETRANSMISSION) for i in range(4)]
    assert sender.told(PacketsTimedOut)[0].retry == 1
    # All but the last two had arrived, only the SACK was lost.
    sender.hear(set(range(14)), 120_000, rtx=True)
    rows = sender.transmit(now_ns=120_000)
    assert [o for o, _, f in rows if f & BTH_RETRANSMISSION] == [14, 15]
    assert sender.requester.counters.timed_out == 6
    assert sender.requester.timer.retries == 0


def test_an_answer_that_is_not_to_a_resend_settles_no_doubt():
    sender = Sender()
    sender.transmit(now_ns=0)
    sender.requester.on_timer(100_000)
    sender.transmit(now_ns=100_000)
    sender.hear(set(range(4)), 100_001)
    assert not any(f & BTH_RETRANSMISSION for _, _, f in sender.transmit(now_ns=100_001))


def test_unanswered_timeouts_exhaust_the_retries():
    sender = Sender()
    now_ns, times = 0, []
    while not sender.requester.timer.exhausted:
        sender.transmit(now_ns=now_ns)
        now_ns = sender.requester.timer.deadline_ns
        times.append(now_ns)
        sender.requester.on_timer(now_ns)
    assert times == [100_000, 200_000, 400_000, 800_000]


def test_a_packet_resent_for_a_reason_waits_the_default_interval_however_often_others_timed_out():
    """Table 7-1: the timer is the packet's own; the interval of the queue pair is 16 default ones by then."""
    sender = Sender(structs.replace(CONFIG, linear_cnt=0, exp_cnt=8))
    sender.transmit(now_ns=0)
    now_ns = 0
    for _ in range(5):
        now_ns = sender.requester.timer.deadline_ns
        sender.requester.on_timer(now_ns)
        sender.transmit(now_ns=now_ns)
    # Later packets of the same EVs have arrived: those are proven lost and sent again, offset 0 with them.
    sender.hear(set(range(8, 16)), now_ns + 1000)
    again_ns = now_ns + 2000
    assert sender.transmit(now_ns=again_ns)
    assert sender.requester.timer.retries == 5
    timed_out = sender.requester.counters.timed_out
    sender.requester.on_timer(again_ns + 99_999)
    assert sender.requester.counters.timed_out == timed_out
    sender.requester.on_timer(again_ns + 100_000)
    assert sender.requester.counters.timed_out > timed_out


def test_an_early_timer_is_armed_again_at_the_oldest_packet():
    sender = Sender()
    sender.transmit(4, now_ns=0)
    sender.transmit(4, now_ns=40_000)
    sender.hear(set(range(4)), 50_000)
    sender.requester.on_timer(100_000)
    assert sender.requester.timer.deadline_ns == 140_000
    assert not sender.told(PacketsTimedOut)


@pytest.mark.parametrize(("dynamic", "window"), [(True, 128), (False, 250)])
def test_a_dynamic_window_follows_the_newest_sack(dynamic, window):
    config = structs.replace(CONFIG, window_pkts=250, dynamic_mpr=dynamic)
    sender = Sender(config, packets=600)
    assert len(sender.transmit(600)) == 250
    sender.hear(set(range(250)), mpr=1)
    assert len(sender.transmit(600)) == window


def test_a_shrunken_window_holds_resends_back_until_they_fit():
    config = structs.replace(CONFIG, window_pkts=250, dynamic_mpr=True)
    sender = Sender(config, packets=250)
    sender.transmit(250)
    sender.hear(set(range(250)) - {0, 60, 160}, mpr=1)
    assert [o for o, _, _ in sender.transmit()] == [0, 60]
    sender.hear(set(range(250)) - {60, 160}, mpr=1)
    assert [o for o, _, _ in sender.transmit()] == [160]
