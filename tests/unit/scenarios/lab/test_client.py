"""What is said when a process of the lab does not answer any more."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host.requests import Progress
from scenarios.errors import WorkerFailedError
from scenarios.lab.client import Worker, not_up
from scenarios.lab.lab_dir import LabDir, owned


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    (tmp_path / "red").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "red/worker1.sock"))
        yield listener


def test_a_dead_worker_is_told_with_its_log_and_the_way_on(tmp_path: Path, listening: socket.socket) -> None:
    log = tmp_path / "red/worker1.log"
    with pytest.raises(WorkerFailedError) as told, Worker(tmp_path / "red/worker1.sock"):
        pass
    assert str(told.value) == (
        f"worker1 is gone: Connection refused; if lab 'red' is still up, see {log}, "
        "then `spraylab down --lab red` and up again"
    )


def test_a_worker_that_dies_before_it_answers_is_told(tmp_path: Path, listening: socket.socket) -> None:
    listening.listen()
    with Worker(tmp_path / "red/worker1.sock") as worker:
        listening.accept()[0].close()
        with pytest.raises(
            WorkerFailedError, match=r"worker1 .*; .* see .*worker1.log, then `spraylab down --lab red`"
        ):
            worker.ask(Progress())


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
