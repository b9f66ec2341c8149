"""All that a machine lacks is told at once, before anything is started."""

from pathlib import Path

import pytest

from scenarios.doctor import Finding
from scenarios.errors import EnvironmentLackingError
from scenarios.lab import readiness
from scenarios.lab.readiness import lacks_of_capture, lacks_of_folder, lacks_of_lab, require
from testbed.model.fabric import Fabric, FabricSpec

SMALL = Fabric.of(FabricSpec(1, 2, 2))


def finding(name: str, present: bool, needed: bool = True) -> Finding:
    return Finding(name, present, needed, "", "" if present else f"install {name}", "")


@pytest.fixture
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding("clang", False), finding("ip", True), finding("tcpdump", False), finding("TCX", False, False)]
    monkeypatch.setattr(readiness, "examine", lambda: found)


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
    assert third.startswith("/proc/none: results cannot be written there; making a folder in /proc: ")
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
