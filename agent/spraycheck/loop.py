"""The drive loop of the counter process: ask every leaf, write verdicts, localise, wait. Owns no policy."""

from collections.abc import Callable

from agent.base.moment import Moment, now
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.accuse.unheard_flows import Unheard
from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.leaf.leaves import Leaves, owed_of, with_source_counts
from agent.spraycheck.records import (
    conclusion_records,
    detect_records,
    localize_record,
    select_record,
    unmeasured_record,
)


def run(leaves: Leaves, log: DetectLog, poll_s: float, wait: Callable[[float], bool]) -> None:
    """Until `wait` (seconds) answers that it is time to stop. Raises SprayCheckError, OSError."""
    rules = list(leaves.rules.values())
    monitor = Monitor(rules[0].asked if rules else None, {each.leaf for each in rules})
    unheard = Unheard(leaves)
    while True:
        step(leaves, monitor, log, now(), unheard)
        if wait(poll_s):
            return


def step(leaves: Leaves, monitor: Monitor, log: DetectLog, stamp: Moment, unheard: Unheard) -> None:
    """One round: what ended since the last one is judged, written and localised."""
    turns = leaves.turns(stamp.mono_ns)
    for flow in (flow for turn in turns for flow in turn.chosen):
        log.append(select_record(flow, stamp))
    for refused in (flow for turn in turns for flow in turn.refused):
        log.append(unmeasured_record(refused, stamp))
    reports = with_source_counts([report for turn in turns for report in turn.reports], leaves)
    reports += unheard.reports(turns, stamp.mono_ns)
    accusations = monitor.observe(reports, owed_of(turns) + unheard.owed(), stamp.mono_ns)
    # Before the verdicts: who has read a run's last verdict has read what follows from it.
    for concluded in monitor.conclusions():
        for conclusion in conclusion_records(concluded, stamp):
            log.append(conclusion)
    for report in reports:
        for record in detect_records(report, stamp):
            log.append(record)
    for accusation in accusations:
        log.append(localize_record(accusation, stamp))
