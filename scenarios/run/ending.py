"""The last stages of a run: its records into the folder, everything recorded to a judged summary."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec
import yaml

from results.errors import RecordError
from results.event_log import Fields, merge_records, read_records, stamped, timestamp, write_records
from results.manifest import manifest
from results.metrics import span_ns, totals_of
from results.run_dir import RunDir, point_latest
from results.summary import VERSION, Check, Injected, StageTime, Summary, summary_json, summary_text
from results.topology import topology_document
from results.witnesses import DECLARED, MRC, UNIFORM, Witness
from scenarios.file.plan import Plan
from scenarios.run import collect
from scenarios.run.asked import asked_of
from scenarios.run.conclude import conclusion_of
from scenarios.run.ev_witness import conclusion_of_events, ev_paths
from scenarios.run.expect import checks_of, collective_check, detected_of, load_of, missed_times
from scenarios.run.goodput import goodput_check
from scenarios.run.measuring import gets_uneven_parts
from scenarios.run.order import LabInUse, Listener, Moment, Recorded, RunOrder
from scenarios.run.path_outcomes import outcomes_of, path_checks
from scenarios.run.power import power_of
from scenarios.run.small_flows import left_over
from scenarios.run.witnesses import SILENT, Truth, in_force_since, note_on, silence_of_events, witness_of


def describe(order: RunOrder, plan: Plan, folder: RunDir, started: Moment) -> None:
    """Write what is known before the first packet: scenario, machine, fabric."""
    scenario = plan.scenario
    resolved = scenario.model_dump(mode="json", exclude_none=True, by_alias=True)
    folder.scenario.write_text(yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True), encoding="utf-8")
    facts = manifest(timestamp(started.utc_ns), order.command, scenario.name, scenario.seed, order.attach)
    folder.environment.write_bytes(_json(facts))
    folder.topology.write_bytes(_json(topology_document(plan.fabric, order.labdir.lab)))


def collect_records(
    order: RunOrder, plan: Plan, folder: RunDir, lab: LabInUse, recorded: Recorded, started: Moment
) -> None:
    """Copy the records of this run into its folder, each stamped with the run."""
    labdir, seed = order.labdir, plan.scenario.seed
    truth = collect.truth_of(list(read_records(labdir.truth)), started.mono_ns)
    truth += [stamped("FAULT_COUNT", "runner", msgspec.to_builtins(each)) for each in injected(recorded)]
    write_records(folder.truth, truth, folder.name, seed)
    write_records(folder.detect, list(recorded.verdicts), folder.name, seed)
    files = labdir.worker_event_files(len(lab.workers))
    more = [*_ev_records(recorded), *_reorder_records(recorded)]
    merge_records(folder.agent, files, started.mono_ns, more, folder.name, seed)


@dataclass
class Unfinished:
    """Sees to the folder of a run that does not get to its summary: what was recorded is collected all the same.

    A run that was refused before its faults were in force leaves no folder. To be left after the faults are cleared.
    """

    order: RunOrder
    plan: Plan
    folder: RunDir
    lab: LabInUse
    started: Moment
    listener: Listener
    has_begun: bool = False
    """Whether anything has happened that is worth a folder."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Collect or discard; the error that ended the run is the one to be told, not one of these."""
        if error is None:
            return
        with suppress(OSError, RecordError):
            if self.has_begun:
                self._collect()
                self._keep_logs()
                self.listener.note(f"what was recorded until then: {self.folder.path}")
            else:
                shutil.rmtree(self.folder.path)

    def _collect(self) -> None:
        labdir, since_ns = self.order.labdir, self.started.mono_ns
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
        """They go with the lab, and may be all that tells why a process died."""
        for log in sorted(self.order.labdir.path.glob("*.log")):
            if log.stat().st_size:
                self.folder.logs.mkdir(exist_ok=True)
                shutil.copyfile(log, self.folder.logs / log.name)


def judge(order: RunOrder, plan: Plan, folder: RunDir, recorded: Recorded, stages: Sequence[StageTime]) -> Summary:
    """Everything recorded against everything expected; written into the folder and returned."""
    flows = collect.flow_results(recorded.flows, recorded.progress, recorded.verified, recorded.after.workers)
    drops = injected(recorded)
    dropping = collect.dropping_links(drops, plan.fabric)
    wanted = dropping if plan.detected is None else {str(link) for link in plan.detected}
    starts = [flow.started_ns for flow in recorded.progress if flow.started_ns is not None]
    first_ns, decides = min(starts, default=None), plan.scenario.judged_by
    conclusion = conclusion_of(
        recorded.verdicts,
        first_ns,
        recorded.verdicts_wanted,
        decides,
        _asked_text(plan),
        power_of(plan).needed,
        left_over(plan),
    )
    possible = collect.possibly_dropping(drops, plan.fabric) if plan.detected is None else frozenset[str]()
    expected = None if plan.detected is None else wanted
    judged = plan.scenario.expect.detection == "judged"
    witnesses = witnesses_of(plan, folder, recorded, drops, first_ns)
    causes = {each.link for witness in witnesses if witness.decides for each in witness.named if each.right}
    unannounced = recorded.collectives.unannounced
    detected = detected_of(conclusion, dropping, expected, possible, unannounced, judged, causes)
    if plan.scenario.detector.counter_bits == 32:
        asked = asked_of(plan)
        detected = msgspec.structs.replace(detected, run_alarm=asked.run_alarm, run_tests=asked.run_tests)
    before, after = recorded.before, recorded.after
    machine = collect.machine_counts(
        before.workers,
        after.workers,
        before.softnet_drops,
        after.softnet_drops,
        collect.shut_ports(drops, plan.fabric),
        read_records(folder.counters),
    )
    goodput: tuple[Check, ...] = ()
    if plan.scenario.expect.goodput is not None:
        goodput = (goodput_check(plan.scenario.expect, read_records(folder.counters), flows, first_ns),)
    steered = plan.scenario.transport.congestion.algorithm != "off"
    uneven = gets_uneven_parts(plan.scenario)
    checks = checks_of(plan.scenario.expect, wanted, detected, flows, drops, possible, uneven)
    load = load_of(machine, plan.scenario.expect, flows, drops, steered, missed_times((*checks, *goodput)))
    outcomes = outcomes_of(recorded.flows, after.workers, read_records(folder.agent), plan.fabric)
    checks += (*path_checks(plan.scenario.expect, plan.retired, outcomes), *goodput)
    if plan.collectives:
        checks += (collective_check(recorded.collectives.rows, recorded.collectives.failed),)
    passed = all(check.ok for check in checks)
    summary = Summary(
        v=VERSION,
        run=folder.name,
        scenario=plan.scenario.name,
        seed=plan.scenario.seed,
        outcome="overloaded" if load.overloaded else "pass" if passed else "fail",
        fabric=str(plan.scenario.topology),
        folder=str(folder.path),
        totals=totals_of(flows, span_ns((flow.started_ns, flow.finished_ns) for flow in recorded.progress)),
        flows=flows,
        injected=drops,
        detected=detected,
        checks=checks,
        load=load,
        captures=recorded.captures,
        stages=tuple(stages),
        first_packet_mono_ns=min(starts, default=None),
        collectives=recorded.collectives.rows,
        witnesses=witnesses,
    )
    folder.summary.write_bytes(summary_json(summary))
    folder.summary_text.write_text(summary_text(summary), encoding="utf-8")
    point_latest(folder)
    return summary


def witnesses_of(
    plan: Plan, folder: RunDir, recorded: Recorded, drops: Sequence[Injected], first_ns: int | None
) -> tuple[Witness, ...]:
    """MRC's own events, and SprayCheck by both expectations, each beside what the injector counted."""
    truth = Truth(
        frozenset(collect.dropping_links(drops, plan.fabric) | collect.lossy_access_links(drops, plan.fabric)),
        collect.possibly_dropping(drops, plan.fabric),
        in_force_since(read_records(folder.truth)),
        first_ns,
    )
    scenario, judged = plan.scenario, plan.scenario.judged_by
    asked = asked_of(plan)
    paths = ev_paths(recorded.flows, recorded.progress, recorded.after.workers, read_records(folder.agent), plan.fabric)
    mute = silence_of_events(scenario)
    events = conclusion_of_events(paths, asked) if not mute else SILENT
    found = [witness_of(MRC, events, truth, plan.fabric, False, mute)]
    for name, expectation in ((UNIFORM, "uniform"), (DECLARED, "declared")):
        said = conclusion_of(recorded.verdicts, first_ns, recorded.verdicts_wanted, expectation)
        found.append(witness_of(name, said, truth, plan.fabric, expectation == judged, note_on(said, scenario)))
    return tuple(found)


def _asked_text(plan: Plan) -> str:
    """What was asked of SprayCheck, and how many packets that takes."""
    power = power_of(plan)
    needs = "more than a flow can have" if power.needed is None else f"about {power.needed:,}"
    return f"a drop of {power.min_rate} needs {needs}"


def injected(recorded: Recorded) -> tuple[Injected, ...]:
    """What every fault did during the run."""
    return collect.injected_since(recorded.before.faults, recorded.after.faults, recorded.after.gone)


def _ev_records(recorded: Recorded) -> list[Fields]:
    """What every queue pair counted path by path, one record a queue pair."""
    by_qp: dict[tuple[int, int], list[Fields]] = {}
    for worker in recorded.after.workers:
        for row in worker.evs:
            by_qp.setdefault((row["host"], row["qpn"]), []).append(
                {name: value for name, value in row.items() if name not in ("host", "qpn")}
            )
    mine = {(item.source.host, item.source.qpn) for item in recorded.flows}
    return [
        stamped("EV_COUNTERS", f"h{host}", {"qpn": qpn, "evs": rows})
        for (host, qpn), rows in by_qp.items()
        if (host, qpn) in mine
    ]


def _reorder_records(recorded: Recorded) -> list[Fields]:
    """In what order the packets of every flow arrived, one record a receiving queue pair."""
    mine = {(item.destination.host, item.destination.qpn) for item in recorded.flows}
    return [
        stamped(
            "REORDERING", f"h{row.host}", {"qpn": row.qpn, "in_order": row.in_order, "late": row.late, "most": row.most}
        )
        for worker in recorded.after.workers
        for row in worker.reordering
        if (row.host, row.qpn) in mine
    ]


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
