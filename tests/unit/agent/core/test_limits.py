"""Limits of sending: what SACKs report to congestion control, and pacing."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config import QpConfig
from agent.core.congestion.config import NsccConfig
from agent.core.congestion.interface import Feedback
from agent.core.congestion.nscc import Nscc
from agent.core.send.limits import CATCH_UP_NS, Pacer, SendWindow
from agent.wire.constants import EcnVerdict
from tests.unit.agent.core.qp_pair import QpPair
from tests.unit.agent.core.test_requester import sacks_of


@dataclass
class Sacks:
    """The columns that are looked at, (r,) each."""

    m: np.ndarray
    rcvd_bytes: np.ndarray
    rcv_cwnd_pen: np.ndarray
    restore_cwnd: np.ndarray

    def __len__(self):
        return len(self.m)


class Control:
    """Remembers what it was told."""

    def __init__(self):
        self.told: list[Feedback] = []

    def on_sacks(self, feedback, now_ns):
        self.told.append(feedback)


def told_of(verdicts, rcvd=None, penalties=None):
    control = Control()
    count = len(verdicts)
    cols = Sacks(
        m=np.array(verdicts, np.uint8),
        rcvd_bytes=np.array(rcvd or range(1, count + 1), np.uint32),
        rcv_cwnd_pen=np.array(penalties or [0] * count, np.uint8),
        restore_cwnd=np.zeros(count, np.bool_),
    )
    SendWindow(control, 64).on_sacks(SimpleNamespace(cols=cols), None, 5)
    (feedback,) = control.told
    return feedback


@pytest.mark.parametrize(
    ("verdicts", "marked"),
    [
        ([EcnVerdict.NONE, EcnVerdict.NONE], 0),
        ([EcnVerdict.SKIP_ONCE, EcnVerdict.NONE, EcnVerdict.SKIP_ONCE], 2),
        ([EcnVerdict.ALWAYS_SKIP, EcnVerdict.NONE], 0),
    ],
)
def test_only_skip_once_means_congestion(verdicts, marked):
    """ALWAYS_SKIP forbids an EV for whatever reason (MRC Table 7-14)."""
    feedback = told_of(verdicts)
    assert (feedback.marked, feedback.sacks) == (marked, len(verdicts))


def test_the_newest_sack_counts_whatever_overtook_it():
    feedback = told_of([EcnVerdict.NONE] * 3, rcvd=[7, 9, 8], penalties=[1, 64, 3])
    assert (feedback.newly_received_bytes, feedback.penalty) == (9 * 256, 64)


def test_a_byte_clock_counts_no_more_than_was_sent():
    control = SimpleNamespace(on_sent=lambda total: None)
    window = SendWindow(control, 64)
    window.on_sent(np.arange(4), np.full(4, 168, np.uint32))  # 256 nominal bytes each
    assert window.possible(np.array([0, 4, 5, 0x3FFFFF, 0x800000, 0xFFFFFF], np.uint32)).tolist() == [
        True, True, False, False, True, True,
    ]  # fmt: skip
    window.on_sent(np.arange(2), np.full(2, 168, np.uint32), again=1)
    assert window.possible(np.array([5, 6], np.uint32)).tolist() == [True, False], "resends are counted once"


def test_a_sack_that_counts_bytes_never_sent_opens_no_window():
    pair = QpPair(3, QpConfig(pmtu=256, window_pkts=64), control=lambda: Nscc(NsccConfig(base_rtt_ns=100_000), 344, 2))
    pair.post(0, 60_000, 60_000)
    for _ in range(3):
        pair.step()
    sender = pair.ends[0].qp
    told = sender._congestion.in_flight_bytes
    assert told > 0
    forged = sacks_of({0}, rtx=False)
    forged = replace(
        forged, cack_psn=np.array([sender.start_psn], np.uint32), rcvd_bytes=np.array([0x3FFFFF], np.uint32)
    )
    sender.receive_sacks(forged, pair.now_ns)
    assert sender._congestion.in_flight_bytes == told
    assert sender.progress().requester.sacks_rejected == 1
    pair.run(10**9)
    pair.check_delivered()


INTERVAL_NS = 1_000


def sent_by(pacer, times_ns, limit=1 << 20):
    """Packets sent if all that are due are sent at these times, by time."""
    sent = []
    for now_ns in times_ns:
        count = pacer.room(limit, now_ns)
        if count:
            pacer.on_sent(count, now_ns)
        sent.append(count)
    return sent


def test_one_packet_to_begin_with_and_then_one_an_interval():
    pacer = Pacer(INTERVAL_NS)
    assert pacer.due_ns is None
    assert sent_by(pacer, [5_000, 5_999, 6_000, 6_000, 9_500]) == [1, 0, 1, 0, 3]
    assert pacer.due_ns == 10_000


def test_what_is_not_sent_when_due_is_made_up_for_but_not_for_ever():
    pacer = Pacer(INTERVAL_NS)
    assert sent_by(pacer, [0, CATCH_UP_NS]) == [1, CATCH_UP_NS // INTERVAL_NS]
    assert sent_by(pacer, [10 * CATCH_UP_NS]) == [CATCH_UP_NS // INTERVAL_NS + 1]


def test_no_more_than_the_limit():
    pacer = Pacer(INTERVAL_NS)
    assert sent_by(pacer, [0], limit=0) == [0]
    pacer.on_sent(1, 0)
    assert pacer.room(3, 100_000) == 3


@given(st.lists(st.integers(0, CATCH_UP_NS), min_size=1, max_size=50), st.integers(1, 10**7))
def test_never_faster_than_asked_and_never_slower_while_asked_often_enough(gaps, interval_ns):
    pacer, now_ns, total = Pacer(interval_ns), 1_000_000_007, 0
    start_ns = now_ns
    for gap in [0, *gaps]:
        now_ns += gap
        total += sum(sent_by(pacer, [now_ns], limit=1 << 62))
        assert total == 1 + (now_ns - start_ns) // interval_ns
