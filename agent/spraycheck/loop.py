"""The drive loop of the counter process: poll every leaf, write verdicts, localise, wait. Owns no policy."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.entered import with_entered
from agent.spraycheck.leaf import LeafDetector, pending_paths
from agent.spraycheck.monitor import Matter, Monitor
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.records import (
    Stamp,
    added_up_records,
    detect_records,
    link_sum_records,
    localize_record,
    select_record,
    unmeasured_record,
)
from agent.spraycheck.unheard import Unheard


def now() -> Stamp:
    """This moment by both clocks."""
    return Stamp(time.time_ns(), time.monotonic_ns())


def run(detectors: Sequence[LeafDetector], log: DetectLog, poll_s: float, wait: Callable[[float], bool]) -> None:
    """Until `wait` (seconds) answers that it is time to stop. Raises CountersError, OSError."""
    leaves = {each.rules.leaf for each in detectors}
    monitor = Monitor(detectors[0].rules.asked if detectors else None, leaves)
    unheard = Unheard(detectors)
    while True:
        step(detectors, monitor, log, now(), unheard)
        if wait(poll_s):
            return


def step(detectors: Sequence[LeafDetector], monitor: Monitor, log: DetectLog, stamp: Stamp, unheard: Unheard) -> None:
    """One round: what ended since the last one is judged, written and localised."""
    for flow in (flow for detector in detectors for flow in detector.chosen()):
        log.append(select_record(flow, stamp))
    for refused in (flow for detector in detectors for flow in detector.refused()):
        log.append(unmeasured_record(refused, stamp))
    reports = with_entered([report for each in detectors for report in each.poll(stamp.mono_ns)], detectors)
    reports += unheard.reports(stamp.mono_ns)
    accusations = monitor.observe(reports, _owed(detectors) + unheard.owed(), stamp.mono_ns)
    # Before the verdicts: who has read a run's last verdict has read what sums say of it.
    for sum_of_flows in monitor.drain_added_up():
        for total in added_up_records(sum_of_flows, stamp):
            log.append(total)
    for links in monitor.drain_links_added_up():
        for link in link_sum_records(links, stamp):
            log.append(link)
    for report in reports:
        for record in detect_records(report, stamp):
            log.append(record)
    for accusation in accusations:
        log.append(localize_record(accusation, stamp))


def _owed(detectors: Sequence[LeafDetector]) -> Counter[tuple[Matter, FabricPath]]:
    """Verdicts that all leaves still owe."""
    owed = Counter[tuple[Matter, FabricPath]]()
    for detector in detectors:
        owed.update(pending_paths(detector))
    return owed
