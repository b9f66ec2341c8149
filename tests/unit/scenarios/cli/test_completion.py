"""Completion: what bash is given for a word with colons, quotes and what it would take for its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from scenarios.cli.completion import BashComplete, in_place_of, word_at_end
from scenarios.cli.lab import fault
from scenarios.cli.main import main
from scenarios.cli.runs import folders as runs
from testbed.model.fabric import Fabric, FabricSpec
from tests.support.run_folder import write_run

BREAKS = " \t\n\"'><=;|&(:"


@pytest.mark.parametrize(
    ("word", "value", "given"),
    [
        ("p0:leaf3-s", "p0:leaf3-spine5", "leaf3-spine5"),
        ("p0:", "p0:leaf3-spine5", "leaf3-spine5"),
        ("p0", "p0:leaf3-spine5", "p0:leaf3-spine5"),
        ("p0:leaf3", "p0:leaf3>spine5", "leaf3\\>spine5"),
        ("p0:leaf3\\>sp", "p0:leaf3>spine5", "leaf3\\>spine5"),
        ('"p0:leaf3>sp', "p0:leaf3>spine5", "p0:leaf3>spine5"),
        ("--lab=re", "red", "red"),
    ],
)
def test_bash_gets_the_part_it_replaces(word: str, value: str, given: str) -> None:
    assert in_place_of(word, value, BREAKS) == given


@pytest.mark.parametrize(
    ("line", "word"),
    [("a b", "b"), ("a b ", ""), ("a 'b c", "'b c"), ('a "b" ', ""), ("a b\\ c", "b\\ c"), ("a p0:l", "p0:l")],
)
def test_the_word_at_the_cursor(line: str, word: str) -> None:
    assert word_at_end(line) == word


def completed(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)
    shell: ShellComplete = BashComplete(main, {}, "spraylab", "_SPRAYLAB_COMPLETE")
    return [each.partition(",")[2] for each in shell.complete().splitlines()]


def test_links_of_the_lab_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault.command, "imported before, so that it keeps the real function"
    monkeypatch.setattr("scenarios.cli.options.fabric_up", lambda _: Fabric.of(FabricSpec(1, 2, 2, 1)))
    assert completed("spraylab fault set p0:leaf1-s", monkeypatch) == ["leaf1-spine0", "leaf1-spine1"]
    assert completed("spraylab deny set 'p0:leaf1>", monkeypatch) == [
        "p0:leaf1>h1",
        "p0:leaf1>spine0",
        "p0:leaf1>spine1",
    ]
    assert completed("spraylab exec h", monkeypatch) == ["h0", "h1"]


def test_commands_are_completed_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imports {name}"))
    assert completed("spraylab d", monkeypatch) == ["deny", "detect", "doctor", "down"]
    assert "--version" in completed("spraylab --v", monkeypatch)


def test_show_offers_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "runs/20260304T050607Z-gray-link-1")
    (tmp_path / "runs/20260304T050607Z-capture-lab/pcap").mkdir(parents=True)
    (tmp_path / "runs/empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert completed("spraylab show ", monkeypatch) == ["20260304T050607Z-gray-link-1"]
    assert runs.runs_option


def test_in_bash_itself(tmp_path: Path) -> None:
    """The script, asked as bash asks it: link names of a lab that is up are made up by a `spraylab` in PATH."""
    program = tmp_path / "spraylab"
    program.write_text('#!/bin/sh\n[ "$COMP_LINE" = "spraylab deny set p0:le" ] && echo plain,leaf1-spine0\n')
    program.chmod(0o755)
    source = subprocess.run(
        (sys.executable, "-m", "scenarios.cli", "completion", "bash"), capture_output=True, text=True, check=True
    ).stdout
    script = f"{source}\nCOMP_LINE='spraylab deny set p0:le-more'; COMP_POINT=23\n_spraylab_completion spraylab\n" \
             'printf "%s\\n" "${COMPREPLY[@]}"'  # fmt: skip
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(("bash", "-c", script), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "leaf1-spine0\n"
