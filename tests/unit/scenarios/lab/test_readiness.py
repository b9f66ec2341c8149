"""All that a machine lacks is told at once, before anything is started."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from faults.inject import Injector
from faults.kinds import By
from faults.records import Journal
from scenarios.doctor import Finding
from scenarios.errors import EnvironmentLackingError
from scenarios.file.load import load_scenario
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.file.scenario_files import find_scenario
from scenarios.lab.start import capacity, requirements
from scenarios.lab.start.capacity import KEPT_BYTES, LEAST_BYTES
from scenarios.lab.start.requirements import (
    lacks_of_capture,
    lacks_of_faults,
    lacks_of_folder,
    lacks_of_lab,
    lacks_option,
    no_room_for_plan,
    require,
)
from testbed.errors import MissingFeatureError
from testbed.model.fabric import Fabric, FabricSpec

SMALL = Fabric.of(FabricSpec(1, 2, 2))


def finding(name: str, present: bool, needed: bool = True) -> Finding:
    return Finding(name, present, needed, "", "" if present else f"install {name}", "")


@pytest.fixture
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding("clang", False), finding("ip", True), finding("tcpdump", False), finding("TCX", False, False)]
    monkeypatch.setattr(requirements, "_findings", lambda: found)


@pytest.mark.usefixtures("_bare_machine")
@pytest.mark.parametrize(("capturing", "missing"), [(False, ["clang"]), (True, ["clang", "tcpdump"])])
def test_tools_that_are_needed_are_told_each(capturing: bool, missing: list[str]) -> None:
    told = [lack for lack in lacks_of_lab(SMALL, capturing=capturing) if lack]
    assert told == [f"{name} is missing: install {name}" for name in missing]


@pytest.mark.usefixtures("_bare_machine")
def test_everything_is_one_error_and_each_line_once() -> None:
    huge = Fabric.of(FabricSpec(16, 256, 256))
    with pytest.raises(EnvironmentLackingError) as told:
        require([*lacks_of_lab(huge), *lacks_of_folder(Path("/proc/none")), *lacks_of_capture(), *lacks_of_lab(SMALL)])
    first, second, third, fourth = str(told.value).splitlines()
    assert first == "clang is missing: install clang"
    assert second.startswith("a fabric of 8,448 nodes")
    assert third.startswith("/proc/none: results cannot be written there, name another folder; making one in /proc: ")
    assert fourth == "tcpdump is missing: install tcpdump"


def test_a_folder_that_can_be_made_is_not_made(tmp_path: Path) -> None:
    assert list(lacks_of_folder(tmp_path / "a/b/c")) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "why"),
    [("file", "Not a directory"), ("file/below/it", "Not a directory"), ("dangling", "Not a directory"),
     ("x" * 300, "File name too long")],
)  # fmt: skip
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, folder: str, why: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (told,) = lacks_of_folder(tmp_path / folder)
    assert told.endswith(why)


def test_nothing_lacking_is_no_error() -> None:
    require(["", ""])


def test_a_plan_that_does_not_fit_is_told_without_root_in_the_words_of_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: 4 << 30)
    values = {
        "version": 1, "name": "x", "topology": {"planes": 16, "leaves": 200, "spines": 200},
        "workloads": ({"type": "write", "pairs": ((0, 1),), "bytes": 2 << 30},),
    }  # fmt: skip
    data, fabric = no_room_for_plan(plan_of(Scenario.model_validate(values)))
    assert data == "the flows' data takes 4,096 MiB, more than half of the free memory (2,048 MiB)"
    assert fabric.startswith("a fabric of 6,600 nodes and 643,200 links takes about")
    assert list(no_room_for_plan(plan_of(load_scenario(find_scenario("gray-link-small"))))) == []


def test_a_folder_whose_name_cannot_be_written_down_is_told(tmp_path: Path) -> None:
    (told,) = lacks_of_folder(Path(os.fsdecode(os.fsencode(tmp_path) + b"/x\xff/runs")))
    assert "the name is not UTF-8; name another folder" in told


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (told,) = lacks_of_folder(Path("runs"))
    assert told == "runs: results cannot be written there: the current folder was removed; change to another by `cd`"
    assert list(lacks_of_folder(tmp_path / "runs")) == []


def test_captures_without_room_beside_the_results_are_found_before_a_lab_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capacity, "disk_free", lambda _: KEPT_BYTES + LEAST_BYTES)
    assert list(lacks_of_folder(tmp_path / "runs", 1, 1 << 30)) == []
    (told,) = lacks_of_folder(tmp_path / "runs", 2, 1 << 30)
    assert told.startswith(f"{tmp_path}: No space left on device: 5 MiB free, and a capture of 2 files takes 2 MiB")


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


TEXT = b"CONFIG_NET_SCH_TBF=m\nCONFIG_NET=y\n# CONFIG_NET_SCH_NETEM is not set\n"


def test_options_are_built_in_modules_or_missing(tmp_path: Path) -> None:
    packed, plain, broken = tmp_path / "config.gz", tmp_path / "config", tmp_path / "broken.gz"
    packed.write_bytes(gzip.compress(TEXT))
    plain.write_bytes(TEXT)
    broken.write_bytes(b"nothing of the kind")
    for place in (packed, plain):
        found = [lacks_option(f"CONFIG_{name}", (broken, place)) for name in ("NET", "NET_SCH_TBF", "NET_SCH_NETEM")]
        assert found == [False, False, True]


def test_a_kernel_that_does_not_say_lacks_nothing(tmp_path: Path) -> None:
    assert not lacks_option("CONFIG_NET_SCH_NETEM", (tmp_path / "none",))
    assert not lacks_option("CONFIG_NET_SCH_NETEM", ())
