"""SprayCheck's process, `python -m agent.spraycheck SETTINGS.json`: open the leaves, then poll, judge, write and wait.

One process serves all leaves and the monitor; or one is the monitor, and one runs per leaf, inside its namespace.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from agent.base.moment import Moment, now
from agent.base.system_calls import signal_at_death_of
from agent.io.daemon import Ending
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.accuse.unheard_flows import UnheardFlows
from agent.spraycheck.detect_log import (
    DetectLog,
    conclusion_records,
    detect_records,
    localize_record,
    select_record,
    start_record,
    unmeasured_record,
)
from agent.spraycheck.errors import SprayCheckError
from agent.spraycheck.leaf.counters import KernelCounters
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import Leaves, SharedLeaves, owed_of, with_source_counts
from agent.spraycheck.leaf.remote_leaves import RemoteLeaves, listening, serve
from agent.spraycheck.settings import LeafSettings, Settings, read_settings


def run(leaves: Leaves, log: DetectLog, poll_s: float, wait: Callable[[float], bool]) -> None:
    """Poll all leaves until `wait` (seconds) reports that it is time to stop. Raises SprayCheckError, OSError."""
    rules = list(leaves.rules.values())
    monitor = Monitor(rules[0].required if rules else None, {each.leaf for each in rules})
    unheard = UnheardFlows(leaves)
    while True:
        step(leaves, monitor, log, now(), unheard)
        if wait(poll_s):
            return


def step(leaves: Leaves, monitor: Monitor, log: DetectLog, stamp: Moment, unheard: UnheardFlows) -> None:
    """Do one round: judge, write and localise what ended since the last one."""
    rounds = leaves.rounds(stamp.mono_ns)
    for flow in (flow for each_round in rounds for flow in each_round.chosen):
        log.append(select_record(flow, stamp))
    for refused in (flow for each_round in rounds for flow in each_round.refused):
        log.append(unmeasured_record(refused, stamp))
    reports = with_source_counts([report for each_round in rounds for report in each_round.reports], leaves)
    reports += unheard.reports(rounds, stamp.mono_ns)
    accusations = monitor.observe(reports, owed_of(rounds) + unheard.owed(), stamp.mono_ns)
    # Before the verdicts: a reader of a run's last verdict has then read what follows from it.
    for concluded in monitor.conclusions():
        for conclusion in conclusion_records(concluded, stamp):
            log.append(conclusion)
    for report in reports:
        for record in detect_records(report, stamp):
            log.append(record)
    for accusation in accusations:
        log.append(localize_record(accusation, stamp))


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if len(arguments) != 1:
        print("usage: python -m agent.spraycheck SETTINGS.json", file=sys.stderr)
        return 2
    signal_at_death_of(os.getppid(), signal.SIGKILL)
    try:
        with Ending() as stop:
            stop.on_signals()
            settings = read_settings(Path(arguments[0]))
            (_serve_leaf if settings.serves else _monitor)(settings, stop)
    except (SprayCheckError, OSError) as error:
        print(f"spraycheck: {error}", file=sys.stderr)
        return 3
    return 0


def _monitor(settings: Settings, stop: Ending) -> None:
    """Monitor all leaves, by reading their maps or by asking their own processes."""
    with ExitStack() as held:
        log = held.enter_context(DetectLog(Path(settings.detect_log)))
        leaves = held.enter_context(_remote(settings)) if settings.leaves[0].socket else _shared(settings, held)
        log.append(start_record(len(settings.leaves), settings.counting, settings.required, now()))
        run(leaves, log, settings.poll_ms / 1000, stop.wait)


def _serve_leaf(settings: Settings, stop: Ending) -> None:
    """Serve one leaf until a signal comes."""
    with ExitStack() as held:
        (leaf,) = settings.leaves
        detector = _detector(settings, leaf, held)
        serve(detector, held.enter_context(listening(Path(leaf.socket))), stop)


def _shared(settings: Settings, held: ExitStack) -> SharedLeaves:
    return SharedLeaves([_detector(settings, leaf, held) for leaf in settings.leaves])


def _remote(settings: Settings) -> RemoteLeaves:
    return RemoteLeaves([(settings.rules_of(leaf), leaf.socket) for leaf in settings.leaves])


def _detector(settings: Settings, leaf: LeafSettings, held: ExitStack) -> LeafDetector:
    ended = leaf.superseded_map, leaf.measured_map, leaf.tests_map, leaf.refused_map, leaf.elsewhere_map
    maps = leaf.flows_map, *ended
    counters = held.enter_context(KernelCounters(*maps, settings.counting))
    return LeafDetector(settings.rules_of(leaf), counters)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
