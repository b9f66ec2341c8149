"""The flows of a run opened on workers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from agent.host.control import requests as rq
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.file.qp_settings import qp_settings_of
from scenarios.workload.traffic import AT_ONCE, FlowProgress, Traffic
from tests.unit.agent.host.programs.job_in_memory import Lab


class Worker:
    """Numbers what it is asked for, host by host, as an engine worker does."""

    def __init__(self) -> None:
        self.calls = 0
        self.regions, self.qps = Counter[int](), Counter[int]()
        self.connected: dict[tuple[int, int], tuple[int, int]] = {}

    def ask(self, request: rq.Request) -> dict[str, Any]:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[rq.Request]) -> list[dict[str, Any]]:
        self.calls += 1
        return [self._reply(request) for request in requests]

    def _reply(self, request: rq.Request) -> dict[str, Any]:
        match request:
            case rq.RegisterRegion():
                self.regions[request.host] += 1
                key = 1000 * request.host + self.regions[request.host]
                return {"rkey": key, "va": key << 20}
            case rq.CreateQp():
                self.qps[request.host] += 1
                return {"qpn": 0x4000 + self.qps[request.host] - 1, "start_psn": request.host}
            case rq.ConnectQp():
                assert (request.host, request.qpn) not in self.connected
                self.connected[request.host, request.qpn] = (request.peer.host, request.peer.qpn)
        return {}


def test_flows_are_opened_many_at_once_and_each_end_knows_the_other() -> None:
    values = {
        "version": 1, "name": "x", "topology": {"planes": 1, "leaves": 3, "spines": 1},
        "workloads": ({"type": "write", "strides": (1, 2), "packets": 4, "qps": 9},),
    }  # fmt: skip
    plan, workers = plan_of(Scenario.model_validate(values)), [Worker(), Worker()]
    traffic, told = Traffic(workers), list[tuple[int, int]]()  # type: ignore[arg-type]
    traffic.open(plan, lambda *counts: told.append(counts))
    assert [item.flow for item in traffic.flows] == list(plan.flows)
    assert told == [(start, 54) for start in range(0, 54, AT_ONCE)]
    connected = workers[0].connected | workers[1].connected
    for item in traffic.flows:
        one, two = (item.source.host, item.source.qpn), (item.destination.host, item.destination.qpn)
        assert (connected[one], connected[two]) == (two, one)
        assert (item.source.host, item.destination.host) == (item.flow.source, item.flow.destination)
        assert item.source.va == item.source.rkey << 20
        assert item.source.rkey // 1000 == item.source.host
    assert len(connected) == 2 * 54
    assert len({(end.host, end.rkey) for item in traffic.flows for end in (item.source, item.destination)}) == 2 * 54
    assert max(worker.calls for worker in workers) < 20


def test_a_flow_ends_when_its_writes_are_completed_not_when_its_bytes_are_acknowledged() -> None:
    waits = FlowProgress(0, 1, "RTS", 4096, 4096, 1, 0, 0, 0, started_ns=5, finished_ns=None)
    assert not waits.ended
    assert msgspec.structs.replace(waits, finished_ns=9).ended
    assert msgspec.structs.replace(waits, state="ERROR").ended


def test_what_rounds_will_send_is_known_before_they_are_posted_and_barriers_are_told_apart() -> None:
    values = {
        "version": 1, "name": "x", "topology": {"planes": 1, "leaves": 4, "spines": 1},
        "transport": {"pmtu": 256, "window_pkts": 128, "ack_timeout_ms": 5},
        "workloads": ({"type": "all-reduce", "bytes": 40_000, "iterations": 2, "qps": 2},),
    }  # fmt: skip
    plan, lab = plan_of(Scenario.model_validate(values)), Lab()
    traffic = Traffic([lab])  # type: ignore[list-item]
    traffic.jobs.open(plan.collectives, qp_settings_of(plan.scenario.transport, 1), 1)
    traffic.jobs.start(1, ())
    posted = sum(flow.posted_bytes for flow in traffic.progress())
    assert posted < traffic.payload_bytes == sum(each.bytes for each in plan.collectives[0].sendings(256))
    while not traffic.jobs.ended():
        lab.turn()
    sent = traffic.progress()
    assert [flow.acked_bytes for flow in sent] == [item.flow.payload_bytes for item in traffic.flows]
    data = Counter((item.flow.source, item.flow.destination) for item in traffic.flows if not item.is_barrier)
    assert data == {(host, (host + 1) % 4): 2 for host in range(4)}
    assert {flow.acked_bytes for item, flow in zip(traffic.flows, sent, strict=True) if item.is_barrier} == {5}
    traffic.jobs.close()
