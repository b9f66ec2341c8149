"""A run is refused before its lab is built when this machine cannot make its faults."""

from pathlib import Path
from typing import Any

import pytest

from faults.inject import Injector
from faults.journal import Journal
from faults.kinds import By
from scenarios.file.fault_makers import lacks_of_faults
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from testbed.errors import MissingFeatureError


class Present:
    """A mechanism that can be used; nothing here may ask more of it."""

    def __init__(self, name: By) -> None:
        self.name = name

    def check(self) -> None:
        """Is there."""


class Absent(Present):
    """One that the kernel lacks."""

    def check(self) -> None:
        """Is not there."""
        raise MissingFeatureError(self.name, "enable it")


def lacks(folder: Path, asked: str, **fault: Any) -> list[str]:
    values = {
        "version": 1, "name": "x", "workloads": ({"type": "write", "strides": (1,), "packets": 64},),
        "faults": ({"link": "p0:leaf3>spine5"} | fault,),
    }  # fmt: skip
    mechanisms: Any = (Absent(By.NETEM), Present(By.EBPF))
    faults = plan_of(Scenario.model_validate(values)).faults
    return list(lacks_of_faults(faults, asked, Injector(Journal(folder / "faults.jsonl"), mechanisms)))


def test_what_another_mechanism_can_make_is_let_through(tmp_path: Path) -> None:
    assert lacks(tmp_path, "auto", drop="1%") == []


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ("auto", {"delay": "10ms"}),
        ("auto", {"drop": "1%", "mechanism": "netem"}),
        ("netem", {"drop": "1%"}),
        ("netem", {"drop": "1%", "at": "1s"}),
    ],
)
def test_a_mechanism_that_is_missing_is_told(tmp_path: Path, asked: str, fault: dict[str, str]) -> None:
    (told,) = lacks(tmp_path, asked, **fault)
    assert told.startswith("fault mechanism netem: netem is missing")


def test_each_fault_without_a_mechanism_is_told(tmp_path: Path) -> None:
    assert len(lacks(tmp_path, "auto", delay="10ms", reorder="1%", ahead="1ms", drop="1%")) == 2


def test_a_run_may_ask_for_another_mechanism_than_its_scenario(tmp_path: Path) -> None:
    assert lacks(tmp_path, "ebpf", drop="1%", mechanism="netem") == []
