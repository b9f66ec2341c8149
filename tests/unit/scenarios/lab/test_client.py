"""What is said when a process of the lab does not answer any more."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, Timer

import msgspec
import pytest

from agent.host.control.requests import Progress
from scenarios.errors import OwnerFailedError, WorkerFailedError
from scenarios.lab import client
from scenarios.lab.client import LineSocket, Owner, Worker, lab_end, not_up
from scenarios.lab.lab_dir import ChildState, LabDir, LabShape, LabState, owned, write_state
from scenarios.lab.owner.serve import listening, serve
from scenarios.lab.processes import ProcessId, identify
from scenarios.lab.protocol import Answer, ChildStatus, LabStatus, Status
from tests.support.stopped_process import stopped_process

STATUS = LabStatus("red", ProcessId(1, 1), "", 1, 2, 2, 1, False, 9000, 2, (), 1, (), (), ())


@pytest.fixture
def red(tmp_path: Path) -> LabDir:
    (tmp_path / "red").mkdir()
    return LabDir("red", tmp_path)


@contextmanager
def owner_says(labdir: LabDir, state: str) -> Iterator[None]:
    """An owner that lives in this process, of whose children worker1 is in `state`."""
    status = msgspec.structs.replace(STATUS, children=(ChildStatus("worker1", ProcessId(2, 2), state),))
    answer = Answer(result=msgspec.Raw(msgspec.json.encode(status)))
    done, stop = socket.socketpair()
    with owned(labdir), listening(labdir.socket) as at, done, stop:
        served = Thread(target=serve, args=(at, lambda *_: answer, done))
        served.start()
        try:
            yield
        finally:
            stop.close()
            served.join()


def dead_worker(labdir: LabDir) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.bind(str(labdir.worker_socket(1)))
    return link


@pytest.mark.parametrize(
    ("state", "told"),
    [("killed by SIGKILL", "was killed by SIGKILL"), ("exited 1", "exited 1"), ("running", "is gone (Connection re")],
)
def test_a_worker_that_is_gone_is_told_with_its_end_and_last_words(red: LabDir, state: str, told: str) -> None:
    with owner_says(red, state), dead_worker(red):
        red.log("worker1").write_text("INFO begun\nNo room for a ring\n\n")
        with pytest.raises(WorkerFailedError) as error:
            Worker(red.worker_socket(1)).__enter__()
    assert str(error.value).startswith(f"worker1 {told}")
    assert str(error.value).endswith("; its last output: No room for a ring")


def test_a_worker_that_dies_before_it_answers_is_told(red: LabDir) -> None:
    with owner_says(red, "killed by signal 40"), dead_worker(red) as link:
        link.listen()
        with Worker(red.worker_socket(1)) as worker:
            link.accept()[0].close()
            with pytest.raises(WorkerFailedError, match=r"^worker1 was killed by signal 40$"):
                worker.ask(Progress())


@pytest.fixture
def stopped() -> Iterator[ProcessId]:
    """A process of a lab that was told to stop."""
    with stopped_process() as process:
        yield process


def state_with(labdir: LabDir, worker: ProcessId) -> None:
    shape = {name: getattr(STATUS, name) for name in LabShape.__struct_fields__}
    write_state(labdir, LabState(**shape, children=(ChildState("worker1", worker),)))


def test_a_worker_that_is_stopped_is_named_and_not_waited_for(
    red: LabDir, stopped: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WORKER_PATIENCE_S", 0.05)
    state_with(red, stopped)
    told = rf"^worker1 \(process {stopped.pid}\) is stopped and does not answer; `kill -CONT {stopped.pid}` wakes it$"
    with dead_worker(red) as link:
        link.listen()
        began = time.monotonic()
        with Worker(red.worker_socket(1)) as worker:
            for _ in range(2):
                with pytest.raises(WorkerFailedError, match=told):
                    worker.ask(Progress())
        assert time.monotonic() - began < 1


def test_a_worker_that_is_only_busy_is_waited_for(red: LabDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WORKER_PATIENCE_S", 0.02)
    own = identify(os.getpid())
    assert own is not None
    state_with(red, own)
    with dead_worker(red) as link:
        link.listen()
        with Worker(red.worker_socket(1)) as worker:
            at = link.accept()[0]
            Timer(0.1, at.sendall, [b'{"ok": true, "qps": []}\n']).start()
            assert worker.ask(Progress()) == {"qps": []}
            at.close()


def test_a_worker_that_went_with_its_lab_is_not_blamed(red: LabDir) -> None:
    with dead_worker(red) as link:
        link.listen()
        with Worker(red.worker_socket(1)) as worker:
            link.accept()[0].close()
            with pytest.raises(WorkerFailedError, match=r"^the owner of lab 'red' has died, killed or by an error"):
                worker.ask(Progress())
        red.remove()
        with pytest.raises(WorkerFailedError, match=r"^lab 'red' was taken down meanwhile$"):
            Worker(red.worker_socket(1)).__enter__()


def test_a_lab_at_its_end_is_told(red: LabDir) -> None:
    assert lab_end(red).startswith("the owner of lab 'red' has died")
    with owner_says(red, "running"):
        assert lab_end(red) == ""
    assert lab_end(red) == "lab 'red' was taken down meanwhile"
    with owned(red):
        assert lab_end(red).startswith("lab 'red' is being taken down, by `spraylab down --lab red` or a signal")


def test_an_owner_that_hangs_up_is_told_with_what_became_of_the_lab(red: LabDir) -> None:
    with listening(red.socket) as at, Owner(red) as owner:
        at.accept()[0].close()
        red.remove()
        with pytest.raises(OwnerFailedError, match=r"^lab 'red' was taken down meanwhile$"):
            owner.ask(Status(), LabStatus)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "is being built or taken down"), ('{"lab": ', "state.json cannot be read; `spraylab down --lab red`")],
)
def test_a_state_file_that_cannot_be_read_is_no_lab_being_built(tmp_path: Path, content: str | None, said: str) -> None:
    labdir = LabDir("red", tmp_path)
    with owned(labdir):
        if content is not None:
            labdir.state.write_text(content)
        assert said in not_up(labdir)


@contextmanager
def echoing(path: Path, most: int) -> Iterator[None]:
    """Somebody who answers every line with itself, in capitals, and hangs up after `most`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            for _ in range(most):
                if not (line := stream.readline()):
                    return
                stream.write(line.upper())
                stream.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(5)
        listener.close()


def test_many_lines_are_answered_in_their_order(tmp_path: Path) -> None:
    lines = [f"line {number}".encode() for number in range(500)]
    with echoing(tmp_path / "s", 502), LineSocket(tmp_path / "s", WorkerFailedError) as link:
        assert link.ask_all(lines) == [line.upper() for line in lines]
        assert link.ask(b"one more") == b"ONE MORE"
        assert link.ask_all([]) == []


def test_who_hangs_up_between_two_answers_is_told_of(tmp_path: Path) -> None:
    told = pytest.raises(WorkerFailedError, match="ended without an answer")
    with echoing(tmp_path / "s", 2), LineSocket(tmp_path / "s", WorkerFailedError) as link, told:
        link.ask_all([b"a", b"b", b"c"])
