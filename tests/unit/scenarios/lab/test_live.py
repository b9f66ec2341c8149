"""What a lab does before a run that earlier runs have made necessary."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scenarios.errors import LabStateError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.lifecycle import OwnerSettings
from scenarios.lab.owner import build
from scenarios.lab.owner.build import MOST_EPOCHS, Lab
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import Measuring
from testbed.model.fabric import Fabric, FabricSpec

START = '{"event":"SPRAYCHECK_START"}\n'


class CounterProcess:
    """Stands in for `Children`: a SprayCheck that writes its first line as soon as it is started."""

    def __init__(self, detect: Path) -> None:
        self.detect = detect
        self.runs = False
        self.starts = 0

    def end(self, names: tuple[str, ...]) -> None:
        self.runs = False

    def start(self, name: str, module: str, settings: Any) -> None:
        assert not self.runs
        self.runs, self.starts = True, self.starts + 1
        with Path(settings.detect_log).open("a") as file:
            file.write(START)

    def wait_until(self, name: str, ready: Callable[[], bool]) -> None:
        assert ready()

    def states(self) -> tuple[()]:
        return ()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    denials = SimpleNamespace(epoch=0, act_on=lambda acting: SimpleNamespace(result=lambda: None))
    children: Any = CounterProcess(labdir.detect)
    unused: Any = None
    return Lab(
        labdir, OwnerSettings("x", 1, 2, 2, 1), ProcessId(1, 1), "", Fabric.of(FabricSpec(1, 2, 2, 1)), 1, (), children,
        unused, unused, denials,  # type: ignore[arg-type]
    )  # fmt: skip


def epoch_of(lab: Lab, **asked: Any) -> int:
    number: int = lab.new_epoch(Measuring(**asked)).result().epoch
    return number


def test_spraycheck_goes_on_for_runs_that_ask_for_the_same(lab: Lab) -> None:
    assert [epoch_of(lab) for _ in range(3)] == [1, 2, 3]
    assert epoch_of(lab, min_rate="2%") == 4
    assert lab.children.starts == 2  # type: ignore[attr-defined]


def test_verdicts_of_many_runs_are_kept_as_long_as_there_is_room(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_DETECT_BYTES", 1000)
    said = lab.labdir.detect
    for number in range(1, 8):
        lab.new_epoch(Measuring())
        with said.open("a") as file:
            file.write(f"{number} {'x' * 397}\n")
    numbers = [[line[:1] for line in file.read_text().splitlines()] for file in (lab.labdir.older_detect, said)]
    assert numbers == [["{", "4", "5", "6"], ["{", "7"]]
    assert lab.children.starts == 3  # type: ignore[attr-defined]


def test_a_lab_that_has_had_as_many_runs_as_can_be_told_apart_says_so(lab: Lab) -> None:
    lab.epoch = MOST_EPOCHS - 1
    assert epoch_of(lab) == MOST_EPOCHS
    with pytest.raises(LabStateError, match="has had 65,535 runs"):
        lab.new_epoch(Measuring())
