"""Defines the layout of one run's folder; no other module has its file names.

It does not know what the files contain. A folder belongs to the caller, also under sudo (`user_files`).
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
        """The run's name, which every record has."""
        return self.path.name

    @property
    def scenario(self) -> Path:
        """The scenario with all defaults filled in."""
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
        """Injected faults and the kernel's counts of them."""
        return self.path / "truth.jsonl"

    @property
    def detect(self) -> Path:
        """Reports of the witnesses."""
        return self.path / "detect.jsonl"

    @property
    def counters(self) -> Path:
        """Load of the machine, once per second."""
        return self.path / "counters.jsonl"

    @property
    def agent(self) -> Path:
        """Reports of the MRC agents."""
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
        """The report: one HTML file with figures."""
        return self.path / "report.html"

    @property
    def figures(self) -> Path:
        """The report's figures as SVG and PNG."""
        return self.path / "figures"

    @property
    def pcap(self) -> Path:
        """Captures, one file per end of a link."""
        return self.path / "pcap"

    @property
    def logs(self) -> Path:
        """Logs of the lab's processes (stderr); only of a run that did not finish."""
        return self.path / "logs"

    def discard(self) -> None:
        """Remove the folder if it is empty, as when the run was refused."""
        for path in (self.pcap, self.path):
            with suppress(OSError), rights_of(invoker()):
                path.rmdir()

    def remove(self) -> None:
        """Remove the folder with everything in it. Raises OSError."""
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
    """Point the link `latest` beside the run to it, in one step, so that it never dangles. Raises `RunFolderError`."""
    link = run.path.parent / LATEST
    fresh = link.with_name(f".{LATEST}.{os.getpid()}")
    try:
        with rights_of(invoker()):
            _lead(link, fresh, run.name)
    except OSError as error:
        raise RunFolderError(f"{link}: cannot point to {run.name}: {error.strerror}") from error


def _fresh(runs: Path, name: str) -> Path:
    """Return a new folder, numbered when two runs start in the same second."""
    for attempt in range(1, 1000):
        path = runs / (name if attempt == 1 else f"{name}-{attempt}")
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise RunFolderError(f"{runs / name}: 999 such folders exist")


def _lead(link: Path, fresh: Path, name: str) -> None:
    """Create the link `fresh` and rename it to `link`. Raises OSError, and then leaves nothing."""
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    try:
        fresh.replace(link)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
