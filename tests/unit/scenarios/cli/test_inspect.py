"""`inspect HOST`: what a worker tells of a host's queue pairs, as tables and as JSON."""

import json
from typing import Any

import pytest

from agent.host.control import requests as ask
from scenarios.cli.lab import inspect
from scenarios.cli.output import Output
from scenarios.errors import UsageError
from scenarios.lab.lab_dir import LabDir
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(planes=1, leaves=2, spines=2))
LABDIR = LabDir("unittest0")
EV = {
    "host": 1, "qpn": 0x1001, "ev": 0xC0001000, "plane": 0, "spine": 1, "state": "ASSUMED_BAD", "active": False,
    "reverse": True, "tx_first": 900, "tx_rtx": 7, "acked": 893, "lost": 3, "timed_out": 1, "trimmed": 2, "probes": 5,
}  # fmt: skip
QP = {
    "host": 1, "qpn": 0x1001, "peer": 0, "peer_qpn": 0x3, "state": "RTS", "window_psns": 256, "cwnd_bytes": None,
    "rtt_ns": 1_250_000,
    "in_flight_pkts": 40, "backlog_pkts": 8, "packets_tx": 900, "packets_rtx": 7, "lost": 3, "timeouts": 0,
    "received_pkts": 0, "duplicates": 0, "completed_messages": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_labdir: LabDir, _host: Any, request: ask.Request) -> dict[str, Any]:
        other = {"host": 0}
        return {"evs": [EV, EV | other]} if isinstance(request, ask.Counters) else {"qps": [QP, QP | other]}

    monkeypatch.setattr(inspect, "_ask", answer)


def test_evs_are_a_table_of_the_hosts_own(capsys: pytest.CaptureFixture[str]) -> None:
    inspect.show_evs(LABDIR, FABRIC, "h1", Output())
    head, row = capsys.readouterr().out.splitlines()
    names = "qp ev plane spine state set reverse tx_first tx_rtx acked lost timed_out trimmed probes"
    assert " ".join(head.split()) == names
    assert " ".join(row.split()) == "0x1001 0xc0001000 0 1 ASSUMED_BAD backup yes 900 7 893 3 1 2 5"


def test_qps_are_a_table_of_the_hosts_own(capsys: pytest.CaptureFixture[str]) -> None:
    inspect.show_qps(LABDIR, FABRIC, "h1", Output())
    head, row = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()).startswith("qp peer peer qp state window cwnd_bytes rtt in_flight backlog")
    assert row.split()[:10] == ["0x1001", "h0", "0x3", "RTS", "256", "off", "1.250", "ms", "40", "8"]


@pytest.mark.parametrize(("show", "row"), [(inspect.show_evs, EV), (inspect.show_qps, QP)])
def test_json_is_what_the_worker_tells(show: Any, row: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    show(LABDIR, FABRIC, "h1", Output(as_json=True))
    assert json.loads(capsys.readouterr().out) == [row]


def test_a_host_without_queue_pairs_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    inspect.show_evs(LABDIR, Fabric.of(FabricSpec(1, 4, 2)), "h3", Output())
    assert capsys.readouterr().out == "h3 has no queue pairs\n"


def test_switches_have_no_queue_pairs() -> None:
    with pytest.raises(UsageError, match="p0-leaf1 is a switch"):
        inspect.show_qps(LABDIR, FABRIC, "p0-leaf1", Output())
