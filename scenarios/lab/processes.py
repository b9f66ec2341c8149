"""Starts processes of a lab with its mark, bound to their parent's life, finds them by mark, and names its workers.

The mark is an environment variable, so children inherit it and `down` finds them when all files are gone. It holds this
boot's id, which nobody writes by accident, and counts only where root alone can have put it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from agent.base.system_calls import signal_at_death_of
from results.text import count_text
from scenarios.errors import EnvironmentLackingError
from testbed.kernel.netns import namespace_path, namespaces
from testbed.model.node_names import namespace_prefix
from testbed.root_environment import MARK, clean_environment, mark_of, marked_environment

_ROUNDS = 10
"""Rounds of ending processes: one that is being ended may start another, but after ten it is left to the user."""

_LAST_BYTES = 4096
"""Bytes of a log in which its last line is searched (our choice)."""

_STAYS_S = 0.02
"""Longest time that a tracer stops a process to inspect it (our choice, with room)."""


class ProcessId(msgspec.Struct, frozen=True):
    """Identity of a process that cannot be confused with a later one with the same number."""

    pid: int
    start_ticks: int
    """Start time: field 22 of /proc/<pid>/stat, clock ticks after boot."""


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this number now; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else ProcessId(pid, int(fields[19]))


def end_text(code: int) -> str:
    """Return how a process ended, by `subprocess`'s return code: `exited 1`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exited {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"killed by {names.get(-code, f'signal {-code}')}"


def last_words(log: Path) -> str:
    """Return the last line of a process's log; empty where it wrote nothing, or the file cannot be read."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""
    return ""


def is_alive(process: ProcessId) -> bool:
    """Return whether this process still runs."""
    return identify(process.pid) == process


def is_stopped(process: ProcessId) -> bool:
    """Return whether this process lives but is stopped, as by Ctrl-Z or a debugger."""
    if not is_alive(process):
        return False
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return False


def stays_stopped(process: ProcessId) -> bool:
    """Return whether it is stopped now and a moment later: one that is only inspected continues at once."""
    if not is_stopped(process):
        return False
    time.sleep(_STAYS_S)
    return is_stopped(process)


def stopped_text(name: str, process: ProcessId) -> str:
    """State which process of a lab is stopped, and how to continue it."""
    return f"{name} (process {process.pid}) is stopped and does not answer; `kill -CONT {process.pid}` wakes it"


def ask_to_end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """Send a signal that ends a child of ours; a stopped child is continued, so that it gets the signal."""
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)


def kill(process: ProcessId) -> bool:
    """Kill this process at once; return whether it was there and is gone."""
    return _signal(process, signal.SIGKILL) and wait_gone(process, 5.0)


def spawn(
    command: Sequence[str],
    lab: str,
    output: Path | None = None,
    stderr: int | None = None,
    stdout: BinaryIO | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process of the lab that dies with its parent, in `/` and with a clean environment.

    `output` receives stdout and stderr; `stdout` and `stderr` (as for `subprocess`) override one. The caller must have
    one thread only: the child runs Python between fork and exec. Raises `EnvironmentLackingError` where there is no
    such program.
    """
    log = output.open("ab") if output is not None else None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout or log or subprocess.DEVNULL,
            stderr=stderr if stderr is not None else (log or subprocess.DEVNULL),
            env=marked_environment(lab, clean_environment()),
            cwd="/",
            preexec_fn=partial(signal_at_death_of, os.getpid(), signal.SIGKILL),
            start_new_session=True,  # a Ctrl-C at the terminal is the owner's to handle, not its children's
        )
    except FileNotFoundError as error:
        raise EnvironmentLackingError(f"{command[0]} is missing; `spraylab doctor` says what to install") from error
    finally:
        if log is not None:
            log.close()


def marked(lab: str) -> tuple[ProcessId, ...]:
    """Return all processes with the lab's mark, except this one and its ancestors."""
    own = set(_ancestry(os.getpid()))
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    found = (identify(pid) for pid in pids if pid not in own)
    return tuple(process for process in found if process is not None and is_marked(process, lab))


def is_marked(process: ProcessId, lab: str) -> bool:
    """Return whether this process has the lab's mark, set by the caller's user, root.

    Another user can set a variable, but is neither root nor can go into a namespace of the lab.
    """
    with suppress(OSError):
        environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        marks = f"{MARK}={mark_of(lab)}".encode() in environment
        return marks and (_is_ours(process.pid) or _is_inside(process.pid, lab)) and is_alive(process)
    return False


def _is_ours(pid: int) -> bool:
    """Return whether it belongs entirely to the caller's user: real, effective, saved and file system's user."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("Uid:")) == [str(os.geteuid())] * 4


def _is_inside(pid: int, lab: str) -> bool:
    """Return whether it is in a network namespace of the lab, like a program that `exec` started as another user."""
    inside = os.stat(f"/proc/{pid}/ns/net")
    return any(os.path.samestat(inside, namespace_path(name).stat()) for name in namespaces(namespace_prefix(lab)))


def _ancestry(pid: int) -> Iterable[int]:
    while pid > 0:
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return
        pid = int(stat.rpartition(b")")[2].split()[1])


def end(processes: Iterable[ProcessId], grace_s: float) -> tuple[ProcessId, ...]:
    """Send SIGTERM, wait, then kill; return those that had to be killed."""
    waiting = [process for process in processes if _signal(process, signal.SIGTERM)]
    for process in waiting:
        _signal(process, signal.SIGCONT)  # a stopped one hears nothing else
    _wait_gone(waiting, grace_s)
    killed = tuple(process for process in waiting if _signal(process, signal.SIGKILL))
    _wait_gone(killed, 5.0)
    return killed


def end_marked(lab: str, grace_s: float) -> int:
    """End everything with the lab's mark, also what is started meanwhile; return how many processes there were."""
    ended: set[ProcessId] = set()
    for _ in range(_ROUNDS):
        found = marked(lab)
        if not found:
            break
        end(found, grace_s)
        ended.update(found)
    return len(ended)


def wait_gone(process: ProcessId, deadline_s: float) -> bool:
    """Wait until a process is gone; return False when it outlived the deadline."""
    _wait_gone((process,), deadline_s)
    return not is_alive(process)


def _wait_gone(processes: Sequence[ProcessId], deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    while any(is_alive(process) for process in processes) and time.monotonic() < until:
        time.sleep(0.01)


def _signal(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal unless the process is gone; the check and the sending go through one pidfd."""
    with suppress(ProcessLookupError):
        fd = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                signal.pidfd_send_signal(fd, number)
                return True
        finally:
            os.close(fd)
    return False


def worker_count(workers: int | Literal["per-host"] | None, hosts: int, cpus: int) -> int:
    """Return the number of engine workers: one per core by default, never more than hosts."""
    wanted = hosts if workers == "per-host" else (workers or cpus)
    return min(wanted, hosts)


def fewer_workers_text(workers: int | Literal["per-host"] | None, hosts: int) -> str:
    """State that there will be fewer engine workers than requested; empty otherwise."""
    if not isinstance(workers, int) or workers <= hosts:
        return ""
    have, of = count_text(hosts, "engine worker"), count_text(hosts, "host")
    return f"--workers {workers:,}: at most one per host, so {have} for {of}"


def worker_name(index: int) -> str:
    """Return the name of a worker's process, as `worker0`."""
    return f"worker{index}"


def worker_of(host: int, workers: int) -> int:
    """Return the worker that drives a host."""
    return host % workers
