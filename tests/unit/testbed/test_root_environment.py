"""Where tools are looked up: folders that only root can change, and those that sudo searches."""

import os
from pathlib import Path

import pytest

from testbed.root_environment import SYSTEM_FOLDERS, clean_environment, find_tool, tool_path


def test_a_path_without_sbin_finds_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find_tool("ip") in ("/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip")
    monkeypatch.delenv("PATH")
    assert tool_path() == ":".join(SYSTEM_FOLDERS)


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_folders_that_others_can_change_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "clang").write_text("#!/bin/sh\n")
    (folder / "clang").chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f":.:bin:{folder}:/nonexistent:/usr/bin")
    assert tool_path().split(":")[0] == "/usr/bin"
    assert find_tool("clang") != str(folder / "clang")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a folder of root's")
def test_a_link_is_followed_once_and_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the link could turn it to a folder of his own after it was looked at."""
    link, circle = tmp_path / "bin", tmp_path / "circle"
    link.symlink_to("/usr/lib")
    circle.symlink_to(circle)
    monkeypatch.setenv("PATH", f"{circle}:{link}:/usr/bin")
    assert tool_path().split(":")[0] == "/usr/lib"
    assert str(tmp_path) not in tool_path()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a folder of root's")
def test_a_folder_of_root_alone_is_searched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/lib:/usr/bin")
    assert clean_environment()["PATH"].split(":")[0] == "/usr/lib"
