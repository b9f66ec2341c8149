"""What a requester tells congestion control of SACKs: which of them say congestion, and the byte clock."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from agent.core.congestion.base import Feedback
from agent.core.send_window import SendWindow
from agent.wire.constants import EcnVerdict


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
