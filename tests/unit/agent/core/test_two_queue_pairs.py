"""The whole transport over FIFO paths in virtual time: many seeds of loss, duplication and reordering between paths."""

import numpy as np
import pytest

from agent.core.config import QpConfig, SprayPolicy
from agent.core.events import PacketsLost, PacketsTimedOut, QpState
from tests.unit.agent.core.qp_pair import QpPair, Weather, profile_of

SEEDS_A_TEST = 10
CHUNKS = 10

TIMEOUT_NS = 5_000_000


def drawn_pair(seed, *, sack_loss=0.0, sack_spread_ns=0, duplication=0.0):
    """Two queue pairs and paths drawn from a seed; PSNs wrap soon in every other one."""
    rng = np.random.default_rng((seed, 77))
    planes, evs_per_plane = int(rng.integers(1, 5)), int(rng.choice([1, 2, 4, 8]))
    config = QpConfig(
        pmtu=16,
        window_pkts=int(rng.choice([32, 100, 256, 777])),
        mpr=int(rng.choice([2, 8])),
        mpr_dest=2,
        start_psn=(1 << 24) - int(rng.integers(1, 400)) if seed % 2 else None,
        policy=list(SprayPolicy)[seed // 2 % 2],
        ack_timeout_ns=TIMEOUT_NS,
        exp_cnt=25,
    )
    writes = Weather(
        loss=float(rng.choice([0, 0.01, 0.05, 0.2])),
        duplication=duplication,
        spread_ns=int(rng.choice([0, 10_000, 150_000])),
        jitter_ns=int(rng.choice([0, 8_000])),
    )
    pair = QpPair(
        seed,
        config,
        writes=writes,
        sacks=Weather(loss=sack_loss, spread_ns=sack_spread_ns),
        memory_bytes=1 << 14,
        profile=profile_of(planes, evs_per_plane),
        tick_ns=int(rng.choice([1_000, 10_000, 40_000])),
        limit=int(rng.choice([8, 64, 256])),
    )
    for length, message_bytes in ((8000, int(rng.choice([16, 100, 1000, 8000]))), (8000, 3000)):
        done = pair.ends[0].qp.progress().posted_bytes
        pair.post(0, length, message_bytes, offset=done)
    if seed % 3 == 0:
        pair.post(1, 5000, 777)
    return pair


def totals(pair):
    """Dropped writes, retransmissions, proven losses, timeouts, duplicates and copies made, of both directions."""
    found = []
    for this, other in ((pair.ends[0], pair.ends[1]), (pair.ends[1], pair.ends[0])):
        mine, theirs = this.qp.progress().requester, other.qp.progress().responder
        found.append(
            (
                this.writes.dropped,
                mine.packets_rtx,
                mine.lost,
                mine.timed_out,
                theirs.duplicates,
                this.writes.duplicated,
            )
        )
    return [sum(column) for column in zip(*found, strict=True)]


def seeds(chunk):
    return range(chunk * SEEDS_A_TEST, (chunk + 1) * SEEDS_A_TEST)


def check_events(pair):
    for end in pair.ends:
        counters, evs = end.qp.progress().requester, end.qp.ev_counters()
        for kind, total, by_ev in (
            (PacketsLost, counters.lost, evs.lost),
            (PacketsTimedOut, counters.timed_out, evs.timed_out),
        ):
            told = [e for e in end.events if isinstance(e, kind)]
            assert sum(sum(e.counts) for e in told) == total == by_ev.sum()
        assert evs.tx_first.sum() == counters.packets_tx == evs.acked.sum()
        assert evs.tx_rtx.sum() == counters.packets_rtx


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_when_only_data_is_lost_exactly_the_lost_packets_are_resent(chunk):
    for seed in seeds(chunk):
        pair = drawn_pair(seed)
        pair.run(within_ns=3 * 10**9)
        pair.check_delivered()
        check_events(pair)
        dropped, resent, lost, timed_out, duplicates, _ = totals(pair)
        assert resent == dropped == lost + timed_out
        assert duplicates == 0


@pytest.mark.parametrize("chunk", range(5))
def test_sacks_that_overtake_each_other_cause_no_resend(chunk):
    for seed in seeds(chunk):
        pair = drawn_pair(seed, sack_spread_ns=200_000)
        pair.run(within_ns=3 * 10**9)
        pair.check_delivered()
        dropped, resent, lost, timed_out, duplicates, _ = totals(pair)
        assert resent == dropped == lost + timed_out
        assert duplicates == 0


@pytest.mark.parametrize("chunk", range(5))
def test_lost_sacks_and_duplicates_cost_resends_only_after_timeouts(chunk):
    for seed in seeds(chunk):
        rng = np.random.default_rng((seed, 5))
        pair = drawn_pair(
            seed,
            sack_loss=float(rng.choice([0.02, 0.2])),
            sack_spread_ns=int(rng.choice([0, 100_000])),
            duplication=float(rng.choice([0, 0.1])),
        )
        pair.run(within_ns=20 * 10**9)
        pair.check_delivered()
        check_events(pair)
        _, resent, lost, timed_out, duplicates, copies = totals(pair)
        # A proven loss is one whatever happens to SACKs; only a timeout can resend what had arrived.
        assert resent <= lost + timed_out
        assert duplicates <= timed_out + copies


def test_losses_recover_within_round_trips_while_data_flows():
    config = QpConfig(pmtu=16, window_pkts=256, start_psn=0)
    pair = QpPair(2, config, writes=Weather(loss=0.01))
    pair.post(0, 1 << 16, 1 << 12)
    while pair.ends[0].qp.progress().backlog_pkts:
        pair.step()
    assert pair.ends[0].writes.dropped > 20
    assert pair.ends[0].qp.progress().requester.timed_out == 0
    # 4096 packets in windows of 256, a round trip of 40 us each: 16 round trips without loss.
    assert pair.now_ns - 10**9 < 100 * 40_000


def test_a_lost_tail_ends_by_timeout():
    pair = QpPair(3, QpConfig(pmtu=16))
    pair.ends[0].writes.weather = Weather(dead_evs=frozenset(range(16)))
    pair.post(0, 160, 160)
    pair.step()
    pair.ends[0].writes.weather = Weather()
    pair.run(10**9)
    pair.check_delivered()
    counters = pair.ends[0].qp.progress().requester
    assert counters.timed_out == counters.packets_rtx == 10
    # One timeout for the first few, and a round trip later their answer condemns the others.
    timeout_ns = pair.ends[0].qp.config.ack_timeout_ns
    assert timeout_ns < pair.now_ns - 10**9 < timeout_ns + 500_000


def test_a_lost_last_sack_does_not_send_the_window_again():
    pair = QpPair(4, QpConfig(pmtu=16, window_pkts=512))
    pair.ends[1].sacks.weather = Weather(loss=1.0)
    pair.post(0, 500 * 16, 1000)
    while pair.now_ns < 10**9 + 10**6:
        pair.step()
    pair.ends[1].sacks.weather = Weather()
    pair.run(10**9)
    pair.check_delivered()
    assert pair.ends[0].qp.progress().requester.packets_rtx <= 8


def test_a_dead_plane_ends_in_error_and_says_so():
    config = QpConfig(pmtu=16, ack_timeout_ns=1_000_000, linear_cnt=1, exp_cnt=2)
    pair = QpPair(5, config, writes=Weather(dead_evs=frozenset(range(8, 16))))
    pair.post(0, 8000, 1000)
    pair.run(10**9)
    assert pair.ends[0].qp.state is QpState.ERROR
    assert pair.ends[0].qp.ev_counters().timed_out[:8].sum() == 0


def test_the_same_inputs_give_the_same_bytes():
    def trace(seed):
        pair = drawn_pair(seed, sack_loss=0.1, duplication=0.1)
        pair.run(20 * 10**9)
        batches = [
            (b.psn.tobytes(), b.ev_index.tobytes(), b.flags.tobytes(), b.va.tobytes(), b.tx_timestamp)
            for end in pair.ends
            for b in end.batches
        ]
        return batches, [end.events for end in pair.ends], pair.now_ns

    for seed in range(3):
        assert trace(seed) == trace(seed)
    assert trace(0) != trace(1)


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("window_pkts", [16, 256])
def test_a_paced_queue_pair_keeps_its_rate_resent_packets_included(loss, window_pkts):
    interval_ns, packets = 50_000, 500
    config = QpConfig(
        pmtu=16, window_pkts=window_pkts, packet_interval_ns=interval_ns, ack_timeout_ns=TIMEOUT_NS, exp_cnt=25
    )
    pair = QpPair(3, config, writes=Weather(loss=loss))
    began_ns = pair.now_ns
    pair.post(0, packets * 16, 1000)
    pair.run(within_ns=10**9)
    pair.check_delivered()
    progress = pair.ends[0].qp.progress().requester
    sent = packets + progress.packets_rtx
    assert (progress.packets_rtx > 0) == (loss > 0)
    took_ns = progress.last_completed_ns - began_ns
    assert took_ns >= (sent - 1) * interval_ns
    if not loss:
        assert took_ns <= sent * interval_ns + 10 * pair.tick_ns + 2_000_000
