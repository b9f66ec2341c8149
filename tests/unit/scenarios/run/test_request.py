"""A lab of which a process has died is not used: whoever wants it hears which, and what to do."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from scenarios.cli.output import Listener, Output
from scenarios.cli.perf.session import under_test
from scenarios.errors import LabStateError
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.lab.lab_dir import LabDir, busy
from scenarios.run.request import RunRequest
from scenarios.run.stages import lab_for
from tests.unit.scenarios.lab.test_client import owner_says

SCENARIO = Scenario.model_validate(
    {"version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1,), "packets": 64},)}
)


def perf(labdir: LabDir) -> None:
    with under_test(labdir):
        pass


def run(labdir: LabDir) -> None:
    order = RunRequest(SCENARIO, labdir, True, labdir.root, ())
    with ExitStack() as undo:
        lab_for(order, plan_of(SCENARIO), Listener(Output(quiet=True)), undo)


@pytest.mark.parametrize("use", [perf, run])
@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("killed by SIGKILL", "worker1 was killed by SIGKILL"),
        ("exited 1", "worker1 exited 1"),
        ("stopped", "worker1 (process 2) is stopped (`kill -CONT 2` wakes it)"),
    ],
)
def test_a_lab_that_is_not_whole_is_refused(
    tmp_path: Path, use: Callable[[LabDir], None], state: str, told: str
) -> None:
    red = LabDir("red", tmp_path)
    with owner_says(red, state):
        with pytest.raises(LabStateError) as refused:
            use(red)
        assert str(refused.value) == (
            f"lab 'red' is not whole before this run: {told}; `spraylab down --lab red` and up again"
        )
        with busy(red):
            pass  # nobody holds the lab any more
