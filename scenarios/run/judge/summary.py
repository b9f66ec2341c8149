"""Makes a run's summary: everything recorded against everything expected. Reads the run's folder, writes nothing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from agent.wire.record_ranges import VERSION
from faults.uncounted_moments import Outage, outages_of
from results.detect_log import said_in
from results.files.event_log import read_records
from results.files.run_dir import RunDir
from results.metrics import span_ns, totals_of
from results.records.witnesses import DECLARED, MRC, UNIFORM, Witness
from results.summary import Check, Detected, FlowResult, Injected, LabChange, Load, StageTime, Summary
from scenarios.file.plan import Plan
from scenarios.run import collect
from scenarios.run.collect import Recorded
from scenarios.run.judge.checks import as_planned_check, checks_of, collective_check, load_of, missed_times
from scenarios.run.judge.detection import Conclusion, conclusion_of, detected_of
from scenarios.run.judge.detector_demands import asked_of, links_to_judge, measured_pairs, needed_for
from scenarios.run.judge.traffic_checks import goodput_check, outcomes_of, path_checks
from scenarios.run.judge.witnesses import (
    SILENT,
    Truth,
    conclusion_of_events,
    ev_paths,
    in_force_since,
    note_on,
    silence_of_events,
    spelt_out,
    witness_of,
)
from scenarios.run.lab_changes import changes_of, host_ports_of, links_of, removed_faults


@dataclass(frozen=True)
class Judged:
    """A run that is over, with all that follows from its records, each computed once."""

    plan: Plan
    folder: RunDir
    recorded: Recorded

    @property
    def drops(self) -> tuple[Injected, ...]:
        """Return what every fault did."""
        return self.recorded.injected

    @cached_property
    def flows(self) -> tuple[FlowResult, ...]:
        """Return the result of every flow."""
        recorded = self.recorded
        return collect.flow_results(recorded.flows, recorded.progress, recorded.verified, recorded.after.workers)

    @cached_property
    def first_packet_ns(self) -> int | None:
        """Return when the first packet left, by the monotonic clock."""
        return min((flow.started_ns for flow in self.recorded.progress if flow.started_ns is not None), default=None)

    @cached_property
    def dropping(self) -> set[str]:
        """Return links that dropped and that the deciding expectation can name: hosts' links only with `declared`."""
        between = collect.dropping_links(self.drops, self.plan.fabric)
        return between | self._lossy_uplinks if self.plan.scenario.judged_by == "declared" else between

    @cached_property
    def _lossy_uplinks(self) -> set[str]:
        """Return links from hosts up to their leaves that dropped."""
        return collect.lossy_access_links(self.drops, self.plan.fabric)

    @cached_property
    def wanted(self) -> set[str]:
        """Return the links that had to be named."""
        return self.dropping if self.plan.detected is None else {str(link) for link in self.plan.detected}

    @cached_property
    def possible(self) -> frozenset[str]:
        """Return links that may be named as well."""
        if self.plan.detected is not None:
            return frozenset()
        return collect.possibly_dropping(self.drops, self.plan.fabric)

    @cached_property
    def changes(self) -> tuple[LabChange, ...]:
        """Return what somebody else changed in the lab."""
        before, after = self.recorded.lab_before, self.recorded.lab_after
        removed = removed_faults(self.recorded.after.faults, self.plan.fabric)
        return changes_of(before.differences if before else (), (*after.differences, *removed))

    @cached_property
    def outages(self) -> tuple[Outage, ...]:
        """Return ports that faults took out of service while traffic ran, by being set or cleared."""
        if self.first_packet_ns is None:
            return ()
        ends = [flow.finished_ns for flow in self.recorded.progress if flow.started_ns is not None]
        last_ns = max(self.recorded.after.mono_ns if end is None else end for end in ends)
        return outages_of(read_records(self.folder.truth), self.first_packet_ns, last_ns)

    @cached_property
    def witnesses(self) -> tuple[Witness, ...]:
        """Return MRC's own events, and SprayCheck by both expectations, each compared with the injector's counts."""
        plan, recorded, asked = self.plan, self.recorded, asked_of(self.plan)
        truth = Truth(
            frozenset(self.dropping | self._lossy_uplinks),
            collect.possibly_dropping(self.drops, plan.fabric),
            in_force_since(read_records(self.folder.truth)),
            self.first_packet_ns,
            links_of(self.changes),
        )
        workers, agents = recorded.after.workers, read_records(self.folder.agent)
        mute = silence_of_events(plan.scenario)
        events = SILENT
        if not mute:
            events = conclusion_of_events(
                ev_paths(recorded.flows, recorded.progress, workers, agents, plan.fabric), asked
            )
        found = [witness_of(MRC, events, truth, plan.fabric, False, mute)]
        for name, expectation in ((UNIFORM, "uniform"), (DECLARED, "declared")):
            said = self._conclusion(expectation)
            decides, note = expectation == plan.scenario.judged_by, note_on(said, plan.scenario)
            found.append(witness_of(name, said, truth, plan.fabric, decides, note))
        return tuple(found)

    def _conclusion(self, expectation: str, right_causes: Collection[str] = ()) -> Conclusion:
        """Return what SprayCheck concluded by one expectation."""
        said = said_in(self.recorded.verdicts, expectation)
        links, spec = links_to_judge(self.plan, said.chosen), self.plan.fabric.spec
        one = self.plan.scenario.detector.select == "one"
        paths = len(said.paths) if one else len(measured_pairs(self.plan)) * spec.planes * spec.spines
        return conclusion_of(said, self.first_packet_ns, links, paths, _asked_text(self.plan), right_causes)

    @cached_property
    def detected(self) -> Detected:
        """Return what SprayCheck concluded by the deciding expectation, compared with the truth."""
        plan, recorded = self.plan, self.recorded
        causes = {each.link for witness in self.witnesses if witness.decides for each in witness.named if each.right}
        others = {each.link for witness in self.witnesses if witness.decides for each in witness.named if each.changed}
        conclusion = self._conclusion(plan.scenario.judged_by, causes)
        expected = None if plan.detected is None else self.wanted
        judges, unannounced = plan.scenario.expect.detection == "judged", recorded.collectives.unannounced
        found = detected_of(
            conclusion,
            self.dropping,
            expected,
            self.possible,
            unannounced,
            judges,
            causes,
            others | links_of(self.changes),
            lambda name: spelt_out(name, plan.fabric),
        )
        if plan.scenario.detector.counter_bits != 32:
            return found
        asked = asked_of(plan)
        return msgspec.structs.replace(found, run_alarm=asked.run_alarm, run_tests=asked.run_tests)

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """Return all checks."""
        plan, recorded, expect = self.plan, self.recorded, self.plan.scenario.expect
        by_cause = {link for cause in self.detected.common for link in spelt_out(cause.link, plan.fabric)}
        checks = checks_of(
            expect,
            self.wanted,
            self.detected,
            self.flows,
            self.drops,
            self.possible,
            self.outages,
            self.changes,
            by_cause,
        )
        checks += (as_planned_check(self.changes, self.recorded.lab_after.nodes),)
        outcomes = outcomes_of(recorded.flows, recorded.after.workers, read_records(self.folder.agent), plan.fabric)
        checks += path_checks(expect, plan.retired, outcomes)
        if expect.goodput is not None:
            counted = read_records(self.folder.counters)
            checks += (goodput_check(expect, counted, self.flows, self.first_packet_ns),)
        if plan.collectives:
            checks += (collective_check(recorded.collectives.rows, recorded.collectives.failed),)
        return checks

    @cached_property
    def load(self) -> Load:
        """Return whether the machine kept up, and why not."""
        before, after, scenario = self.recorded.before, self.recorded.after, self.plan.scenario
        machine = collect.machine_counts(
            before.workers,
            after.workers,
            before.softnet_drops,
            after.softnet_drops,
            collect.shut_ports(self.drops, self.plan.fabric) | host_ports_of(self.changes, self.plan.fabric),
            read_records(self.folder.counters),
        )
        steered = scenario.transport.congestion.algorithm != "off"
        missed = missed_times(self.checks)
        return load_of(machine, scenario.expect, self.flows, self.drops, steered, missed, self.outages, self.changes)

    @property
    def outcome(self) -> str:
        """Return `pass`, `fail`, or `overloaded`: then neither is known."""
        if self.load.overloaded:
            return "overloaded"
        return "pass" if all(check.ok for check in self.checks) else "fail"


def summary_of(run: Judged, stages: Sequence[StageTime]) -> Summary:
    """Return the whole summary."""
    plan, recorded = run.plan, run.recorded
    return Summary(
        v=VERSION,
        run=run.folder.name,
        scenario=plan.scenario.name,
        seed=plan.scenario.seed,
        outcome=run.outcome,
        fabric=str(plan.scenario.topology),
        folder=str(run.folder.path),
        totals=totals_of(run.flows, span_ns((flow.started_ns, flow.finished_ns) for flow in recorded.progress)),
        flows=run.flows,
        injected=run.drops,
        detected=run.detected,
        checks=run.checks,
        load=run.load,
        captures=recorded.captures,
        stages=tuple(stages),
        first_packet_mono_ns=run.first_packet_ns,
        collectives=recorded.collectives.rows,
        witnesses=run.witnesses,
        changed=run.changes,
    )


def _asked_text(plan: Plan) -> str:
    """State the requested drop rate, and how many packets it needs."""
    needed, rate = needed_for(plan, asked_of(plan).min_rate), plan.scenario.detector.min_rate
    over = "over a link" if plan.scenario.judged_by == "declared" else "per path"
    return f"a drop of {rate} needs {'more than a flow can have' if needed is None else f'{needed:,} {over}'}"
