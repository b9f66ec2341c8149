"""The Python API on a lab that is up: sharing the lab, and what is left afterwards. The documents run their program."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.api import CompletionStatus, Lab, QpState
from scenarios.errors import LabStateError, WorkerFailedError
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab as LabCommand
from tests.support.spraylab_command import own_lab

pytestmark = [pytest.mark.root, needs_root]

ROOT = Path(__file__).parents[2]
KILLED = """
import sys, time
from scenarios.api import Lab
with Lab(sys.argv[1]) as lab:
    here, there = lab.connect(lab.host("h0"), lab.host("h1"))
    lab.host("h0").register(1000)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCommand]:
    """A lab of three hosts in two planes, each host's agent in a worker of its own."""
    with own_lab(tmp_path_factory.mktemp("runs")) as lab:
        lab("up", "--planes", "2", "--leaves", "3", "--spines", "2", "--workers", "per-host")
        yield lab


def test_inspect_shows_a_programs_queue_pairs_and_a_run_has_to_wait(up: LabCommand, tmp_path: Path) -> None:
    scenario = tmp_path / "least.yaml"
    scenario.write_text("version: 1\nname: least\nworkloads:\n  - {strides: [1], packets: 256}\n")
    with Lab(up.name) as lab:
        here, there = lab.connect(lab.host("h0"), lab.host("h2"), pmtu=256, ack_timeout_ms=5000)
        source, target = here.host.register(256_000), there.host.register(256_000)
        source.data[:] = 7
        here.write(source, 0, 256_000, target, 0)
        assert here.wait().status is CompletionStatus.SUCCESS
        assert target.data.min() == 7
        evs = up.json("inspect", "h0", "--evs")
        assert sorted((row["plane"], row["spine"], row["tx_first"]) for row in evs) == [
            (plane, spine, 250) for plane in range(2) for spine in range(2)
        ]
        (row,) = up.json("inspect", "h0", "--qps")
        assert (row["qpn"], row["state"], row["acked_bytes"]) == (here.qpn, "RTS", 256_000)
        assert f"process {os.getpid()}" in up("run", "--attach", str(scenario), code=4).stderr
        with pytest.raises(LabStateError, match="a program uses it"), Lab(up.name):
            pass
    assert up.json("inspect", "h0", "--qps") == []


def test_a_black_hole_ends_a_queue_pair_with_its_writes_flushed(up: LabCommand) -> None:
    up("fault", "set", "p*:h0>leaf0", "--drop", "100%")
    try:
        with Lab(up.name) as lab:
            settings = {"ack_timeout_ms": 20, "retries": {"linear": 1, "doubling": 1}}
            here, there = lab.connect(lab.host("h0"), lab.host("h1"), **settings)
            source, target = here.host.register(1000), there.host.register(1000)
            here.write_many(source, 0, 1000, target, 0, 100)
            ended = [here.wait(), here.wait()]
            assert [(done.count, done.status) for done in ended] == [
                (1, CompletionStatus.RETRY_EXCEEDED),
                (9, CompletionStatus.FLUSHED),
            ]
            assert here.state is QpState.ERROR
    finally:
        up("fault", "clear", "--all")


def test_a_killed_program_leaves_nothing(up: LabCommand) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, up.name], cwd=ROOT, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        assert len(up.json("inspect", "h0", "--qps")) == 1
        program.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while up.json("inspect", "h0", "--qps"):
        assert time.monotonic() < until
        time.sleep(0.1)
    with Lab(up.name):
        pass


def test_taking_the_lab_down_ends_the_program_with_an_error(up: LabCommand) -> None:
    """Last: it takes the lab down."""
    with contextlib.ExitStack() as undo:
        lab = undo.enter_context(Lab(up.name))
        host = lab.host("h0")
        up("down")
        with pytest.raises(WorkerFailedError, match="was taken down meanwhile"):
            host.register(10)
    assert up.left() == []
