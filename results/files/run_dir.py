"""The layout of one run's folder: the only place with its file names.

Knows nothing of what the files hold. A folder belongs to whoever called, also under sudo: `user_files` makes it.
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from results.errors import RunFolderError
from results.files.user_files import in_whose_name, invoker, rights_of

LATEST = "latest"


@dataclass(frozen=True)
class RunDir:
    """One run's folder; make a new one with `create`."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name, which every record carries."""
        return self.path.name

    @property
    def scenario(self) -> Path:
        """The scenario with everything that was left out filled in."""
        return self.path / "scenario.yaml"

    @property
    def environment(self) -> Path:
        """Kernel, tools, versions, command line."""
        return self.path / "env.json"

    @property
    def topology(self) -> Path:
        """Nodes, links, addresses."""
        return self.path / "topology.json"

    @property
    def truth(self) -> Path:
        """What was injected and what the kernel counted of it."""
        return self.path / "truth.jsonl"

    @property
    def detect(self) -> Path:
        """What the witnesses said."""
        return self.path / "detect.jsonl"

    @property
    def counters(self) -> Path:
        """How the machine fared, once a second."""
        return self.path / "counters.jsonl"

    @property
    def agent(self) -> Path:
        """What the MRC agents reported."""
        return self.path / "agent.jsonl"

    @property
    def summary(self) -> Path:
        """The result for programs."""
        return self.path / "summary.json"

    @property
    def summary_text(self) -> Path:
        """The result for people."""
        return self.path / "summary.txt"

    @property
    def report(self) -> Path:
        """The result to look at, one HTML file."""
        return self.path / "report.html"

    @property
    def figures(self) -> Path:
        """The report's figures as SVG and PNG."""
        return self.path / "figures"

    @property
    def pcap(self) -> Path:
        """Captures, one file an end of a link."""
        return self.path / "pcap"

    @property
    def logs(self) -> Path:
        """What the lab's processes wrote to stderr; only of a run that did not get to its end."""
        return self.path / "logs"

    def discard(self) -> None:
        """Remove the folder if nothing is in it, as when what it was made for was refused."""
        for path in (self.pcap, self.path):
            with suppress(OSError), rights_of(invoker()):
                path.rmdir()

    def remove(self) -> None:
        """Remove the folder with all that is in it. Raises OSError."""
        with rights_of(invoker()):
            shutil.rmtree(self.path)


def create(runs: Path, subject: str, suffix: str, now: datetime | None = None) -> RunDir:
    """Make `runs/<UTC>-<subject>-<suffix>`. Raises `RunFolderError`."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    try:
        with rights_of(invoker()):
            runs.mkdir(parents=True, exist_ok=True)
            return RunDir(_fresh(runs, f"{stamp}-{subject}-{suffix}"))
    except OSError as error:
        raise RunFolderError(f"{runs}: cannot make a run folder: {error.strerror}{in_whose_name()}") from error


def point_latest(run: RunDir) -> None:
    """Let `latest` beside the run lead to it, in one step, so that it never leads nowhere. Raises `RunFolderError`."""
    link = run.path.parent / LATEST
    fresh = link.with_name(f".{LATEST}.{os.getpid()}")
    try:
        with rights_of(invoker()):
            _lead(link, fresh, run.name)
    except OSError as error:
        raise RunFolderError(f"{link}: cannot be made to lead to {run.name}: {error.strerror}") from error


def _fresh(runs: Path, name: str) -> Path:
    """A new folder, numbered when two runs start in the same second."""
    for attempt in range(1, 1000):
        path = runs / (name if attempt == 1 else f"{name}-{attempt}")
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise RunFolderError(f"{runs / name}: there are 999 of them")


def _lead(link: Path, fresh: Path, name: str) -> None:
    """Make `fresh` and put it in the place of `link`. Raises OSError, and then leaves nothing."""
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    try:
        fresh.replace(link)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
