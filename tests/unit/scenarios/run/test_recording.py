"""What a run leaves: its records as published, and what remains of one that does not get to its summary."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from agent.base.moment import Moment
from agent.core import events as core
from agent.core.config import EvConfig, LossPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.ev.state import EvSignal, EvState
from agent.host.control import requests as rq
from agent.host.records.event_log import EventDetail
from agent.host.records.event_log import EventLog as AgentLog
from agent.io.host_runtime import QpEvent
from agent.io.memory_fabric import PathRule
from agent.wire.constants import NackReason
from results.files.event_log import EventLog, Fields, read_records, stamped
from results.files.run_dir import RunDir
from scenarios.file.model import Scenario
from scenarios.file.plan import Flow, plan_of
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Checked, FaultState
from scenarios.run.collect import Recorded
from scenarios.run.disk_errors import Unwritten
from scenarios.run.recording import Unfinished, collect_records, repeating_of
from scenarios.workload.collectives import CollectiveOutcome
from scenarios.workload.traffic import OpenFlow, WorkerCounts
from tests.support.run_schemas import events_of, problems_in
from tests.unit.agent.conformance.agents import trimmer
from tests.unit.agent.host.test_commands import Worker


def unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unfinished:
    (tmp_path / "lab").mkdir()
    monkeypatch.setattr(LabDir, "path", tmp_path / "lab")
    labdir = LabDir("unit")
    for file in (labdir.truth, labdir.detect, labdir.worker_events(0)):
        with EventLog(file) as log:
            log.append(stamped("OLD", "x", {"link": "a", "fault": "drop"}) | {"mono_ns": 1})
            log.append(stamped("NEW", "x", {"link": "a", "fault": "drop"}) | {"mono_ns": 20})
    folder = RunDir(tmp_path / "run")
    folder.path.mkdir()
    order: Any = SimpleNamespace(labdir=labdir)
    plan: Any = SimpleNamespace(scenario=SimpleNamespace(seed=7))
    (labdir.path / "worker0.log").write_text("why it died")
    (labdir.path / "worker1.log").touch()
    lab: Any = SimpleNamespace(workers=(None,))
    notes: list[str] = []
    listener: Any = SimpleNamespace(note=notes.append, notes=notes)
    return Unfinished(order, plan, folder, lab, Moment(0, 10), listener)


def test_an_interrupted_run_keeps_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    run.has_begun = True
    with pytest.raises(KeyboardInterrupt), run:
        raise KeyboardInterrupt
    for file in (run.folder.truth, run.folder.detect, run.folder.agent):
        assert [(record["event"], record["run"], record["seed"]) for record in read_records(file)] == [
            ("NEW", "run", 7)
        ]
    assert not run.folder.summary.exists()
    assert cast("Any", run.listener).notes == [f"what was recorded until then: {run.folder.path}"]


def test_the_logs_of_processes_are_kept_where_they_say_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unfinished(tmp_path, monkeypatch)
    run.has_begun = True
    with pytest.raises(KeyboardInterrupt), run:
        raise KeyboardInterrupt
    assert {log.name: log.read_text() for log in run.folder.logs.iterdir()} == {"worker0.log": "why it died"}


def test_a_refused_run_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    with pytest.raises(KeyError), run:
        raise KeyError
    assert not run.folder.path.exists()


def test_a_finished_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished(tmp_path, monkeypatch)
    with run:
        run.has_begun = True
    assert list(run.folder.path.iterdir()) == []


EVS = np.array([0xC0001000, 0xC0001001], np.uint32)
RARE: tuple[core.Event, ...] = (
    core.QpStateChanged(1, core.QpState.RTR, core.QpState.RTS),
    core.PacketsTimedOut(1, (0,), (1,), 1),
    *(core.PacketsNacked(1, (0, 1), (2, 1), reason) for reason in NackReason),
    core.EvStatesChanged(1, (0, 1), EvState.ASSUMED_BAD, EvSignal.LOST, sent=(4, 5)),
    core.EvStatesChanged(1, (0,), EvState.ASSUMED_BAD, EvSignal.LOST, 1, (4,)),
    core.EvReplaced(1, 0, 0xC0001000, 0xC0001002),
    core.PortsChanged(1, core.PortOwner.PEER, (0,), (1,)),
    core.QpFailed(1, core.QpErrorReason.ASKED, 3),
    core.PlaneLossy(1, 0, 40, 1000, 2, 1000, True),
    core.PlaneTried(1, 0),
)
"""What agents report, one of each."""
RARE_QPN = 0xFFF


def traffic(log: AgentLog) -> tuple[list[tuple[int, dict[str, Any]]], WorkerCounts]:
    """Two writes of one worker, below a leaf and across over a path that loses, with all that is told; its counters."""
    worker = Worker(PathRule(plane=1, spine=3, source=0, loss=0.2), PathRule(alter=trimmer(0.05, 1)))
    log.choose(EventDetail.DETAIL, worker.commands.engine.hosts.values())
    settings = {"ev": EvConfig(LossPolicy.PAPER, port_mask=True, tail_probe_ns=50_000, reverse_probe_ns=100_000)}
    settings |= {"nscc": NsccConfig(base_rtt_ns=100_000, port_bps=10**10), "transport_ack": True, "trimming": True}
    writes = [(target, worker.write(0, target, 400_000, **settings)) for target in (1, 2)]
    for turn in range(60):
        if turn == 30:
            worker.ask(rq.PortState(0, 1, False))
        worker.run(100)
        log.add(worker.commands.engine.drain_events())
        log.observe(worker.commands.engine.hosts.values(), worker.fabric.now_ns)
    log.add(QpEvent(0, RARE_QPN, EVS, event, 2) for event in RARE)
    log.flush(worker.fabric.now_ns)
    return writes, msgspec.convert(worker.ask(rq.Counters()), WorkerCounts)


def collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """The records of a run with two hosts below each leaf and all events, as its folder has them."""
    monkeypatch.setattr(LabDir, "path", tmp_path / "lab")
    (tmp_path / "lab").mkdir()
    labdir, folder = LabDir("unit"), RunDir(tmp_path / "20260304T050607Z-x-7")
    folder.path.mkdir()
    with AgentLog(labdir.worker_events(0)) as log:
        writes, counts = traffic(log)
    flows = [
        OpenFlow(Flow(0, target, 1, 1), 0, rq.QpName(0, write["qpn"]), rq.QpName(target, write["peer_qpn"]))
        for target, write in writes
    ]
    fault = FaultState("p0:leaf0>spine0", "random-drop", 0.01, 0.01, "ebpf", "hand", "2026-03-04T05:06:07Z", 10, 1, 1)
    readings: list[Any] = [SimpleNamespace(workers=(counts,), faults=faults, gone=()) for faults in ((), (fault,))]
    before, after = readings
    recorded = Recorded(tuple(flows), (), (), CollectiveOutcome(), (), before, after, (), None, Checked(0, ()))
    order: Any = SimpleNamespace(labdir=labdir)
    plan: Any = SimpleNamespace(scenario=SimpleNamespace(seed=7))
    lab: Any = SimpleNamespace(workers=(None,))
    unwritten = Unwritten()
    collect_records(order, plan, folder, lab, recorded, Moment(0, 0), unwritten)
    assert unwritten == Unwritten()
    return folder


def test_all_that_agents_tell_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = collected(tmp_path, monkeypatch)
    records = list(read_records(folder.agent))
    assert events_of("agent.jsonl") - {record["event"] for record in records} == {"EVENTS_CUT"}, "of a log cut short"
    assert problems_in("agent.jsonl", records) == []
    spines = [{row["spine"] for row in each["evs"]} for each in records if each["event"] == "EV_COUNTERS"]
    assert spines == [{None}, {0, 1, 2, 3}], "a path between hosts of one leaf has no spine"


def test_both_ends_of_a_flow_are_told_in_all_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(record: Fields) -> tuple[str, int, str, int]:
        return record["node"], record["qpn"], f"h{record['peer']}", record["peer_qpn"]

    records = [each for each in read_records(collected(tmp_path, monkeypatch).agent) if each.get("qpn") != RARE_QPN]
    opened = {ends(each) for each in records if each["event"] == "QP_STATE"}
    sent = {ends(each) for each in records if each["event"] == "EV_COUNTERS"}
    assert {(node, peer) for node, _, peer, _ in sent} == {("h0", "h1"), ("h0", "h2")}
    assert sent <= opened
    arrived = {ends(each) for each in records if each["event"] == "REORDERING"}
    assert {(peer, peer_qpn, node, qpn) for node, qpn, peer, peer_qpn in arrived} == sent


def test_what_faults_did_is_told_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = read_records(collected(tmp_path, monkeypatch).truth)
    assert (record["event"], record["run"], record["seed"]) == ("FAULT_COUNT", "20260304T050607Z-x-7", 7)
    assert problems_in("truth.jsonl", [record]) == []


ORDER = "the order in which each queue pair uses its entropy values"
LINK = "p0:leaf3>spine5"


def told(attached: bool = False, **parts: Any) -> tuple[str, str]:
    """What repeats and what varies, as text."""
    values = {"version": 1, "name": "x", "workloads": ({"strides": (1, 3), "packets": 4096},)}
    found = repeating_of(plan_of(Scenario.model_validate(values | parts)), attached)
    return "\n".join(found.repeats), "\n".join(found.varies)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"faults": ({"link": LINK, "drop": "1%"},)},
        {"faults": ({"link": LINK, "down": True},)},
        {"transport": {"spray": "random", "congestion": {"algorithm": "nscc"}}},
        {"transport": {"ev": {"active": 8}}},
    ],
)
def test_paths_of_packets_repeat_where_no_entropy_value_leaves(parts: dict[str, Any]) -> None:
    repeats, varies = told(**parts)
    assert ORDER in repeats
    assert "hence every N and λ" in repeats
    assert "path, hence" not in varies


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"transport": {"ev": {"loss_policy": "paper"}}}, "loss_policy paper"),
        ({"transport": {"ev": {"loss_policy": "threshold"}}}, "loss_policy threshold"),
        ({"faults": ({"target": "h3:plane1", "flap": "period=2s"},)}, "a host's port is shut (flap)"),
        ({"faults": ({"target": "p0-leaf2", "reboot": "300ms"},)}, "a host's port is shut (reboot)"),
        ({"detector": {"act": True}}, "detector.act"),
    ],
)
def test_where_they_leave_and_return_it_is_said_to_vary_and_why(parts: dict[str, Any], why: str) -> None:
    repeats, varies = told(**parts)
    assert ORDER not in repeats
    assert "λ" not in repeats
    assert "payload bytes" in repeats
    assert why in varies


def test_on_a_lab_that_is_up_others_may_interfere_and_its_seed_chooses() -> None:
    repeats, _ = told(attached=True)
    assert repeats.count("unless links are denied or ports shut by hand") == 2
    repeats, varies = told(attached=True, transport={"ev": {"active": 8}})
    assert ORDER not in repeats
    assert "chosen by the lab's seed" in varies


def test_with_one_flow_at_a_time_which_are_measured_varies() -> None:
    assert "which flows are measured" in told(detector={"select": "one"})[1]
    assert "which flows are measured" not in told()[1]


def test_only_drops_without_a_seed_are_said_to_vary() -> None:
    repeats, varies = told()
    assert [line for line in varies.splitlines() if "drop" in line] == [
        "which packets a random drop takes whose fault_seed is null (netem before Linux 6.7)"
    ]
    assert "fault_seed" in repeats
