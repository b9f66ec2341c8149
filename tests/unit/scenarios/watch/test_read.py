"""A lab read from outside, over real sockets: who answers, who does not, and how the lab's end is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.host.control import requests as ask
from agent.host.control.server import ControlServer
from results.files.event_log import EventLog
from scenarios.errors import LabStateError
from scenarios.lab import protocol
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.serve import listening, serve
from scenarios.lab.protocol import Answer
from scenarios.watch import read as watch_read
from scenarios.watch.read import LabReader, ended_in_order
from tests.unit.scenarios.watch_readings import BAD, FABRIC, fault, localize, status

QP = {"host": 0, "qpn": 1, "peer": 1, "state": "RTS", "posted_bytes": 9, "acked_bytes": 4, "packets_rtx": 2, "more": 1}
EV = {"host": 0, "qpn": 1, "ev": 5, "plane": 1, "spine": 1, "state": "GOOD", "tx_first": 7, "tx_rtx": 1, "lost": 2,
      "timed_out": 0, "more": 1}  # fmt: skip
TWO_WORKERS = msgspec.structs.replace(status(epoch=1, faults=(fault(10, 2),)), workers=2)


def answer(request: protocol.Request, _client: int) -> Answer:
    return Answer(result=msgspec.Raw(msgspec.json.encode(TWO_WORKERS)))


def told(request: ask.Request, _client: int) -> dict[str, Any]:
    return {"evs": [EV]} if isinstance(request, ask.Counters) else {"qps": [QP]}


@contextmanager
def worker(labdir: LabDir, index: int) -> Iterator[None]:
    """An engine worker that only answers."""
    stop = threading.Event()

    def run(server: ControlServer) -> None:
        while not stop.is_set():
            server.wait(0.01)
            server.poll()

    with ControlServer(labdir.worker_socket(index), told, lambda _: None) as server:
        thread = threading.Thread(target=run, args=(server,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def lab(tmp_path: Path, workers: int) -> Iterator[LabDir]:
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    with listening(labdir.socket) as listener:
        threading.Thread(target=serve, args=(listener, answer, None), daemon=True).start()
        if workers:
            with worker(labdir, 0):
                yield labdir
        else:
            yield labdir


def test_a_reading_holds_what_owner_worker_and_file_say(tmp_path: Path) -> None:
    with lab(tmp_path, 1) as labdir, LabReader(labdir) as reader:
        first = reader.read()
        with EventLog(labdir.detect) as log:
            log.append(localize([BAD]))
        second = reader.read()
        assert reader.fabric.spec == FABRIC.spec
        assert (first.status, first.records, len(second.records)) == (TWO_WORKERS, (), 1)
        assert [(qp.peer, qp.acked_bytes, qp.packets_rtx) for qp in first.qps] == [(1, 4, 2)]
        assert [(ev.spine, ev.tx_first, ev.lost) for ev in first.evs] == [(1, 7, 2)]
        assert second.mono_ns > first.mono_ns


def test_a_worker_that_is_gone_is_told_in_each_reading_and_stops_nothing(tmp_path: Path) -> None:
    with lab(tmp_path, 1) as labdir:
        reader = LabReader(labdir)
        with reader:
            assert reader.read().silent == ("worker1",)
    (tmp_path / "other").mkdir()
    with lab(tmp_path / "other", 0) as labdir, LabReader(labdir) as reader:
        assert reader.read().silent == ("worker0", "worker1")


def test_no_lab_is_said_to_be_not_up(tmp_path: Path) -> None:
    with pytest.raises(LabStateError, match="is not up"), LabReader(LabDir("x", tmp_path)):
        pass


def test_a_lab_that_is_taken_down_ends_in_order_and_one_whose_owner_dies_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labdir = LabDir("x", tmp_path)
    assert ended_in_order(labdir)
    labdir.path.mkdir()
    with pytest.raises(LabStateError, match="no living owner"):
        ended_in_order(labdir)
    monkeypatch.setattr(watch_read, "_GOING_DOWN_S", 0.2)
    monkeypatch.setattr(watch_read, "owner_of", lambda _: status().owner)
    assert not ended_in_order(labdir)
