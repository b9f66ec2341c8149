"""Asking engine workers from the owner: one that hangs is named, and every other client is served meanwhile."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.host.control.requests import SetDenied
from agent.io.daemon import listen_at
from scenarios.errors import OwnerFailedError, WorkerFailedError
from scenarios.lab import protocol
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner import process as owner
from scenarios.lab.owner import worker_requests
from scenarios.lab.owner.denials import Denials
from scenarios.lab.owner.serve import listening, serve
from scenarios.lab.owner.worker_requests import Pending, replies_of
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import RUNNING, ChildStatus
from testbed.model.fabric import Fabric, FabricSpec


def status(name: str) -> ChildStatus:
    return ChildStatus(name, ProcessId(123, 1), RUNNING)


@pytest.fixture
def labdir(tmp_path: Path) -> LabDir:
    made = LabDir("x", tmp_path)
    made.path.mkdir()
    return made


@pytest.fixture
def deaf(labdir: LabDir) -> Iterator[socket.socket]:
    """A worker that listens and does nothing else, as one in an endless loop."""
    with socket.socket(socket.AF_UNIX) as listener:
        listen_at(labdir.worker_socket(0), listener, 1)
        yield listener


def replies(labdir: LabDir) -> list[dict[str, Any]]:
    work = Pending(replies_of(labdir, (0,), SetDenied(()), status))
    while not work.step():
        time.sleep(0.005)
    return work.result()


def test_a_worker_that_answers_in_pieces_is_read_to_the_end_of_the_line(labdir: LabDir, deaf: socket.socket) -> None:
    def answer() -> None:
        with closing(deaf.accept()[0]) as link:
            assert link.recv(1 << 16).endswith(b"\n")
            for piece in (b'{"ok": tr', b'ue, "evs": 3}\n'):
                link.sendall(piece)
                time.sleep(0.02)

    thread = threading.Thread(target=answer)
    thread.start()
    assert replies(labdir) == [{"evs": 3}]
    thread.join()


def test_a_worker_that_hangs_is_named_however_full_its_socket_is(
    labdir: LabDir, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_requests, "WORKERS_WITHIN_S", 0.1)
    began = time.monotonic()
    for _ in range(5):
        with pytest.raises(WorkerFailedError, match=r"^worker0 \(process 123\) has not answered .* may hang$"):
            replies(labdir)
    assert time.monotonic() - began < 2


def test_a_worker_that_hangs_up_or_is_not_there_is_named(
    labdir: LabDir, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_requests, "ENDING_S", 0.05)
    deaf.close()
    told = r"^worker0 \(process 123\) does not answer: Connection refused$"
    with pytest.raises(WorkerFailedError, match=told):
        replies(labdir)


def test_a_worker_that_hangs_keeps_no_other_client_waiting(
    labdir: LabDir, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_requests, "WORKERS_WITHIN_S", 1.5)
    denials = Denials(labdir, Fabric.of(FabricSpec(2, 2, 2)), 1, status)
    lab: Any = SimpleNamespace(denials=denials, take_back=None)
    refusals: list[str] = []

    def deny() -> None:
        try:
            with Owner(labdir) as asks:
                asks.ask(protocol.Deny("p0:leaf0>spine1"), protocol.Denials)
        except OwnerFailedError as error:
            refusals.append(str(error))

    with listening(labdir.socket) as listener:
        answer = partial(owner._answer, lab)
        threading.Thread(target=serve, args=(listener, answer, None, denials), daemon=True).start()
        waits = threading.Thread(target=deny, daemon=True)
        waits.start()
        link = deaf.accept()[0]
        began = time.monotonic()
        for _ in range(20):
            with Owner(labdir) as other:
                assert other.ask(protocol.DenyShow(), protocol.Denials).denials == ()
        assert time.monotonic() - began < 1
        assert waits.is_alive()
        waits.join(5)
        link.close()
        with Owner(labdir) as ends:
            ends.ask(protocol.Shutdown(), protocol.Done)
    assert refusals == ["worker0 (process 123) has not answered for 2 s; it runs, but may hang"]
