from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from agent.core.config import QpConfig
from agent.core.ev.profile_sources import EvProfile
from agent.core.memory_regions import MemoryRegion, RegionTable
from agent.core.receive.responder import Responder
from agent.wire.array.columns import WriteColumns
from agent.wire.constants import BTH_ACK_REQUEST, BTH_RETRANSMISSION, EcnVerdict

START_PSN = (1 << 24) - 5
PROFILE = EvProfile(np.arange(6, dtype=np.uint32), np.array([0, 0, 1, 1, 3, 3], np.uint8))
CONFIG = QpConfig(pmtu=8, mpr=2, sack_delay_ns=1000)
VA, RKEY = 0x4000, 9


class Receiver:
    """A responder over 4000 bytes; packet k carries 8 bytes of value k % 255 + 1."""

    def __init__(self, config=CONFIG):
        self.region = MemoryRegion(VA, RKEY, np.zeros(4000, np.uint8))
        regions = RegionTable()
        regions.register(self.region)
        self.responder = Responder(config, PROFILE, regions, 0x12345)
        self.responder.expect(0x54321, START_PSN)

    def take(self, *offsets, now_ns=0, **changes):
        self.responder.receive_writes(writes_of(offsets, **changes), now_ns)
        return self.responder.acknowledge(now_ns)

    def acked(self, now_ns):
        """Messages the transport ACK that is due tells of, None without one."""
        ack = self.responder.acks(now_ns)
        return None if ack is None else int(ack.msn[0])

    def placed(self):
        return [k for k in range(500) if (self.region.data[8 * k : 8 * k + 8] == k % 255 + 1).all()]

    @property
    def counters(self):
        return self.responder.counters


MESSAGE_PKTS = 500


def writes_of(offsets, *, asking=(), resent=(), marked=(), trimmed=(), rkey=RKEY, evs=None, message_pkts=MESSAGE_PKTS):
    """Packets of messages of 8 bytes a packet, each written to the beginning of the region."""
    o = np.array(offsets, np.int64)
    n = len(o)
    into = o % message_pkts
    is_first, is_last = into == 0, into == message_pkts - 1
    flags = np.where(np.isin(o, asking), BTH_ACK_REQUEST, 0) | np.where(np.isin(o, resent), BTH_RETRANSMISSION, 0)
    return WriteColumns(
        psn=((o + START_PSN) % (1 << 24)).astype(np.uint32),
        opcode=np.select([is_first & is_last, is_first, is_last], [0xCA, 0xC6, 0xC8], 0xC7).astype(np.uint8),
        flags=flags.astype(np.uint8),
        dqpn=np.full(n, 0x12345, np.uint32),
        ce=np.isin(o, marked),
        trimmed=np.isin(o, trimmed),
        trimmed_lasthop=np.zeros(n, bool),
        ev=(o % 6).astype(np.uint32) if evs is None else np.array(evs, np.uint32),
        msn=(o // message_pkts).astype(np.uint16),
        rqmsn=np.zeros(n, np.uint16),
        tx_timestamp=(o + 1000).astype(np.uint16),
        va=(VA + 8 * into).astype(np.uint64),
        rkey=np.full(n, rkey, np.uint32),
        dmalen=np.full(n, 8 * message_pkts, np.uint32),
        imm=np.zeros(n, np.uint32),
        payload_bytes=np.full(n, 8, np.uint32),
        payload_offset=np.arange(n, dtype=np.int64) * 8,
        memory=np.repeat((o % 255 + 1).astype(np.uint8), 8),
        plane=0,
    )


def shown(batch):
    """Offsets a SACK batch shows as received above its cumulative point."""
    found = set()
    for start, bitmap in zip(batch.sack_offset.tolist(), batch.bitmap.tolist(), strict=True):
        found |= {cack(batch) + start + i for i in range(64) if bitmap >> i & 1}
    return sorted(found)


def cack(batch):
    psns = set(batch.cack_psn.tolist())
    assert len(psns) == 1
    return (psns.pop() - START_PSN + 1000) % (1 << 24) - 1000


def test_packets_are_placed_in_any_order_and_the_point_follows():
    receiver = Receiver()
    receiver.take(3, 1)
    assert receiver.placed() == [1, 3]
    assert (receiver.responder.held_pkts, receiver.counters.received) == (2, 2)
    receiver.take(0, 2)
    batch = receiver.take(5, asking=[5])
    assert receiver.placed() == [0, 1, 2, 3, 5]
    assert cack(batch) == 3
    assert batch.ooo_count.tolist() == [1]
    assert shown(batch) == [5]


def test_a_packet_is_accepted_once():
    receiver = Receiver()
    assert receiver.take(0, 1, 1, 3) is not None
    assert (receiver.counters.received, receiver.counters.duplicates) == (3, 1)
    assert receiver.take(1) is not None
    assert receiver.take(3) is not None
    assert (receiver.counters.received, receiver.counters.duplicates) == (3, 3)
    assert receiver.counters.received_bytes == 24


def test_what_lies_beyond_the_window_is_dropped():
    receiver = Receiver()
    receiver.take(255, 256, 400)
    assert receiver.placed() == [255]
    assert (receiver.counters.out_of_window, receiver.counters.received) == (2, 1)
    receiver.take(0, 256)
    assert receiver.counters.out_of_window == 3
    receiver.take(256)
    assert receiver.placed() == [0, 255, 256]


def test_a_trimmed_packet_leaves_no_trace_but_its_count():
    receiver = Receiver()
    assert receiver.take(0, 1, asking=[0], trimmed=[0]) is None
    assert receiver.placed() == [1]
    assert (receiver.counters.trimmed, receiver.counters.received, receiver.counters.out_of_window) == (1, 1, 0)


def test_an_access_error_is_not_received():
    receiver = Receiver()
    assert receiver.take(0, asking=[0], rkey=1) is None
    assert receiver.responder.sack_deadline_ns is None
    batch = receiver.take(0, 499, 500 - 256, asking=[0])
    assert receiver.counters.access_errors == 1
    assert cack(batch) == 0
    receiver.responder.receive_writes(
        replace(writes_of([1, 2, 3]), va=np.array([VA + 8, VA - 1, VA + 24], np.uint64)), 0
    )
    assert receiver.counters.access_errors == 2
    assert receiver.placed() == [0, 1, 3, 244]


def test_news_waits_for_the_threshold_or_the_delay():
    receiver = Receiver(structs.replace(CONFIG, sack_gen_threshold_bytes=4 * 1024))
    assert receiver.take(0, 1, now_ns=100) is None
    assert receiver.take(2, 3, now_ns=200) is None
    assert receiver.responder.sack_deadline_ns == 1100
    assert cack(receiver.take(4, now_ns=300)) == 4
    assert receiver.responder.sack_deadline_ns is None
    assert receiver.responder.acknowledge(10**9) is None
    assert receiver.take(5, now_ns=2000) is None
    assert receiver.responder.acknowledge(2999) is None
    assert cack(receiver.responder.acknowledge(3000)) == 5
    assert receiver.counters.sacks == 2


@pytest.mark.parametrize("why", ["asking", "resent", "marked"])
def test_some_packets_are_answered_at_once(why):
    batch = Receiver().take(0, 1, 2, **{why: [1]})
    assert batch.ack_psn_offset.tolist() == [-1]
    assert batch.ev.tolist() == [1]
    assert batch.tx_timestamp.tolist() == [1001]
    assert batch.rtx.tolist() == [why == "resent"]
    assert batch.m.tolist() == [EcnVerdict.SKIP_ONCE if why == "marked" else EcnVerdict.NONE]


@pytest.mark.parametrize("drain", [[(0, 1, 2)], [(0,), (1, 2)], [(1, 2), (0,)]])
def test_a_resend_is_answered_before_a_request(drain):
    receiver = Receiver()
    for offsets in drain:
        receiver.responder.receive_writes(writes_of(offsets, resent=[0], asking=[2]), 0)
    batch = receiver.responder.acknowledge(0)
    assert batch.rtx.tolist() == [True]
    assert batch.ack_psn_offset.tolist() == [-2]


def test_every_marked_ev_is_named_once():
    receiver = Receiver()
    receiver.responder.receive_writes(writes_of([0, 1, 2], marked=[0, 2], evs=[4, 5, 4]), 0)
    batch = receiver.take(3, 4, marked=[3], evs=[3, 2])
    assert batch.ev.tolist() == [4, 3]
    assert set(batch.m.tolist()) == {EcnVerdict.SKIP_ONCE}
    assert receiver.counters.ce_marked == 3


def test_news_wider_than_a_bitmap_takes_several_sacks_of_one_moment():
    receiver = Receiver()
    arrived = [o for o in range(1, 240) if o not in (70, 130)]
    batch = receiver.take(*arrived, asking=[239])
    assert len(batch) == 4
    assert cack(batch) == -1
    assert shown(batch) == arrived
    assert set(batch.ooo_count.tolist()) == {237}
    assert len(set(batch.ev_index.tolist())) == 1


def test_old_news_is_walked_through_again():
    receiver = Receiver()
    receiver.take(*range(1, 240), asking=[239])
    seen = [set(shown(receiver.take(1))) for _ in range(4)]
    assert set().union(*seen) == set(range(1, 240))
    assert all(len(s) <= 64 for s in seen)


def test_sacks_take_turns_over_one_ev_of_each_plane():
    receiver = Receiver()
    used = [int(receiver.take(k, asking=[k]).ev_index[0]) for k in range(6)]
    assert sorted(used[:3]) == [0, 2, 4]
    assert used[:3] == used[3:]


def test_received_bytes_count_the_nominal_size_of_new_packets():
    receiver = Receiver()
    batch = receiver.take(*range(10), asking=[9])
    # 40 + UDP 8 + BTH 12 + METH 4 + TSETH 4 + RETH 16 + payload 8 + ICRC 4
    assert batch.rcvd_bytes.tolist() == [-(-10 * 96 // 256)]
    batch = receiver.take(*range(10))
    assert batch.rcvd_bytes.tolist() == [-(-10 * 96 // 256)]


def test_ids_and_window_go_out_with_every_sack():
    batch = Receiver(structs.replace(CONFIG, dynamic_mpr=True)).take(0, asking=[0])
    assert (batch.spdcid[0], batch.dpdcid[0], batch.mpr[0]) == (0x4321, 0x2345, 2)
    assert Receiver().take(0, asking=[0]).mpr[0] == 0


@pytest.mark.parametrize(("behind", "named"), [(256, True), (257, False), (32_768, False), (33_000, False)])
def test_a_duplicate_is_named_or_not_answered_by_a_sack(behind, named):
    """What lies further back than a window is no resend of ours, and 16 bits cannot name all of it."""
    receiver = Receiver()
    for first in range(0, 40_000, 200):
        receiver.responder.receive_writes(writes_of(range(first, first + 200)), 0)
    assert receiver.responder.held_pkts == 0
    receiver.responder.acknowledge(0)
    batch = receiver.take(40_000 - behind)
    assert receiver.counters.duplicates == 1
    if named:
        assert batch.ack_psn_offset.tolist() == [1 - behind]
    else:
        assert batch is None


def test_an_old_duplicate_leaves_what_is_due_as_it_is():
    receiver = Receiver()
    for first in range(0, 600, 200):
        receiver.responder.receive_writes(writes_of(range(first, first + 200)), 0)
    receiver.responder.acknowledge(0)
    batch = receiver.take(599, 0, asking=[599])
    assert batch.ack_psn_offset.tolist() == [0]


def test_what_a_sack_can_no_longer_name_is_left_out():
    receiver = Receiver(structs.replace(CONFIG, mpr=255))
    receiver.responder.receive_writes(writes_of([0], marked=[0]), 0)
    for first in range(1, 32_801, 200):
        receiver.responder.receive_writes(writes_of(range(first, first + 200)), 0)
    assert receiver.responder.acknowledge(0) is None
    batch = receiver.take(32_800, asking=[32_800])
    assert (cack(batch), batch.ack_psn_offset.tolist()) == (32_800, [0])


def test_a_lone_arrival_far_ahead_is_one_sack():
    batch = Receiver().take(200, asking=[200])
    assert (len(batch), shown(batch), batch.sack_offset.tolist()) == (1, [200], [193])


def test_no_window_is_advertised_to_who_does_not_follow_it():
    receiver = Receiver(structs.replace(CONFIG, dynamic_mpr=True))
    receiver.responder.expect(0x54321, START_PSN, follows_mpr=False)
    assert receiver.take(0, asking=[0]).mpr[0] == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_with_duplicates_is_received_exactly_once(seed):
    rng = np.random.default_rng(seed)
    receiver = Receiver()
    told: set[int] = set()
    pending = list(range(499))
    while pending:
        edge = min(pending)
        near = [o for o in pending if o < edge + 256]
        picked = rng.choice(near, size=min(len(near), int(rng.integers(1, 60))), replace=False).tolist()
        batch = receiver.take(*picked, *rng.choice(picked, size=3).tolist(), asking=picked[:1])
        pending = [o for o in pending if o not in picked]
        # Each arrival is shown the first time it can be: by the point or by a bitmap.
        told |= set(range(cack(batch) + 1)) | set(shown(batch))
        assert told == set(range(499)) - set(pending)
    assert receiver.counters.received == 499
    assert receiver.counters.received_bytes == 499 * 8
    assert receiver.placed() == list(range(499))


def test_in_a_stream_messages_are_acknowledged_together_and_at_once_when_asked():
    receiver = Receiver(structs.replace(CONFIG, ack_coalesce_ns=1000))
    ends = {"message_pkts": 1}
    receiver.take(0, now_ns=10, **ends)
    assert receiver.acked(10) == 1, "the first at once"
    receiver.take(1, now_ns=20, **ends)
    receiver.take(2, now_ns=30, **ends)
    assert receiver.acked(30) is None
    assert receiver.acked(1010) == 3, "both with one"
    receiver.take(3, now_ns=1020, **ends)
    receiver.take(4, now_ns=1030, asking=(4,), **ends)
    assert receiver.acked(1030) == 5, "nothing else follows, so nothing is waited for"


def test_a_message_completed_by_an_overtaken_packet_is_told_at_once():
    receiver = Receiver(structs.replace(CONFIG, sack_delay_ns=1_000_000))
    assert receiver.take(1, asking=[1], message_pkts=2) is not None, "whoever asks is answered"
    sack = receiver.take(0, now_ns=10, message_pkts=2)
    assert (cack(sack), receiver.acked(10)) == (1, 1), "the SACK goes along with the transport ACK"
    assert receiver.take(2, now_ns=20, message_pkts=2) is None, "news in a stream waits"
