"""The agent's event records: their shape, and the summing of crowds."""

import json

import numpy as np
from msgspec.structs import replace

from agent.core import events as core
from agent.core.congestion.config import NsccConfig
from agent.core.congestion.nscc import Nscc
from agent.core.ev.state import EvSignal, EvState
from agent.core.events import QpErrorReason, QpState
from agent.host.records.event_log import EventDetail, EventLog
from agent.io.host_runtime import QpEvent
from agent.io.memory_fabric import PathRule
from tests.support.run_schemas import problems_in
from tests.unit.agent.conformance.agents import PAPER, step_for
from tests.unit.agent.io.memory_lab import Flow, build

NSCC = NsccConfig(base_rtt_ns=100_000, port_bps=10_000_000_000)
EVS = np.array([0xC0001000, 0xC0001001, 0xC0000102, 0xC0001205], np.uint32)


def logged(tmp_path, *events) -> list[dict]:
    path = tmp_path / "agent.jsonl"
    with EventLog(path) as log:
        log.add(QpEvent(2, 0x2001, EVS, event, 4) for event in events)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_says_when_who_and_what(tmp_path):
    (record,) = logged(tmp_path, core.QpStateChanged(5_000_000, QpState.RTR, QpState.RTS, 0x4001))
    assert record.pop("ts").endswith("Z")
    expected = {
        "mono_ns": 5_000_000,
        "v": 1,
        "node": "h2",
        "event": "QP_STATE",
        "qpn": 0x2001,
        "old": "RTR",
        "new": "RTS",
        "peer": 4,
        "peer_qpn": 0x4001,
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


def test_a_loss_tells_the_path_of_each_ev(tmp_path):
    (loss,) = logged(tmp_path, core.PacketsLost(1, (0, 2, 1), (2, 1, 1)))
    assert [*loss["evs"]] == ["0xc0001000", "0xc0000102", "0xc0001001"]
    assert (loss["planes"], loss["spines"]) == ([0, 1, 0], [0, None, 1])


def test_evs_that_change_tell_their_paths(tmp_path):
    left = core.EvStatesChanged(1, (1,), EvState.ASSUMED_BAD, EvSignal.LOST, 3, (4,))
    state, replaced = logged(tmp_path, left, core.EvReplaced(1, 0, 0xC0001001, 0xC0001205))
    assert (state["planes"], state["spines"]) == ([0], [1])
    assert (state["replaced_by"], state["replaced_by_plane"], state["replaced_by_spine"]) == ("0xc0001205", 2, 5)
    assert (replaced["old_plane"], replaced["old_spine"], replaced["new_plane"], replaced["new_spine"]) == (0, 1, 2, 5)


def test_completions_and_failures_are_told(tmp_path):
    events = [core.MessagesCompleted(1, 0, 3, 900), core.QpFailed(2, QpErrorReason.RETRY_EXCEEDED, 4)]
    complete, failed = logged(tmp_path, *events)
    assert (complete["event"], complete["messages"], complete["bytes"]) == ("MESSAGE_COMPLETE", 3, 900)
    assert (failed["event"], failed["reason"], failed["flushed"]) == ("QP_ERROR", "retry counter exceeded", 4)


def test_a_lossy_plane_is_reported_with_its_counts(tmp_path):
    events = [core.PlaneLossy(5, 1, 46, 4046, 1, 4001, left=True), core.PlaneTried(9, 1)]
    lossy, tried = logged(tmp_path, *events)
    counts = {"plane": 1, "lost": 46, "packets": 4046, "others_lost": 1, "others_packets": 4001, "left": True}
    assert {name: lossy[name] for name in ("event", *counts)} == {"event": "PLANE_LOSSY", **counts}
    assert (tried["event"], tried["plane"]) == ("PLANE_TRIED", 1)
    assert problems_in("agent.jsonl", [lossy, tried]) == []


def test_ports_are_told(tmp_path):
    (record,) = logged(tmp_path, core.PortsChanged(1, core.PortOwner.PEER, (0, 2), (1,)))
    assert (record["event"], record["side"], record["up"], record["down"]) == ("PORT", "peer", [0, 2], [1])


def kept(tmp_path, count: int, most_bytes: int) -> tuple[list[dict], int]:
    """What two files hold after so many completions, flushed one by one, and how many records had to go."""
    path, older = tmp_path / "agent.jsonl", tmp_path / "older.jsonl"
    with EventLog(path, older, most_bytes) as log:
        for number in range(count):
            log.add([QpEvent(2, 0x2001, EVS, core.MessagesCompleted(number, number, 1, 9), 4)])
            log.flush(number)
            assert sum(file.stat().st_size for file in (path, older) if file.exists()) <= most_bytes + 300
    lines = [line for file in (older, path) if file.exists() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines], log.cut


def test_a_short_log_is_kept_whole(tmp_path):
    records, cut = kept(tmp_path, 20, 1 << 20)
    assert ([record["first_wr_id"] for record in records], cut) == (list(range(20)), 0)


def test_of_a_long_log_the_latest_is_kept_and_what_is_missing_is_told(tmp_path):
    records, cut = kept(tmp_path, 1000, 20_000)
    told = [record["first_wr_id"] for record in records if record["event"] == "MESSAGE_COMPLETE"]
    assert told == list(range(1000 - len(told), 1000))
    assert 20_000 / 300 < len(told) < 20_000 / 100
    cuts = [record for record in records if record["event"] == "EVENTS_CUT"]
    assert cut > 0
    assert 1 <= len(cuts) <= 2
    assert all(record["records"] > 0 and record["node"] == "agent" for record in cuts)
    assert problems_in("agent.jsonl", records) == []


def test_what_had_to_go_is_counted_to_the_record(tmp_path):
    records, cut = kept(tmp_path, 1000, 20_000)
    written_cuts = cut + len(records) - 1000
    assert 0 < written_cuts < 40, "EVENTS_CUT records themselves count, one a time"


def test_the_limit_can_be_set_while_it_runs(tmp_path):
    path = tmp_path / "agent.jsonl"
    with EventLog(path) as log:
        log.choose(EventDetail.DEFAULT, [], 2000)
        for number in range(200):
            log.add([QpEvent(2, 0x2001, EVS, core.MessagesCompleted(number, number, 1, 9), 4)])
            log.flush(number)
    assert log.cut > 100
    assert path.stat().st_size < 2000


def observed(tmp_path, detail: EventDetail, **config) -> tuple[list[dict], Flow]:
    """What two hosts' log holds after a flow that lost packets, was looked at often, and lost a port."""
    lab = build(rules=(PathRule(source=0, spine=1, loss=0.05),))
    path = tmp_path / "agent.jsonl"
    with EventLog(path) as log:
        log.choose(detail, lab.engine.hosts.values())
        flow = lab.flow(0, 1, 2000 * 256, message_bytes=25_600, **config)
        while not flow.is_complete():
            lab.engine.step(lab.fabric.now_ns)
            log.add(lab.engine.drain_events())
            log.observe(lab.engine.hosts.values(), lab.fabric.now_ns)
            lab.fabric.advance(lab.fabric.now_ns + 20_000)
        lab.engine.hosts[1].hold_port(1, False, lab.fabric.now_ns)
        step_for(lab, 10_000_000)
        log.add(lab.events)
        log.observe(lab.engine.hosts.values(), lab.fabric.now_ns)
    return [json.loads(line) for line in path.read_text().splitlines()], flow


def total(records, event, field="packets"):
    return sum(record[field] for record in records if record["event"] == event)


def test_off_writes_nothing(tmp_path):
    assert observed(tmp_path, EventDetail.OFF)[0] == []


def test_default_tells_what_changes_and_not_what_passes(tmp_path):
    records, flow = observed(tmp_path, EventDetail.DEFAULT)
    assert {record["event"] for record in records} == {"QP_STATE", "MESSAGE_COMPLETE", "LOSS", "PORT"}
    assert total(records, "LOSS") == flow.source.qp.progress().requester.lost
    told = {(record["node"], record["side"]) for record in records if record["event"] == "PORT"}
    assert told == {("h1", "local"), ("h0", "peer")}


def test_detail_adds_up_to_the_counters(tmp_path):
    ev = replace(PAPER, reverse_probe_ns=100_000)
    records, flow = observed(tmp_path, EventDetail.DETAIL, ev=ev, control=lambda: Nscc(NSCC, 256 + 92, 2))
    sent, received = flow.source.qp.progress().requester, flow.target.qp.progress().responder
    assert (total(records, "WRITE_TX"), total(records, "WRITE_TX", "resends")) == (2000, sent.packets_rtx)
    assert (total(records, "WRITE_RX"), total(records, "WRITE_RX", "bytes")) == (2000, 2000 * 256)
    assert total(records, "SACK_TX") == received.sacks > 0
    assert total(records, "SACK_RX") == sent.sacks
    assert total(records, "ACK_TX") == received.acks == total(records, "ACK_RX") > 0
    assert total(records, "PROBE_TX") == sent.probes > 0
    probed = [record["evs"] for record in records if record["event"] == "PROBE_TX"]
    assert sum(sum(evs.values()) for evs in probed) == sent.probes
    assert total(records, "RTT", "samples") == flow.source.qp.progress().rtt.samples > 0
    assert total(records, "PORT_STATUS_TX") >= 3
    assert [record["cwnd_bytes"] for record in records if record["event"] == "CWND"][-1] > 0
    assert len(records) < sent.sacks * 4 < 2000
