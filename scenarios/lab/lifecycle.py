"""Starts a lab's owner and follows it until the lab is ready, and takes a lab down with or without its owner.

The connection to the owner can be kept as a lease: when its holder ends, for any reason, the owner takes the lab down.
When the owner is dead or hangs, `take_down` finds the lab's things by their marks, and touches nothing without them:
root's own variable on processes, a prefix on namespaces, a folder.
"""

import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

from scenarios.errors import LabStateError, OwnerFailedError
from scenarios.interrupts import undoing
from scenarios.isolated import isolated_command
from scenarios.lab import protocol
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir, owner_of
from scenarios.lab.processes import end_marked, end_text, is_alive, is_marked, kill, wait_gone
from scenarios.lab.protocol import Blame, Measuring
from testbed.kernel.bpf.grace_period import put_back
from testbed.kernel.netns import delete_all_namespaces
from testbed.model.node_names import namespace_prefix
from testbed.root_environment import clean_environment, marked_environment

START_TIMEOUT_S = 300.0
"""Start timeout; a large fabric on a slow machine is ready long before."""

END_TIMEOUT_S = 60.0
"""Timeout for the owner to take a lab down, which takes far less; after it the marks are used."""

GRACE_S = 3.0
"""Time for marked processes between SIGTERM and SIGKILL."""


class OwnerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of an owner."""

    lab: str
    planes: int
    leaves: int
    spines: int
    hosts_per_leaf: int
    host_stack: bool = False
    scapy_hosts: tuple[int, ...] = ()
    """Hosts that move packets by Scapy; the others use rings."""
    workers: int | Literal["per-host"] | None = None
    """Number of engine workers; None: one per core."""
    seed: int = 1
    measuring: Measuring = Measuring()
    """SprayCheck's settings until a run requests others."""
    leased: bool = False
    """Whether the lab ends with the connection it was started by."""


class Notice(msgspec.Struct, frozen=True):
    """One line from the owner while it starts: a stage, an error, or that all is ready."""

    stage: str | None = None
    error: str | None = None
    blame: Blame = Blame.OWNER
    ready: bool = False


class Launched:
    """An owner that this process started."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel

    def release(self) -> None:
        """Close the connection: this ends the lab if it is leased, otherwise not."""
        self._channel.close()

    def wait_ended(self) -> bool:
        """Wait for the owner's end; return False when it does not come, or the owner did not end by itself."""
        try:
            return self._process.wait(END_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            return False

    def hung_up(self, lab: str) -> OwnerFailedError:
        """State what happened to an owner that hung up before its lab was ready."""
        if self.wait_ended() or self._process.returncode in (None, *_ASKED_TO_END):
            return OwnerFailedError(
                f"lab {lab!r} was taken down while it was built, by `down` or a signal to its owner"
            )
        end = end_text(self._process.returncode)
        return OwnerFailedError(f"the owner of lab {lab!r} ended while the lab was built: {end}")

    def give_up(self, labdir: LabDir) -> None:
        """End the owner and leave nothing of its lab, also when it was killed; a lab of another owner stays."""
        self.release()
        if self.wait_ended() or (self._process.returncode or -1) >= 0:
            return  # it has cleaned up itself, or refused to start
        other = owner_of(labdir)
        if other is None or other.pid == self._process.pid:
            take_down(labdir)


_ASKED_TO_END = (-signal.SIGTERM, -signal.SIGINT)
"""Return codes of an owner that was ended before it could handle signals."""


def launch(settings: OwnerSettings, show: Callable[[str], None]) -> Launched:
    """Start an owner and wait until its lab is ready; `show` is called with every stage.

    Raises what the owner raised. When it raises, also by an interrupt, nothing of the lab is left.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        process = subprocess.Popen(
            isolated_command("scenarios.lab.owner.process", str(theirs.fileno())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=marked_environment(settings.lab, clean_environment()),
            cwd="/",
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    launched = Launched(process, ours)
    labdir = LabDir(settings.lab)
    with undoing() as stack:
        stack.callback(launched.give_up, labdir)
        try:
            ours.settimeout(START_TIMEOUT_S)
            ours.sendall(msgspec.json.encode(settings) + b"\n")
            if not _is_ready(ours, show):
                raise launched.hung_up(settings.lab)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise launched.hung_up(settings.lab) from error
        except OSError as error:
            raise OwnerFailedError(f"the owner of lab {settings.lab!r} does not answer: {error}") from error
        stack.pop_all()
    return launched


def _is_ready(channel: socket.socket, show: Callable[[str], None]) -> bool:
    """Return whether the lab got ready before the owner hung up. Raises what the owner raised."""
    with channel.makefile("rb") as lines:
        for line in lines:
            notice = msgspec.json.decode(line, type=Notice)
            if notice.error is not None:
                raise notice.blame.error(notice.error)
            if notice.ready:
                return True
            if notice.stage is not None:
                show(notice.stage)
    return False


class OwnerEnd(StrEnum):
    """End of the lab's owner."""

    ORDERLY = "ended"
    KILLED = "did not answer"
    BUILDING = "was building or ending"
    GONE = "was gone"
    NONE = "none"


@dataclass(frozen=True)
class Removed:
    """Count of what was removed without the owner's help; all empty after an orderly end."""

    lab: str
    was_up: bool
    by_owner: bool
    owner: OwnerEnd
    processes: int = 0
    namespaces: int = 0
    folder: bool = False


def take_down(labdir: LabDir) -> Removed:
    """Remove everything of the lab; does no harm when there is nothing."""
    owner = _ask_owner(labdir)
    by_owner = owner is OwnerEnd.ORDERLY
    processes = end_marked(labdir.lab, GRACE_S)
    put_back(labdir.grace)
    namespaces = delete_all_namespaces(namespace_prefix(labdir.lab))
    folder = labdir.path.exists()
    labdir.remove()
    was_up = by_owner or bool(processes or namespaces or folder)
    if not was_up:
        owner = OwnerEnd.NONE
    return Removed(labdir.lab, was_up, by_owner, owner, processes, len(namespaces), folder)


def _ask_owner(labdir: LabDir) -> OwnerEnd:
    """Return whether the owner took everything down itself; an owner that does not answer is killed."""
    process = owner_of(labdir)
    if process is not None and not is_marked(process, labdir.lab):
        process = None  # a stranger, whatever a file says; neither waited for nor touched
    try:
        with Owner(labdir) as owner:
            owner.ask(protocol.Shutdown(), protocol.Done)
    except LabStateError:
        return OwnerEnd.GONE if process is None else OwnerEnd.BUILDING
    except OwnerFailedError:
        pass
    else:
        if process is not None and wait_gone(process, END_TIMEOUT_S):
            return OwnerEnd.ORDERLY
    if process is None or not is_alive(process):
        return OwnerEnd.GONE
    kill(process)
    return OwnerEnd.KILLED
