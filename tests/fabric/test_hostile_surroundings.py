"""Every command in surroundings that somebody else has laid out: same exit code, no traceback, no code of theirs.

A new command joins by a line in `COMMANDS`; the first test fails until it has one. The commands of one surrounding use
one lab, in order; they are one class, so that one worker of xdist runs them all (`--dist loadscope`).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from scenarios.cli.main import main
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.lifecycle import take_down
from tests.support.namespaces import fresh_lab
from tests.support.run_folder import write_run

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

SPRAYLAB = (sys.executable, "-I", "-c", "from scenarios.cli.__main__ import run; run()")
"""As the installed command, whose first line has `-I`."""

TINY = """version: 1
name: tiny
topology: {planes: 1, leaves: 2, spines: 2}
workloads: [{type: write, pairs: [[0, 1]], packets: 6000}]
"""

COMMANDS: Mapping[str, tuple[str, int]] = {
    "up": ("--lab LAB --planes 1 --leaves 2 --spines 2 --workers 1", 0),
    "run": ("--lab LAB --attach --runs OUT TINY", 0),
    "inspect": ("--lab LAB", 0),
    "exec": ("--lab LAB h0 -- /bin/true", 0),
    "scapy": ("--lab LAB h0 -c lab()", 0),
    "sniff": ("--lab LAB p0:leaf0-spine1 --seconds 1", 0),
    "fault set": ("--lab LAB p0:leaf0-spine1 --drop 1%", 0),
    "fault show": ("--lab LAB", 0),
    "fault clear": ("--lab LAB --all", 0),
    "capture start": ("--lab LAB --runs OUT p0:leaf0-spine1", 0),
    "capture stop": ("--lab LAB", 0),
    "deny set": ("--lab LAB p0:leaf0>spine1", 0),
    "deny show": ("--lab LAB", 0),
    "deny clear": ("--lab LAB --all", 0),
    "check": ("--lab LAB", 0),
    "detect": ("--lab LAB", 0),
    "watch": ("--lab LAB --once", 0),
    "perf write-bw": ("--lab LAB h0 h1 -s 4096 -n 10", 0),
    "perf write-lat": ("--lab LAB h0 h1 -n 10 -w 1", 0),
    "perf all-reduce": ("--lab LAB -e 1KiB -n 1 -w 0", 0),
    "perf all-to-all": ("--lab nolab", 4),
    "perf sendrecv": ("--lab nolab", 4),
    "perf incast": ("--lab nolab", 4),
    "perf tp": ("--lab nolab", 4),
    "perf dp": ("--lab nolab", 4),
    "perf pp": ("--lab nolab", 4),
    "perf ep": ("--lab nolab", 4),
    "down": ("--lab LAB", 0),
    "show": ("RUN", 0),
    "report": ("RUN", 0),
    "compare": ("RUN OTHER -o OUT/compare.html", 0),
    "study": ("paper-table --simulate --folder OUT/study --seeds 1 --packets 64 --rate 50% --spines 4 --no-figures", 0),
    "pcap merge": ("RUN", 2),
    "validate": ("TINY", 0),
    "doctor": ("", 0),
    "completion": ("bash", 0),
}
"""Command to its words and exit code; capitals stand for paths and the lab. In the order of use."""

MODULES = ("agent.py", "faults.py", "results.py", "testbed.py", "random.py", "json.py", "click.py", "numpy.py",
           "sitecustomize.py", "usercustomize.py")  # fmt: skip
TOOLS = ("ip", "clang", "tcpdump", "fc-list", "bash", "sh", "env", "uname", "mnexec")


@dataclass(frozen=True)
class Surroundings:
    """What a command finds around it."""

    here: Callable[[Path], None]
    """Make the current folder, of that name, and go there; in the child."""
    umask: int
    closed: tuple[int, ...]
    """Standard files that are closed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """PLACE stands for the folder of the first kind."""


def planted(place: Path) -> None:
    """A folder with modules, programs and settings, each of which says that it was used."""
    place.mkdir(exist_ok=True)
    told = place.parent / "USED"
    for name in MODULES:
        (place / name).write_text(f"open({str(told)!r}, 'a').write({name + chr(10)!r})\n")
    for name in TOOLS:
        (place / name).write_text(f"#!/bin/sh\necho {name} >> {told}\n")
        (place / name).chmod(0o755)
    settings = place / ".config/matplotlib/matplotlibrc"
    settings.parent.mkdir(parents=True, exist_ok=True)
    for file in (settings, place / "matplotlibrc"):
        file.write_text("text.usetex: True\n")
    os.chdir(place)


def removed(place: Path) -> None:
    place = place.with_name(f"gone{os.getpid()}")
    place.mkdir()
    os.chdir(place)
    place.rmdir()


def not_utf8(place: Path) -> None:
    name = os.fsencode(place) + b"\xff"
    os.makedirs(name, exist_ok=True)
    os.chdir(name)


SURROUNDINGS = {
    "planted": Surroundings(
        planted, 0o000, (), {"PATH": ":.:PLACE", "HOME": "PLACE", "PYTHONPATH": "PLACE:.", "TMPDIR": "PLACE",
                             "XDG_CONFIG_HOME": "PLACE/.config", "MPLBACKEND": "module://matplotlib_inline.backend_inline",
                             "CPATH": "PLACE", "PYTHONSTARTUP": "PLACE/random.py"},
    ),
    "removed": Surroundings(removed, 0o077, (0, 2), {"PATH": "/usr/bin:/bin", "TMPDIR": "/nonexistent", "LC_ALL": "C"}),
    "not UTF-8": Surroundings(not_utf8, 0o022, (0, 1), {"HOME": "/nonexistent", "LANG": "tr_TR.UTF-8"}),
}  # fmt: skip
"""Each brings several things, of which none hides another, so that every command meets each in a minute or so."""


@dataclass(frozen=True)
class Place:
    """Where a command is tried."""

    surroundings: Surroundings
    lab: str
    folder: Path

    def run(self, name: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the table."""
        stands_for = {"LAB": self.lab, "TINY": "tiny.yaml", "RUN": "run", "OTHER": "other", "OUT": "out"}
        words = [*name.split(), *(self._spelt(word, stands_for) for word in COMMANDS[name][0].split())]
        return subprocess.run(
            (*SPRAYLAB, *words), env=self._environment(), preexec_fn=self._enter, capture_output=True,
            stdin=subprocess.DEVNULL, text=True, timeout=120, check=False,
        )  # fmt: skip

    @property
    def used(self) -> str:
        """What of theirs was used, a line each."""
        told = self.folder / "USED"
        return told.read_text() if told.exists() else ""

    def _spelt(self, word: str, stands_for: Mapping[str, str]) -> str:
        if word == "LAB":
            return self.lab
        first, *rest = word.split("/")
        return "/".join([str(self.folder / stands_for[first]), *rest]) if first in stands_for else word

    def _environment(self) -> dict[str, str]:
        place = str(self.folder / "place")
        return {name: value.replace("PLACE", place) for name, value in self.surroundings.environment.items()}

    def _enter(self) -> None:
        os.umask(0o022)
        self.surroundings.here(self.folder / "place")
        os.umask(self.surroundings.umask)
        for fd in self.surroundings.closed:
            os.close(fd)


@pytest.fixture(scope="class")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "tiny.yaml").write_text(TINY)
    for name in ("run", "other"):
        write_run(folder / name)
    (folder / "out").mkdir()
    found = Place(SURROUNDINGS[request.cls.surroundings], fresh_lab(), folder)
    try:
        yield found
    finally:
        take_down(LabDir(found.lab))
        shutil.rmtree(folder)


def leaves(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*before, name))
        else:
            yield " ".join((*before, name))


def test_every_command_is_listed() -> None:
    assert set(COMMANDS) == set(leaves(main))


class EveryCommand:
    """Of the table, in one of `SURROUNDINGS`."""

    surroundings: str

    @pytest.mark.parametrize("name", COMMANDS)
    def test_a_command_is_what_it_is_elsewhere(self, place: Place, name: str) -> None:
        done = place.run(name)
        expected = {COMMANDS[name][1]} | ({141} if 1 in place.surroundings.closed else set())
        expected |= {5} if name.startswith("perf") else set()  # a busy machine
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        assert done.returncode in expected, f"{name}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert place.used == ""
        assert [path for path in LabDir(place.lab).path.rglob("*") if path.lstat().st_mode & 0o022] == []


class TestPlanted(EveryCommand):
    surroundings = "planted"


class TestRemoved(EveryCommand):
    surroundings = "removed"


class TestNotUtf8(EveryCommand):
    surroundings = "not UTF-8"
