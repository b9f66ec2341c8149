"""What a run is asked for, who hears of it, and what it found out: the values that pass between its stages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from results.files.event_log import Fields
from results.records.source_code import SourceCode
from results.summary import CaptureResult
from scenarios.file.model import Scenario
from scenarios.lab.client import Owner, Worker
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Checked, FaultState
from scenarios.workload.collectives import CollectiveOutcome
from scenarios.workload.traffic import FlowProgress, OpenFlow, Verification, WorkerCounts
from testbed.model.fabric import Fabric


@dataclass(frozen=True)
class RunOrder:
    """What the user asked for."""

    scenario: Scenario
    labdir: LabDir
    attach: bool
    """Use the lab that is up instead of building one."""
    runs: Path
    """Where run folders go."""
    command: tuple[str, ...]
    workers: int | Literal["per-host"] | None = None
    mechanism: str = "auto"


class Listener(Protocol):
    """Who hears how the run goes."""

    def stage(self, name: str) -> None:
        """A stage begins."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def waiting(self, text: str) -> None:
        """Nothing has happened yet of what is waited for, or not enough; told often."""

    def progress(self, done_bytes: int, all_bytes: int, resent: int) -> None:
        """Traffic went on."""


@dataclass(frozen=True)
class LabInUse:
    """The lab that a run works on."""

    fabric: Fabric
    owner: Owner
    workers: tuple[Worker, ...]
    code: SourceCode | None = None
    """The copy of the program that the lab runs."""


@dataclass(frozen=True)
class Readings:
    """Counters of one moment."""

    mono_ns: int
    workers: tuple[WorkerCounts, ...]
    softnet_drops: int
    faults: tuple[FaultState, ...]
    gone: tuple[FaultState, ...] = ()
    """Faults that were cleared since the run began, by whomever."""


@dataclass(frozen=True)
class Recorded:
    """Everything a run has measured, before anybody judges it."""

    flows: tuple[OpenFlow, ...]
    progress: tuple[FlowProgress, ...]
    verified: tuple[Verification, ...]
    collectives: CollectiveOutcome
    verdicts: tuple[Fields, ...]
    """What SprayCheck wrote of the run."""
    before: Readings
    after: Readings
    captures: tuple[CaptureResult, ...]
    lab_before: Checked | None
    """The lab beside its plan before this run touched it; None of a lab that this run has built."""
    lab_after: Checked
