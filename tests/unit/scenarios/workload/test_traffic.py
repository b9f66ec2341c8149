"""The flows of a run opened on workers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from agent.host import requests as rq
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.workload.traffic import AT_ONCE, FlowProgress, Traffic


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
