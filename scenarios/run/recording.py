"""Writes a run's folder: what is known before it, its records, and the judged summary."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec
import yaml

from agent.base.moment import Moment
from results.errors import RecordError
from results.files.event_log import Fields, merge_records, read_records, stamped, timestamp, write_records
from results.files.run_dir import RunDir, point_latest
from results.files.user_files import make_folder, write_file
from results.records.manifest import Repeating, manifest, topology_document
from results.records.source_hash import SourceCode
from results.summary import Summary, summary_json, summary_text
from scenarios.file.plan import Plan
from scenarios.isolated import own_code
from scenarios.lab.start.capacity import KEPT_BYTES
from scenarios.run import collect
from scenarios.run.collect import Recorded
from scenarios.run.disk_errors import TRUTH_BYTES, KeptRoom, Unwritten
from scenarios.run.request import LabInUse, Listener, RunRequest
from scenarios.workload.traffic import FlowEnd, ReorderCounts
from testbed.model.node_names import DirectedLink, Role


def describe(request: RunRequest, plan: Plan, folder: RunDir, started: Moment, lab_code: SourceCode | None) -> None:
    """Write what is known before the first packet: scenario, machine, fabric; keep room for what comes last."""
    KeptRoom(folder.path).keep()
    scenario = plan.scenario
    resolved = scenario.model_dump(mode="json", exclude_none=True, by_alias=True)
    write_file(folder.scenario, yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True).encode())
    repeating, asked_at = repeating_of(plan, request.attach), timestamp(started.utc_ns)
    facts = manifest(
        asked_at, request.command, scenario.name, scenario.seed, repeating, request.attach, own_code(), lab_code
    )
    write_file(folder.environment, _json(facts))
    write_file(folder.topology, _json(topology_document(plan.fabric, request.labdir.lab)))


def collect_records(
    request: RunRequest,
    plan: Plan,
    folder: RunDir,
    lab: LabInUse,
    recorded: Recorded,
    started: Moment,
    unwritten: Unwritten,
) -> None:
    """Copy the records of this run into its folder, each stamped with the run; the truth first, in room kept for it."""
    labdir, seed = request.labdir, plan.scenario.seed
    truth = collect.truth_of(list(read_records(labdir.truth)), started.mono_ns)
    truth += [stamped("FAULT_COUNT", "runner", msgspec.to_builtins(each)) for each in recorded.injected]
    with unwritten.noting():
        KeptRoom(folder.path).give(KEPT_BYTES - TRUTH_BYTES)
        write_records(folder.truth, truth, folder.name, seed)
    with unwritten.noting():
        write_records(folder.detect, list(recorded.verdicts), folder.name, seed)
    files = labdir.worker_event_files(len(lab.workers))
    more = [*_ev_records(recorded), *_reorder_records(recorded)]
    with unwritten.noting():
        merge_records(folder.agent, files, started.mono_ns, more, folder.name, seed)


@dataclass
class Unfinished:
    """The folder of a run that may fail before its summary: it then gets what was recorded until then.

    A run that was refused before its faults were in force leaves no folder. Leave the context after faults are cleared.
    """

    request: RunRequest
    plan: Plan
    folder: RunDir
    lab: LabInUse
    started: Moment
    listener: Listener
    has_begun: bool = False
    """Whether the run has anything to keep."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Collect or discard; report the error that ended the run, not one of these."""
        if error is None:
            return
        with suppress(OSError, RecordError):
            KeptRoom(self.folder.path).give()
            if self.has_begun:
                self._collect()
                self._keep_logs()
                self.listener.note(f"what was recorded until then: {self.folder.path}")
            else:
                self.folder.remove()

    def _collect(self) -> None:
        labdir, since_ns = self.request.labdir, self.started.mono_ns
        found = {
            self.folder.truth: collect.truth_of(list(read_records(labdir.truth)), since_ns),
            self.folder.detect: collect.of_time(read_records(labdir.detect), since_ns),
        }
        for file, records in found.items():
            if not file.exists():
                write_records(file, records, self.folder.name, self.plan.scenario.seed)
        if not self.folder.agent.exists():
            files = labdir.worker_event_files(len(self.lab.workers))
            merge_records(self.folder.agent, files, since_ns, (), self.folder.name, self.plan.scenario.seed)

    def _keep_logs(self) -> None:
        """Copy the logs of the lab's processes, which end with the lab and may show why a process died."""
        for log in sorted(self.request.labdir.path.glob("*.log")):
            if log.stat().st_size:
                make_folder(self.folder.logs)
                write_file(self.folder.logs / log.name, log.read_bytes())


def write_summary(folder: RunDir, summary: Summary, unwritten: Unwritten) -> None:
    """Write the summary, and make the run the latest, as far as the disk allows."""
    with unwritten.noting():
        KeptRoom(folder.path).give()
    with unwritten.noting():
        write_file(folder.summary, summary_json(summary))
    with unwritten.noting():
        write_file(folder.summary_text, summary_text(summary).encode())
    with unwritten.noting():
        point_latest(folder)


def _ev_records(recorded: Recorded) -> list[Fields]:
    """Return what every queue pair counted per path, one record per queue pair."""
    by_qp: dict[tuple[int, int], list[Fields]] = {}
    for worker in recorded.after.workers:
        for row in worker.evs:
            by_qp.setdefault((row["host"], row["qpn"]), []).append(
                {name: value for name, value in row.items() if name not in ("host", "qpn")}
            )
    peers = {(item.source.host, item.source.qpn): item.destination for item in recorded.flows}
    return [
        stamped("EV_COUNTERS", f"h{host}", {"qpn": qpn, **_peer(peers[host, qpn]), "evs": rows})
        for (host, qpn), rows in by_qp.items()
        if (host, qpn) in peers
    ]


def _reorder_records(recorded: Recorded) -> list[Fields]:
    """Return in what order the packets of every flow arrived, one record per receiving queue pair."""
    peers = {(item.destination.host, item.destination.qpn): item.source for item in recorded.flows}
    return [
        stamped("REORDERING", f"h{row.host}", {"qpn": row.qpn, **_peer(peers[row.host, row.qpn]), **_order(row)})
        for worker in recorded.after.workers
        for row in worker.reordering
        if (row.host, row.qpn) in peers
    ]


def _order(row: ReorderCounts) -> Fields:
    return {"in_order": row.in_order, "late": row.late, "most": row.most}


def _peer(end: FlowEnd) -> Fields:
    """Return the other end of a queue pair, as fields."""
    return {"peer": end.host, "peer_qpn": end.qpn}


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


_DROPS = "which packets at a port a random drop takes, by their number there, where truth.jsonl has its fault_seed"
_VARIES = (
    "which packets a random drop takes whose fault_seed is null (netem before Linux 6.7)",
    "timing: rates, which packets share a SACK, on which path a lost packet is sent again",
)
_BY_HAND = ", unless links are denied or ports shut by hand"


def repeating_of(plan: Plan, attached: bool) -> Repeating:
    """State what repeats with the seed and what does not; `attached`: on a lab that others may change meanwhile."""
    moved, by_hand = "; ".join(_moves_paths(plan, attached)), _BY_HAND if attached else ""
    stays = (
        f"the order in which each queue pair uses its entropy values{by_hand}",
        f"which packets belong to which path, hence every N and λ{by_hand}",
    )
    lost = f"which packets take which path, hence λ as declared: {moved}"
    chosen = "which flows are measured: leaves choose among those that go on (detector.select one)"
    one = plan.scenario.detector.select == "one"
    return Repeating(
        repeats=("payload bytes", *(() if moved else stays), _DROPS),
        varies=(*((lost,) if moved else ()), *((chosen,) if one else ()), *_VARIES),
    )


def _moves_paths(plan: Plan, attached: bool) -> Iterator[str]:
    """Yield why entropy values leave and return, or differ, at moments that no seed determines."""
    ev = plan.scenario.transport.ev
    if ev.loss_policy != "off":
        yield f"entropy values leave with losses and return with answers (transport.ev.loss_policy {ev.loss_policy})"
    if shut := sorted({kind for kind, way in _shut_ports(plan) if Role.HOST in _roles(way)}):
        yield f"they leave while a host's port is shut ({', '.join(shut)})"
    if plan.scenario.detector.act:
        yield "they leave when a link is named (detector.act)"
    if attached and (ev.active is not None or not ev.profile.is_all):
        yield "they are chosen by the lab's seed and the queue pair's number (run --attach)"


def _shut_ports(plan: Plan) -> Iterator[tuple[str, DirectedLink]]:
    for planned in plan.faults:
        for fault in planned.worded.faults:
            if fault.shuts_ports():
                yield from ((fault.kind, way) for way in planned.chosen.ways)


def _roles(way: DirectedLink) -> tuple[Role, Role]:
    return way.sender.role, way.receiver.role
