"""Reads everything that a report shows of a run from its folder, once. Missing data is listed, not raised."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.wire.record_ranges import Count, Version
from results.errors import RecordError, TooLargeError
from results.files import yaml_document as document
from results.files.reading import MOST_DOCUMENT_BYTES, Decoder, Lines, read_limited
from results.files.run_dir import RunDir
from results.metrics import NS
from results.records.manifest import Manifest
from results.report.detection import Accusation, FaultSpan, Verdicts, read_detect, read_truth
from results.report.traffic import AgentEvents, Load, Progress, read_agents, read_counters
from results.summary import Summary
from testbed.errors import FabricError, UnknownNameError
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link
from testbed.model.node_names import DirectedLink

T = TypeVar("T")

MOST_FLAWS = 3
"""Most flaws of a scenario that a message lists (our choice)."""


class Counts(msgspec.Struct, frozen=True):
    """The fields that are read from `topology.json`."""

    v: Version
    planes: Count
    leaves: Count
    spines: Count
    hosts_per_leaf: Count


@dataclass(frozen=True)
class RunData:
    """One run; fields that the folder does not record are None or empty."""

    run: RunDir
    summary: Summary | None
    environment: Manifest | None
    fabric: Fabric | None
    scenario: dict[str, Any]
    scenario_text: str
    faults: list[FaultSpan]
    verdicts: Verdicts
    accusations: list[Accusation]
    agents: AgentEvents
    progress: Progress
    load: Load
    problems: list[str] = field(default_factory=list)
    """Messages for people about what could not be read."""
    silent: frozenset[str] = frozenset()
    """Names of files without data: absent, unreadable, or empty though there may have been something."""

    def silence(self, *paths: Path) -> str:
        """Names those of the files that have no data, to explain why something is unknown; empty if all have data."""
        return ", ".join(path.name for path in paths if path.name in self.silent)

    @property
    def broken_unknown(self) -> str:
        """Reason why empty `faults` does not mean that nothing was broken; empty if it does mean that."""
        return self.silence(self.run.truth)

    @property
    def name(self) -> str:
        """The run's own name, also when its folder was renamed."""
        return self.summary.run if self.summary else self.run.name

    @property
    def zero_ns(self) -> int:
        """Monotonic time of the first packet; if no file records it, of the first record of traffic."""
        if self.summary is not None and self.summary.first_packet_mono_ns is not None:
            return self.summary.first_packet_mono_ns
        starts = [int(times[0]) for times in (self.progress.at_ns, self.load.at_ns) if len(times)]
        starts += [self.agents.first_ns] if not starts and self.agents.first_ns is not None else []
        return min(starts, default=0)

    def seconds(self, mono_ns: int) -> float:
        """Return seconds since the first packet."""
        return (mono_ns - self.zero_ns) / NS

    @property
    def carries_data(self) -> NDArray[np.bool_]:
        """Return `(flows,)`: whether each flow of `progress` carries data, not only a collective's barriers."""
        flows = self.summary.flows if self.summary else ()
        count = self.progress.acked_bytes.shape[1]
        barrier = [flow.is_barrier for flow in flows] if len(flows) == count else [False] * count
        return ~np.array(barrier, np.bool_)

    @property
    def true_links(self) -> set[str]:
        """Return the directions that a fault was on."""
        return {fault.link for fault in self.faults}

    def ways(self, name: str) -> tuple[DirectedLink, ...]:
        """Return the directions that a link's name or pattern selects; none where the fabric does not have them."""
        if self.fabric is None:
            return ()
        try:
            return parse_link(name, self.fabric)
        except UnknownNameError:
            return ()


def read_run(run: RunDir) -> RunData:
    """Read a run's folder."""
    problems: list[str] = []
    files = [Lines(path, problems) for path in (run.truth, run.detect, run.agent, run.counters)]
    truth, detect, agent, counters = files
    summary = _document(run.summary, Summary, problems)
    decides = "uniform" if summary is None else summary.detected.expectation
    verdicts, accusations = read_detect(detect, decides)
    progress, load = read_counters(counters)
    scenario_text = _text(run.scenario, problems, document.MOST_BYTES).decode(errors="replace")
    scenario = _mapping(scenario_text, problems)
    topology = _document(run.topology, Counts, problems)
    faults, agents = read_truth(truth), read_agents(agent)
    silent = [lines for lines in (agent, counters) if not lines.found]
    silent += [detect] if not detect.found and not (detect.is_whole and _judged_nothing(summary)) else []
    silent += [truth] if not faults and not (truth.is_whole and _broke_nothing(summary, scenario)) else []
    unasked = [agent] if scenario.get("events") in (False, "off") else []
    problems += [f"{lines.name}: {_nothing_in(lines)}" for lines in silent if lines.is_whole and lines not in unasked]
    return RunData(
        run=run,
        summary=summary,
        environment=_document(run.environment, Manifest, problems),
        fabric=None if topology is None else _fabric(topology, problems),
        scenario=scenario,
        scenario_text=scenario_text,
        faults=faults,
        verdicts=verdicts,
        accusations=accusations,
        agents=agents,
        progress=progress,
        load=load,
        problems=problems,
        silent=frozenset(lines.name for lines in silent),
    )


def _nothing_in(lines: Lines) -> str:
    return "no fault that was set is in it" if lines.found else "empty"


def _judged_nothing(summary: Summary | None) -> bool:
    """Return whether the summary shows that there was no flow to judge, and so no verdict."""
    return summary is not None and summary.detected.state == "silent" and not any(summary.detected.verdicts.values())


def _broke_nothing(summary: Summary | None, scenario: dict[str, Any]) -> bool:
    """Return whether other files show that nothing was broken; the summary is more reliable than the scenario."""
    if summary is not None:
        return not summary.injected
    return bool(scenario) and not scenario.get("faults")


def _text(path: Path, problems: list[str], most_bytes: int) -> bytes:
    try:
        text = read_limited(path, most_bytes)
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}")
        return b""
    except TooLargeError as error:
        problems.append(f"{path.name}: {error.reason}")
        return b""
    if not text:
        problems.append(f"{path.name}: empty")
    return text


def _document(path: Path, kind: type[T], problems: list[str]) -> T | None:
    text = _text(path, problems, MOST_DOCUMENT_BYTES)
    try:
        return Decoder(kind).value(text, path.name) if text else None
    except RecordError as error:
        problems.append(str(error))
        return None


def _fabric(topology: Counts, problems: list[str]) -> Fabric | None:
    try:
        return Fabric.of(FabricSpec(topology.planes, topology.leaves, topology.spines, topology.hosts_per_leaf))
    except FabricError as error:
        problems.append(f"topology.json: {error}")
        return None


def _mapping(text: str, problems: list[str]) -> dict[str, Any]:
    if not text:
        return {}
    found = document.read_document(text)
    flaws = list(dict.fromkeys(f"line {flaw.line}: {flaw.wrong}" for flaw in found.flaws))
    problems += [f"scenario.yaml: {flaw}" for flaw in flaws[:MOST_FLAWS]]
    if len(flaws) > MOST_FLAWS:
        problems.append(f"scenario.yaml: {len(flaws) - MOST_FLAWS:,} more flaws")
    if flaws:
        return {}  # what was read of it says something else than the file
    if not isinstance(found.values, dict):
        problems.append("scenario.yaml: not a scenario")
        return {}
    return found.values
