"""Runs one scenario as a flat list of named stages, the same for a lab of its own and for one that is up.

A stage that makes something registers how to undo it; whatever happens, everything is undone in reverse order.
"""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from agent.base.moment import now
from results.summary import StageTime, Summary
from scenarios.file.plan import Plan
from scenarios.interrupts import undoing
from scenarios.lab.start.requirements import missing_here
from scenarios.run import recording, stages
from scenarios.run.collect import Recorded
from scenarios.run.disk_errors import Unwritten
from scenarios.run.judge.plan_warnings import warnings_of
from scenarios.run.judge.summary import Judged, summary_of
from scenarios.run.request import Listener, RunRequest

P = ParamSpec("P")
T = TypeVar("T")


class Stages:
    """The runner of stages, which shows each and keeps how long it took."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.times: list[StageTime] = []

    def __call__(self, name: str, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one stage."""
        self._listener.stage(name)
        began = time.monotonic()
        try:
            return act(*args, **kwargs)
        finally:
            self.times.append(StageTime(name, round(time.monotonic() - began, 3)))


def run_scenario(request: RunRequest, listener: Listener) -> Summary:
    """Run a scenario and judge it; the run folder then holds everything.

    Raises this folder's errors, those of testbed, faults and results, `InterruptedRunError`, and, when all is done and
    judged but not all is written, `FolderIncompleteError`; in each case what was made is undone first.
    """
    stage = Stages(listener)
    started, unwritten = now(), Unwritten()
    with undoing() as undo:
        plan = stage("plan", stages.plan_for, request)
        _warn_of(plan, listener)
        lab = stage("lab", stages.lab_for, request, plan, listener, undo)
        lab_before = stage("compare with plan", stages.check_before, lab, request, listener)
        faults = stage("faults asked for", stages.faults_to_set, lab, plan)
        epoch, said = stage("epoch", stages.new_epoch, lab, request.labdir, plan)
        folder = stage("run folder", stages.new_folder, request, plan)
        unfinished = undo.enter_context(recording.Unfinished(request, plan, folder, lab, started, listener))
        stage("describe", recording.describe, request, plan, folder, started, lab.code)
        stage("captures", stages.start_captures, lab, plan, folder, undo)
        stage("faults", stages.set_faults, lab, plan, request, faults, undo)
        unfinished.has_begun = True
        traffic = stage("queue pairs", stages.open_traffic, lab, plan, listener, undo)
        before = stage("counters before", stages.readings, lab, traffic, request.labdir, time.monotonic_ns())
        stage("write", stages.start_writing, lab, plan, traffic, epoch)
        progress = stage("transfer", stages.wait_ended, lab, plan, traffic, folder, listener, unwritten)
        verified = stage("verify", traffic.verify)
        verdicts = stage("detection", stages.wait_judged, lab, said, plan, epoch, listener)
        after = stage("counters after", stages.readings, lab, traffic, request.labdir, before.mono_ns)
        captures = stage("end captures", stages.end_captures, lab, plan, folder, unwritten)
        stage("clear faults", stages.clear_faults, lab, faults)
        lab_after = stage("compare with plan again", stages.check_after, lab)
        recorded = Recorded(
            traffic.flows,
            progress,
            verified,
            traffic.outcome(progress),
            verdicts,
            before,
            after,
            captures,
            lab_before,
            lab_after,
        )
        stage("collect", recording.collect_records, request, plan, folder, lab, recorded, started, unwritten)
        summary = summary_of(Judged(plan, folder, recorded), stage.times)
        recording.write_summary(folder, summary, unwritten)
    return unwritten.require_none(summary)


def _warn_of(plan: Plan, listener: Listener) -> None:
    """Show what of a plan may surprise the user on this machine."""
    for text in warnings_of(plan, missing_here()):
        listener.note(f"warning: {text}")
