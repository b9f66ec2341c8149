"""The command `spraylab` on a lab of a test's own, and what a lab may leave on the machine.

Commands whose end is waited for run in a copy of the test's process, which has imported the program: that saves a
second of each. Commands that go on beside the test are programs of their own, as those of a user.
"""

import importlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NoReturn

import click

from scenarios.cli.main import main
from scenarios.isolated import isolated_command
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.lifecycle import take_down
from scenarios.lab.processes import marked
from testbed.kernel.netns import namespaces
from testbed.model.node_names import namespace_prefix
from tests.support.namespaces import fresh_lab

COMMAND = isolated_command("scenarios.cli")


def ended(
    words: tuple[str, ...], env: dict[str, str] | None = None, within_s: float = 240
) -> subprocess.CompletedProcess[str]:
    """What a command line that begins with COMMAND printed, and its exit code."""
    assert words[: len(COMMAND)] == COMMAND
    _import_commands()
    with TemporaryFile() as out, TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(words[len(COMMAND) :], env or {}, out, err)
        pidfd = os.pidfd_open(child)
        try:
            if not select.select([pidfd], [], [], within_s)[0]:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, within_s)
        finally:
            os.close(pidfd)
            status = os.waitpid(child, 0)[1]
        out.seek(0)
        err.seek(0)
        told = (out.read().decode(), err.read().decode())
    return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *told)


@cache
def _import_commands() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        main.get_command(context, name)
    for module in ("scenarios.run.runner", "scenarios.lab.lifecycle"):
        importlib.import_module(module)


def _become(words: tuple[str, ...], env: dict[str, str], out: BinaryIO, err: BinaryIO) -> NoReturn:
    """Go on as the command, without what pytest has changed in this process, and end."""
    code: object = 1
    try:
        for fd, file in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
            os.dup2(file, fd)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode, closefd=False) for fd, mode in enumerate("rww"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logging.root.handlers.clear()
        os.environ.update(env)
        sys.argv = ["spraylab", *words]  # a run's folder records its command
        main(list(words), prog_name="spraylab")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


@dataclass(frozen=True)
class Lab:
    """A lab name of this test's own, with run folders in a place of its own."""

    name: str
    runs: Path
    reports: bool = False
    """Whether runs end with a report; it takes seconds and is of no use to most tests."""

    @property
    def labdir(self) -> LabDir:
        """Its folder while it is up."""
        return LabDir(self.name)

    def words(self, *words: str) -> tuple[str, ...]:
        """A command line on this lab."""
        cut = words.index("--") if "--" in words else len(words)
        verb = 2 if words[0] in ("fault", "capture", "perf", "deny") else 1
        runs = ("--runs", str(self.runs)) if words[0] == "run" or words[:2] == ("capture", "start") else ()
        report = ("--no-report",) if words[0] == "run" and not self.reports else ()
        return (*COMMAND, *words[:verb], "--lab", self.name, *runs, *report, *words[verb:cut], *words[cut:])

    def __call__(
        self, *words: str, code: int | tuple[int, ...] = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and check its exit code, or that it is one of several."""
        done = ended(self.words(*words), env or {})
        codes = code if isinstance(code, tuple) else (code,)
        assert done.returncode in codes, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        """The JSON document a command prints."""
        cut = words.index("--") if "--" in words else len(words)
        return json.loads(self(*words[:cut], "--json", *words[cut:], code=code).stdout)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command in a process group of its own, as a shell does."""
        return subprocess.Popen(
            self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def left(self) -> list[str]:
        """Everything of the lab that is still there."""
        found = [f"namespace {name}" for name in namespaces(namespace_prefix(self.name))]
        found += [f"process {process.pid}" for process in marked(self.name)]
        found += [f"file {path}" for path in (self.labdir.path, self.labdir.socket) if path.exists()]
        sockets = Path("/proc/net/unix").read_text().splitlines()
        found += [f"socket {line.split()[-1]}" for line in sockets if f"/spraylab/{self.name}/" in line]
        found += [f"pin {path}" for path in Path("/sys/fs/bpf").glob(f"*{self.name}*")]
        return found


@contextmanager
def own_lab(runs: Path, reports: bool = False) -> Iterator[Lab]:
    """A lab for one test; whatever is left of it is removed."""
    lab = Lab(fresh_lab(), runs, reports)
    try:
        yield lab
    finally:
        take_down(lab.labdir)


def trusted(lab: Lab, *words: str, code: int = 0, attempts: int = 3, within_s: float = 240) -> Any:
    """The summary of a run; one on a machine that did not keep up (exit 5) is no result, and is tried again."""
    for _ in range(attempts):
        done = ended(lab.words(*words, "--json"), within_s=within_s)
        if done.returncode != 5:
            break
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)
