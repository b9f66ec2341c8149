"""The agent's event records: their shape, and the summing of crowds."""

import json

import numpy as np

from agent.core import events as core
from agent.core.events import QpErrorReason, QpState
from agent.host.event_log import EventLog
from agent.io.runtime import QpEvent

EVS = np.array([0xC0001000, 0xC0001001], np.uint32)


def logged(tmp_path, *events) -> list[dict]:
    path = tmp_path / "agent.jsonl"
    with EventLog(path) as log:
        log.add(QpEvent(2, 0x2001, EVS, event) for event in events)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_says_when_who_and_what(tmp_path):
    (record,) = logged(tmp_path, core.QpStateChanged(5_000_000, QpState.RTR, QpState.RTS))
    assert record.pop("ts").endswith("Z")
    expected = {
        "mono_ns": 5_000_000,
        "v": 1,
        "node": "h2",
        "event": "QP_STATE",
        "qpn": 0x2001,
        "old": "RTR",
        "new": "RTS",
    }
    assert record == expected


def test_losses_are_summed_by_ev(tmp_path):
    events = [
        core.PacketsLost(1, (0, 1), (2, 1)),
        core.PacketsLost(2, (1,), (4,)),
        core.PacketsTimedOut(3, (0,), (1,), 1),
    ]
    loss, timeout = logged(tmp_path, *events)
    assert (loss["event"], loss["packets"], loss["evs"]) == ("LOSS", 7, {"0xc0001000": 2, "0xc0001001": 5})
    assert (timeout["event"], timeout["evs"]) == ("ACK_TIMEOUT", {"0xc0001000": 1})


def test_completions_and_failures_are_told(tmp_path):
    events = [core.MessagesCompleted(1, 0, 3, 900), core.QpFailed(2, QpErrorReason.RETRY_EXCEEDED, 4)]
    complete, failed = logged(tmp_path, *events)
    assert (complete["event"], complete["messages"], complete["bytes"]) == ("MESSAGE_COMPLETE", 3, 900)
    assert (failed["event"], failed["reason"], failed["flushed"]) == ("QP_ERROR", "retry counter exceeded", 4)
