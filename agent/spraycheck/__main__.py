"""SprayCheck's process: `python -m agent.spraycheck SETTINGS.json`. Wiring only.

One for all leaves and the monitor; or one for the monitor, and one for each leaf inside its namespace.
"""

import logging
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from agent.base.moment import now
from agent.base.system_calls import signal_at_death_of
from agent.io.service import Ending
from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.errors import SprayCheckError
from agent.spraycheck.leaf.counters import KernelCounters
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaf_process import listening, serve
from agent.spraycheck.leaf.leaves import SharedLeaves
from agent.spraycheck.leaf.remote_leaves import RemoteLeaves
from agent.spraycheck.loop import run
from agent.spraycheck.records import start_record
from agent.spraycheck.settings import LeafSettings, Settings, read_settings


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
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
    """Of all leaves: their maps read here, or asked of the processes that do."""
    with ExitStack() as held:
        log = held.enter_context(DetectLog(Path(settings.detect_log)))
        leaves = held.enter_context(_remote(settings)) if settings.leaves[0].socket else _shared(settings, held)
        log.append(start_record(len(settings.leaves), settings.counting, settings.asked, now()))
        run(leaves, log, settings.poll_ms / 1000, stop.wait)


def _serve_leaf(settings: Settings, stop: Ending) -> None:
    """Of one leaf, until a signal comes."""
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
