"""The worker as a process, without hosts so that no root is needed: its socket, its ends, and what it leaves behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEADLINE_S = 10
ATTEMPTS = 5
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def settings_of(folder: Path, **changes) -> Path:
    settings = {
        "lab": "test",
        "control_socket": str(folder / "w.sock"),
        "event_log": str(folder / "agent.jsonl"),
        "older_event_log": str(folder / "agent.older.jsonl"),
        "fabric": {"planes": 1, "leaves": 1, "spines": 1, "hosts_per_leaf": 1},
        "hosts": [],
        "peers": [],
        **changes,
    }
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    return path


def wait_for(condition) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def ask(path: Path, request: dict) -> dict:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as lines:
            return json.loads(lines.readline())


@pytest.fixture
def worker(tmp_path):
    command = [sys.executable, "-m", "agent.host", str(settings_of(tmp_path, cpu=min(os.sched_getaffinity(0))))]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE) as process:
        wait_for(lambda: (tmp_path / "w.sock").exists() or process.poll() is not None)
        yield process
        process.kill()


def test_it_answers_and_ends_on_shutdown(worker, tmp_path):
    assert ask(tmp_path / "w.sock", {"op": "hello"}) == {"ok": True, "pid": worker.pid, "hosts": []}
    assert os.sched_getaffinity(worker.pid) == {min(os.sched_getaffinity(0))}
    assert ask(tmp_path / "w.sock", {"op": "shutdown"}) == {"ok": True}
    assert worker.wait(DEADLINE_S) == 0
    assert not (tmp_path / "w.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_a_signal(worker, tmp_path, number):
    worker.send_signal(number)
    assert worker.wait(DEADLINE_S) == 0
    assert not (tmp_path / "w.sock").exists()


def test_it_ends_when_its_parent_dies(tmp_path):
    script = (
        "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, sys.executable, "-m", "agent.host", str(settings_of(tmp_path))]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        wait_for((tmp_path / "w.sock").exists)
        parent.kill()
        wait_for(lambda: not (tmp_path / "w.sock").exists())
        wait_for(lambda: not _runs(pid))


def test_it_rests_when_there_is_nothing_to_do(worker, tmp_path):
    """A loop that spins takes all of its core's time in every attempt, less what others of the machine take."""
    shares = []
    for _ in range(ATTEMPTS):
        before, since = ask(tmp_path / "w.sock", {"op": "counters"})["cpu_ns"], time.monotonic_ns()
        time.sleep(0.5)
        used = ask(tmp_path / "w.sock", {"op": "counters"})["cpu_ns"] - before
        shares.append(used / (time.monotonic_ns() - since))
        if shares[-1] < 0.2:
            return
    pytest.fail(f"with nothing to do it took {', '.join(f'{share:.0%}' for share in shares)} of a core")


def test_bad_settings_and_missing_ports_have_their_exit_codes(tmp_path):
    def run(path: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agent.host", str(path)]
        return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    missing = run(tmp_path / "none.json")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    place = {"host": 0, "address": "fd5f::", "leaf": 0, "slot": 0}
    port = {"plane": 0, "interface": "nosuch", "mac": "02:30:00:00:20:00", "leaf_mac": "02:20:00:00:30:00"}
    unopened = run(settings_of(tmp_path, hosts=[{**place, "ports": [port]}], peers=[place]))
    assert (unopened.returncode, unopened.stderr.count("\n")) == (3, 1)
    assert "cannot open nosuch in this network namespace" in unopened.stderr


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
