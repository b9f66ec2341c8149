"""The counter process: `python -m agent.spraycheck SETTINGS.json`. Wiring only."""

import ctypes
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from agent.spraycheck.counters import KernelCounters
from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.errors import SprayCheckError
from agent.spraycheck.leaf import LeafDetector
from agent.spraycheck.loop import now, run
from agent.spraycheck.records import start_record
from agent.spraycheck.settings import LeafSettings, Settings, read_settings

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if len(arguments) != 1:
        print("usage: python -m agent.spraycheck SETTINGS.json", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _die_with_parent()
    try:
        _serve(read_settings(Path(arguments[0])), stop)
    except (SprayCheckError, OSError) as error:
        print(f"spraycheck: {error}", file=sys.stderr)
        return 3
    return 0


def _serve(settings: Settings, stop: threading.Event) -> None:
    with ExitStack() as held:
        log = held.enter_context(DetectLog(Path(settings.detect_log)))
        detectors = [_detector(settings, leaf, held) for leaf in settings.leaves]
        stamp = now()
        log.append(start_record(len(detectors), settings.counting, settings.asked, stamp))
        run(detectors, log, settings.poll_ms / 1000, stop.wait)


def _detector(settings: Settings, leaf: LeafSettings, held: ExitStack) -> LeafDetector:
    ended = leaf.superseded_map, leaf.measured_map, leaf.tests_map, leaf.refused_map, leaf.elsewhere_map
    maps = leaf.flows_map, *ended
    counters = held.enter_context(KernelCounters(*maps, settings.counting))
    return LeafDetector(settings.rules_of(leaf), counters)


def _die_with_parent() -> None:
    """Have the kernel kill us when the parent dies, however it dies; also if that happened just before."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
