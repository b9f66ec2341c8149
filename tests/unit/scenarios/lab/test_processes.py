"""Processes of a lab: known by number and start time, found by mark, ended whatever they do about it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from scenarios.errors import EnvironmentLackingError
from scenarios.lab.processes import (
    ProcessId,
    ask_to_end,
    end,
    end_marked,
    identify,
    is_alive,
    is_stopped,
    marked,
    marked_environment,
    spawn,
    stays_stopped,
    wait_gone,
)
from tests.support.sudo_user import USER, needs_root

LAB = f"t{os.getpid() % 10**8}"


def wait_for(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_identity_is_more_than_a_number() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert is_alive(own)
    assert not is_alive(ProcessId(own.pid, own.start_ticks + 1))


def test_nobody_and_zombies_are_not_alive() -> None:
    child = subprocess.Popen(("true",))
    assert wait_for(lambda: identify(child.pid) is None)
    child.wait()
    assert identify(child.pid) is None


def test_marked_processes_and_their_children_are_found_and_ended(tmp_path: Path) -> None:
    # The shell ignores SIGTERM, and starts another child when its first one is ended.
    child = spawn(("sh", "-c", "sleep 60 & trap '' TERM; wait; sleep 60"), LAB, tmp_path / "log")
    unmarked = subprocess.Popen(("sleep", "60"))
    try:
        assert wait_for(lambda: len(marked(LAB)) == 2)
        assert marked(f"{LAB}x") == ()
        assert end_marked(LAB, grace_s=0.3) == 3
        child.wait()
        assert marked(LAB) == ()
        assert unmarked.poll() is None
    finally:
        unmarked.kill()
        unmarked.wait()


@needs_root
@pytest.mark.parametrize(
    ("environment", "user"),
    [
        ({"SPRAYLAB_LAB": LAB}, 0),
        ({"SPRAYLAB_MARK": LAB}, 0),
        ({"SPRAYLAB_MARK": f"{LAB}:00000000-0000-0000-0000-000000000000"}, 0),
        (marked_environment(LAB, {}), USER.uid),
    ],
)
def test_a_stranger_who_says_to_be_of_the_lab_lives_on(environment: dict[str, str], user: int) -> None:
    stranger = subprocess.Popen(("sleep", "60"), env=environment, user=user)
    try:
        assert marked(LAB) == ()
        assert end_marked(LAB, grace_s=0.1) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_what_is_started_does_not_stay_in_the_users_folder(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spawn(("pwd",), LAB, log).wait()
    assert log.read_text() == "/\n"


def test_a_marked_process_does_not_find_itself_nor_its_ancestors() -> None:
    code = f"from scenarios.lab.processes import marked; import os; print([p.pid for p in marked({LAB!r})])"
    script = f"import subprocess, sys; subprocess.run((sys.executable, '-c', {code!r}), check=True)"
    environment = marked_environment(LAB, os.environ)
    done = subprocess.run(
        (sys.executable, "-c", script), env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_spawned_process_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        f"from scenarios.lab.processes import spawn; print(spawn(('sleep', '60'), {LAB!r}).pid, flush=True); input()"
    )
    parent = subprocess.Popen((sys.executable, "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    orphan = identify(int(parent.stdout.readline()))
    assert orphan is not None
    assert is_alive(orphan)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert wait_gone(orphan, 5.0)


def test_waiting_for_the_living_ends() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert not wait_gone(own, 0.05)


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = spawn(("sh", "-c", "echo out; echo err >&2; echo $SPRAYLAB_MARK"), LAB, log)
    child.wait()
    assert sorted(log.read_text().split()) == sorted(["out", "err", marked_environment(LAB, {})["SPRAYLAB_MARK"]])


def test_missing_program_is_an_error_at_once() -> None:
    with pytest.raises(EnvironmentLackingError, match="nowhere/program is missing; `spraylab doctor` says"):
        spawn(("/nowhere/program",), LAB)


def test_a_stopped_process_is_told_and_ends_in_order_all_the_same(tmp_path: Path) -> None:
    child = spawn(("sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.01; done"), LAB, tmp_path / "log")
    process = identify(child.pid)
    assert process is not None
    time.sleep(0.1)  # the shell sets its trap
    assert not stays_stopped(process)
    child.send_signal(signal.SIGSTOP)
    assert wait_for(lambda: is_stopped(process))
    assert stays_stopped(process)
    ask_to_end(child)
    assert child.wait(5) == 7


def test_what_is_stopped_needs_no_kill_to_end(tmp_path: Path) -> None:
    child = spawn(("sleep", "60"), LAB, tmp_path / "log")
    child.send_signal(signal.SIGSTOP)
    process = identify(child.pid)
    assert process is not None
    assert wait_for(lambda: is_stopped(process))
    Thread(target=child.wait).start()  # else it stays as a zombie, which is gone, too
    assert end((process,), grace_s=5) == ()
