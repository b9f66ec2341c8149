"""The drive loop: turn the engine while there is work, sleep a little when there is none, serve requests now and then.

The only place that waits. Sleeps are short polls, not wake-ups: being woken costs every arriving frame an
inter-processor interrupt (measured: make bench).
"""

import gc
import os
import time

from agent.host.control.server import ControlServer
from agent.host.programs.programs import Programs
from agent.host.queue_pairs.wiring import Wiring
from agent.host.records.event_log import EventLog
from agent.io.clock import monotonic_ns
from agent.io.ending import Ending
from agent.io.engine import Engine

_CONTROL_PERIOD_NS = 5_000_000
"""Requests are looked for this often while frames move. Our choice: a person does not notice, the engine neither."""

_FLUSH_PERIOD_NS = 50_000_000
"""Events reach the log this often."""

_SPIN_NS = 200_000
"""So long after a frame there is no sleep: an answer to it is due, and the shortest sleep takes 100 us. Other processes
get the core meanwhile if they want it. Our choice."""

_NAP_S = 50e-6
"""Sleep while answers are late."""

_DOZE_AFTER_NS = 20_000_000
"""Without a frame for this long, nothing is going on."""

_DOZE_S = 1e-3
"""Sleep then. Bounds what a first frame waits for."""


_COLLECT_EVERY = 100_000
"""Container objects made between two looks for cycles; batches leave none, and a look costs more than a batch."""


def settle() -> None:
    """Spare the drive loop most of the garbage collector: 5 % of a busy engine's time. Call once, when all is made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)


def drive(
    engine: Engine,
    programs: Programs,
    control: ControlServer,
    wiring: Wiring,
    log: EventLog,
    stop: Ending,
) -> None:
    """Run until `stop` is set."""
    moved_ns = control_ns = flush_ns = monotonic_ns()
    while not stop.is_set():
        now_ns = monotonic_ns()
        moved: int = engine.receive(now_ns)
        moved += programs.turn()
        moved += engine.send(now_ns)
        if moved:
            moved_ns = now_ns
        if now_ns - control_ns >= _CONTROL_PERIOD_NS:
            control.poll()
            wiring.turn(engine.hosts.values())
            log.add(engine.drain_events())
            control_ns = now_ns
        if now_ns - flush_ns >= _FLUSH_PERIOD_NS:
            log.observe(engine.hosts.values(), now_ns)
            log.flush(now_ns)
            flush_ns = now_ns
        idle_ns = now_ns - moved_ns
        if idle_ns > _DOZE_AFTER_NS:
            control.wait(_DOZE_S)
            control.poll()
        elif idle_ns > _SPIN_NS:
            time.sleep(_NAP_S)
        elif idle_ns:
            os.sched_yield()
    control.poll()  # the reply to the request that ended us
