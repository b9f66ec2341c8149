"""The owner's loop and its client, over a real socket: answers, refusals, garbage, the lease."""

import gc
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from scenarios.errors import EnvironmentLackingError, InterruptedRunError, LabStateError, OwnerFailedError, UsageError
from scenarios.lab import client, protocol
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir, owned
from scenarios.lab.owner.serve import Handle, LaterAnswer, Left, listening, serve
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import Answer, Blame, Refusal


def handle(request: protocol.Request, _client: int) -> Answer:
    if isinstance(request, protocol.FaultSet):
        return Answer(refusal=Refusal(f"no {request.target}", Blame(request.by)))
    if isinstance(request, protocol.NewEpoch):
        return Answer(result=msgspec.Raw(msgspec.json.encode(protocol.Epoch(request.measuring.copies))))
    return Answer()


@contextmanager
def serving(
    tmp_path: Path, lease: socket.socket | None = None, handling: Handle = handle, left: Left | None = None
) -> Iterator[tuple[LabDir, threading.Thread]]:
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    with listening(labdir.socket) as listener:
        thread = threading.Thread(target=serve, args=(listener, handling, lease, None, left), daemon=True)
        thread.start()
        yield labdir, thread
        thread.join(5)
        assert not thread.is_alive()


def stop(labdir: LabDir) -> None:
    with Owner(labdir) as owner:
        owner.ask(protocol.Shutdown(), protocol.Done)


def test_requests_are_answered_by_type(tmp_path: Path) -> None:
    with serving(tmp_path) as (labdir, _):
        with Owner(labdir) as owner:
            assert owner.ask(protocol.NewEpoch(protocol.Measuring("1%", 3)), protocol.Epoch).epoch == 3
            assert owner.ask(protocol.FaultShow(), protocol.Done) == protocol.Done()
        stop(labdir)


@pytest.mark.parametrize(
    ("blame", "error"),
    [
        ("usage", UsageError),
        ("environment", EnvironmentLackingError),
        ("lab_state", LabStateError),
        ("owner", OwnerFailedError),
    ],
)
def test_a_refusal_is_raised_as_what_it_is(tmp_path: Path, blame: str, error: type[Exception]) -> None:
    with serving(tmp_path) as (labdir, _):
        with Owner(labdir) as owner, pytest.raises(error, match="no p9:leaf0>spine0"):
            owner.ask(protocol.FaultSet("p9:leaf0>spine0", {"drop": "1%"}, by=blame), protocol.Faults)
        stop(labdir)


def test_clients_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    def closed_sockets() -> int:
        gc.collect()
        return sum(isinstance(each, socket.socket) and each.fileno() < 0 for each in gc.get_objects())

    with serving(tmp_path) as (labdir, _):
        before = closed_sockets()
        for _ in range(20):
            with Owner(labdir) as owner:
                owner.ask(protocol.FaultShow(), protocol.Done)
        assert closed_sockets() < before + 3
        stop(labdir)


def test_garbage_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with serving(tmp_path) as (labdir, _):
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(labdir.socket))
            rude.sendall(b'{"op": "nonsense"}\n\n\xff\xfe\n{"op":"status"')
            assert rude.recv(1 << 16).count(b"not a request") >= 1
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(str(labdir.socket))
        with Owner(labdir) as owner:
            assert owner.ask(protocol.NewEpoch(protocol.Measuring("1%", 7)), protocol.Epoch).epoch == 7
        stop(labdir)


def test_a_request_may_come_in_pieces(tmp_path: Path) -> None:
    with serving(tmp_path) as (labdir, _):
        with socket.socket(socket.AF_UNIX) as slow:
            slow.connect(str(labdir.socket))
            for piece in (b'{"op":"new_ep', b'och","measuring":{"copies":5}}', b"\n"):
                slow.sendall(piece)
            assert b'"epoch":5' in slow.recv(1 << 16)
        stop(labdir)


def test_a_client_that_is_gone_is_told_by_its_number(tmp_path: Path) -> None:
    heard, gone = [], queue.SimpleQueue[tuple[int, bool]]()

    def numbered(request: protocol.Request, client: int) -> Answer:
        heard.append(client)
        return handle(request, client)

    with serving(tmp_path, handling=numbered, left=lambda *how: gone.put(how)) as (labdir, _):
        with Owner(labdir) as stays:
            stays.ask(protocol.NewEpoch(protocol.Measuring("1%", 1)), protocol.Epoch)
            with Owner(labdir) as leaves:
                leaves.ask(protocol.NewEpoch(protocol.Measuring("1%", 2)), protocol.Epoch)
                leaves.ask(protocol.NewEpoch(protocol.Measuring("1%", 3)), protocol.Epoch)
            assert gone.get(timeout=5) == (heard[1], False) == (heard[2], False)
            assert heard[0] != heard[1]
            assert gone.empty()
        stop(labdir)


def test_a_client_that_does_not_wait_for_its_answer_is_told(tmp_path: Path) -> None:
    gone = queue.SimpleQueue[tuple[int, bool]]()
    begun, left = threading.Event(), threading.Event()

    def slow(request: protocol.Request, client: int) -> Answer:
        if isinstance(request, protocol.NewEpoch):
            begun.set()
            left.wait(5)
        return handle(request, client)

    with serving(tmp_path, handling=slow, left=lambda *how: gone.put(how)) as (labdir, _):
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect(str(labdir.socket))
            hasty.sendall(b'{"op":"new_epoch","measuring":{"copies":5}}\n')
            assert begun.wait(5)
        left.set()
        assert gone.get(timeout=5) == (1, True)
        stop(labdir)


def test_the_end_of_the_lease_ends_the_loop(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs, serving(tmp_path, theirs):
        ours.close()


def test_nobody_there_says_what_to_do(tmp_path: Path) -> None:
    labdir = LabDir("x", tmp_path)
    with pytest.raises(LabStateError, match="not up; start it with `spraylab up --lab x`"), Owner(labdir):
        pass
    (tmp_path / "other").mkdir()
    with pytest.raises(LabStateError, match=r"not up; choose one that is up with --lab \(other\)"), Owner(labdir):
        pass
    labdir.path.mkdir()
    with pytest.raises(LabStateError, match="no living owner; `spraylab down --lab x`"), Owner(labdir):
        pass


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    heard = threading.Event()

    def interrupted(_number: int, _frame: object) -> None:
        raise InterruptedRunError("interrupted")

    def slow(request: protocol.Request, client: int) -> Answer:
        if isinstance(request, protocol.Status):
            os.kill(os.getpid(), signal.SIGUSR1)
            heard.wait(5)
        return handle(request, client)

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        with serving(tmp_path, handling=slow) as (labdir, _):
            with Owner(labdir) as owner:
                with pytest.raises(InterruptedRunError):
                    owner.ask(protocol.Status(), protocol.Epoch)
                heard.set()
                assert owner.ask(protocol.NewEpoch(protocol.Measuring("1%", 9)), protocol.Epoch).epoch == 9
            stop(labdir)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_owner_that_is_stopped_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.05)
    monkeypatch.setattr(client, "owner_of", lambda _: ProcessId(7, 7))
    monkeypatch.setattr(client, "is_stopped", lambda _: True)
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    told = r"\(process 7\) is stopped.*`spraylab down --lab x` removes"
    with listening(labdir.socket), Owner(labdir) as owner, pytest.raises(OwnerFailedError, match=told):
        owner.ask(protocol.Status(), protocol.LabStatus)


def test_an_owner_that_is_busy_is_waited_for_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.05)
    monkeypatch.setattr(client, "QUICK_TIMEOUT_S", 0.2)
    labdir = LabDir("x", tmp_path)
    told = "^the owner of lab 'x' did not answer for 0 s$"
    with owned(labdir), listening(labdir.socket), Owner(labdir) as owner, pytest.raises(OwnerFailedError, match=told):
        owner.ask(protocol.Status(), protocol.LabStatus)
    assert [record.message for record in caplog.records] == ["the owner of lab 'x' has not answered for 0 s; waiting"]


def test_a_client_that_takes_no_answers_holds_up_nobody(tmp_path: Path) -> None:
    def long(request: protocol.Request, client: int) -> Answer:
        return Answer(result=msgspec.Raw(b'"%s"' % (b"x" * 300_000))) if client == 1 else handle(request, client)

    with serving(tmp_path, handling=long) as (labdir, _):
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(str(labdir.socket))
            deaf.sendall(b'{"op":"status"}\n' * 1000)
            began = time.monotonic()
            with Owner(labdir) as owner:
                for _ in range(20):
                    owner.ask(protocol.FaultShow(), protocol.Done)
            assert time.monotonic() - began < 2
        stop(labdir)


def test_an_answer_may_come_later_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    ready, gone = threading.Event(), queue.SimpleQueue[tuple[int, bool]]()

    def later(request: protocol.Request, client: int) -> Answer | LaterAnswer:
        return (lambda: Answer() if ready.is_set() else None) if client <= 2 else handle(request, client)

    with serving(tmp_path, handling=later, left=lambda *how: gone.put(how)) as (labdir, _):
        with socket.socket(socket.AF_UNIX) as waits, socket.socket(socket.AF_UNIX) as leaves:
            for link in (waits, leaves):
                link.connect(str(labdir.socket))
                link.sendall(b'{"op":"status"}\n{"op":"status"}\n')
            leaves.close()
            with Owner(labdir) as owner:
                assert owner.ask(protocol.NewEpoch(protocol.Measuring("1%", 4)), protocol.Epoch).epoch == 4
            assert gone.get(timeout=5) == (3, False)
            ready.set()
            assert gone.get(timeout=5)[0] == 2
            answers = b""
            while answers.count(b"\n") < 2:
                answers += waits.recv(1 << 16)
        stop(labdir)
