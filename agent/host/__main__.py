"""The engine worker: `python -m agent.host SETTINGS.json`. Only connects the parts.

Ends on SIGTERM, SIGINT, a shutdown request, or the death of the process that started it, and leaves no socket behind.
Exit codes: 0 ended by request, 2 bad settings, 3 a port or socket could not be opened.
"""

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from time import monotonic_ns

from agent.base.system_calls import signal_at_death_of
from agent.host.control.commands import Commands
from agent.host.control.server import ControlServer, Leases
from agent.host.errors import SettingsError
from agent.host.queue_pairs.construction import Wiring
from agent.host.records.event_log import EventLog
from agent.host.settings import WorkerSettings, load_settings
from agent.host.worker import drive, opened_engine, settle
from agent.io.daemon import Ending
from agent.io.port import PortError


def main(arguments: list[str]) -> int:
    """Run a worker to its end; return the exit code."""
    logging.basicConfig(format="%(levelname)s worker: %(message)s")
    if len(arguments) != 1:
        logging.error("usage: python -m agent.host SETTINGS.json")
        return 2
    try:
        run(load_settings(Path(arguments[0])))
    except SettingsError as error:
        logging.error("%s", error)
        return 2
    except (PortError, OSError) as error:
        logging.error("%s", error)
        return 3
    return 0


def run(settings: WorkerSettings) -> None:
    """Open everything, drive it until a stop request, close everything."""
    if settings.cpu is not None:
        os.sched_setaffinity(0, {settings.cpu})
    with contextlib.ExitStack() as undo:
        stop = undo.enter_context(Ending())
        stop.on_signals()
        signal_at_death_of(os.getppid(), signal.SIGTERM)
        engine = undo.enter_context(opened_engine(settings))
        wiring = Wiring(settings.fabric, settings.peer_addresses(), settings.seed, settings.udp_port)
        wiring.introduce(engine.hosts.values())
        log = undo.enter_context(EventLog(Path(settings.event_log), Path(settings.older_event_log)))
        commands = Commands(engine, wiring, stop, monotonic_ns, log)
        leases = Leases(commands.serve)
        control = undo.enter_context(ControlServer(Path(settings.control_socket), leases.serve, leases.left))
        settle()
        drive(engine, commands.programs, control, wiring, log, stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
