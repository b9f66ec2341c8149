"""Runs the owner of a lab: `python -m scenarios.lab.owner.process FD`, started by `launch`; FD is their connection.

It builds the lab, answers requests, and takes the lab down on request, when its lease ends, on a signal or an error.
"""

import errno
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from faults.errors import FaultError, MechanismError, QuantityError, TargetError, WordingError
from faults.timing import Event
from scenarios.errors import (
    EnvironmentLackingError,
    InterruptedRunError,
    LabStateError,
    ScenariosError,
    UsageError,
)
from scenarios.interrupts import interrupts_raise
from scenarios.isolated import own_code
from scenarios.lab import protocol
from scenarios.lab.lab_dir import UMASK, LabDir, owned
from scenarios.lab.lifecycle import Notice, OwnerSettings
from scenarios.lab.owner.build import Lab, lab_up
from scenarios.lab.owner.captures import CapturePlace, CaptureSize
from scenarios.lab.owner.serve import LaterAnswer, listening, serve
from scenarios.lab.owner.worker_requests import Later
from scenarios.lab.processes import ProcessId, identify
from scenarios.lab.protocol import Answer, Blame, Refusal
from testbed.errors import FabricError, MissingFeatureError, TestbedError, UnknownNameError
from testbed.errors import LabStateError as TestbedLabStateError
from testbed.kernel.netns import namespaces
from testbed.model.node_names import namespace_prefix

_log = logging.getLogger("owner")

_BLAMES: tuple[tuple[tuple[type[Exception], ...], Blame], ...] = (
    ((UsageError, UnknownNameError, FabricError, QuantityError, WordingError, TargetError), Blame.USAGE),
    ((EnvironmentLackingError, MissingFeatureError, MechanismError), Blame.ENVIRONMENT),
    ((LabStateError, TestbedLabStateError), Blame.LAB_STATE),
)
_MACHINE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)
"""Errors that are this machine's limits, not a user's mistake."""

_EXPECTED = (ScenariosError, TestbedError, FaultError, OSError)


class Channel:
    """The connection to the process that started this one; it may be gone at any time."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def settings(self) -> OwnerSettings:
        """Return the first line that comes."""
        line = b""
        while not line.endswith(b"\n"):
            data = self._link.recv(1 << 16)
            if not data:
                raise InterruptedRunError("the process that started this one is gone")
            line += data
        return msgspec.json.decode(line, type=OwnerSettings)

    def send(self, notice: Notice) -> None:
        """Send a line; if the starter is gone while the lab is built, end the lab."""
        try:
            self._link.sendall(msgspec.json.encode(notice) + b"\n")
        except OSError as error:
            raise InterruptedRunError("the process that started this one is gone") from error

    def stage(self, text: str) -> None:
        """Report that a stage begins."""
        self.send(Notice(stage=text))


def main(arguments: list[str]) -> int:
    """Run an owner to its end; return the exit code."""
    os.umask(UMASK)
    with socket.socket(fileno=int(arguments[0])) as link:
        channel = Channel(link)
        try:
            with interrupts_raise():
                _own(channel, link)
        except InterruptedRunError as error:
            _log.info("%s", error)
        except Exception as error:  # the last place that can report it
            _log.exception("the lab is given up")
            with suppress(InterruptedRunError):
                channel.send(Notice(error=_text(error), blame=blame_of(error)))
            return 1
    return 0


def _own(channel: Channel, link: socket.socket) -> None:
    own_code()  # before anybody changes its files
    settings = channel.settings()
    labdir = LabDir(settings.lab)
    with owned(labdir):
        _refuse_leftovers(labdir)
        _keep_records_in(labdir)
        owner = identify(os.getpid()) or ProcessId(os.getpid(), 0)
        with (
            lab_up(settings, labdir, owner, time.time_ns(), channel.stage) as lab,
            listening(labdir.socket) as listener,
        ):
            channel.send(Notice(ready=True))
            if not settings.leased:
                link.close()
            lease = link if settings.leased else None
            serve(listener, lambda request, client: _answer(lab, request, client), lease, lab, lab.left)


def _refuse_leftovers(labdir: LabDir) -> None:
    if found := namespaces(namespace_prefix(labdir.lab)):
        left = "1 namespace is" if len(found) == 1 else f"{len(found)} namespaces are"
        raise LabStateError(
            f"{left} left of an earlier lab {labdir.lab!r}; `{labdir.down_command}` removes what is left"
        )


def _keep_records_in(labdir: LabDir) -> None:
    """Write everything of this process to files that `down` removes."""
    log = os.open(labdir.log("owner"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    tempfile.tempdir = str(labdir.path)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _answer(lab: Lab, request: protocol.Request, client: int) -> Answer | LaterAnswer:
    """Handle a request; an expected error is an answer, too."""
    lab.take_back = None
    return _answered(type(request).__name__, lambda: _SERVE[type(request)](lab, request, client))


def _answered(asked: str, serving: Callable[[], Any]) -> Answer | LaterAnswer:
    try:
        result = serving()
    except _EXPECTED as error:
        _log.warning("%s: %s", asked, error)
        return Answer(refusal=Refusal(_text(error), blame_of(error)))
    if isinstance(result, Later):
        return partial(_later, asked, result) if not result.work.is_over else _answered(asked, result.result)
    return Answer(result=msgspec.Raw(msgspec.json.encode(result)))


def blame_of(error: Exception) -> Blame:
    """Return the type of an error."""
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        return Blame.ENVIRONMENT
    return next((blame for kinds, blame in _BLAMES if isinstance(error, kinds)), Blame.OWNER)


def _text(error: Exception) -> str:
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) if isinstance(error, _EXPECTED) else f"{type(error).__name__}: {error}"


def _later(asked: str, result: Later) -> Answer | None:
    answer = _answered(asked, result.result) if result.work.is_over else None
    return answer if isinstance(answer, Answer) else None


def _fault_set(lab: Lab, request: protocol.FaultSet, client: int) -> protocol.Faults:
    faults = lab.injections.set(request, client if request.leased else None)
    lab.take_back = lab.injections.take_back_last
    return faults


def _fault_clear(lab: Lab, request: protocol.FaultClear, client: int) -> protocol.Faults:
    return lab.injections.clear(request.target, request.word, client if request.leased else None)


def _fault_event(lab: Lab, request: protocol.FaultEvent, _: int) -> protocol.Faults:
    if request.coming:
        lab.injections.coming(Event(request.event))
    else:
        lab.injections.happened(Event(request.event), request.mono_ns)
    return _all_faults(lab)


def _all_faults(lab: Lab) -> protocol.Faults:
    return protocol.Faults(lab.injections.states(), lab.injections.planned(), lab.injections.failed())


def _capture_start(lab: Lab, request: protocol.CaptureStart, client: int) -> protocol.Captures:
    place = CapturePlace(Path(request.folder), request.invoker)
    size = CaptureSize(request.snaplen, request.most_bytes)
    captures = lab.capture(request.links, place, client if request.leased else None, size)
    lab.take_back = partial(lab.captures.stop, place.folder)
    return protocol.Captures(captures)


def _capture_stop(lab: Lab, request: protocol.CaptureStop, _: int) -> protocol.Captures:
    ended = lab.captures.stop(Path(request.folder) if request.folder else None)
    return protocol.Captures(ended, lab.captures.states())


_SERVE: dict[type[Any], Callable[[Lab, Any, int], Any]] = {
    protocol.Status: lambda lab, *_: lab.status(),
    protocol.FaultSet: _fault_set,
    protocol.FaultShow: lambda lab, *_: _all_faults(lab),
    protocol.FaultClear: _fault_clear,
    protocol.FaultEvent: _fault_event,
    protocol.CaptureStart: _capture_start,
    protocol.CaptureStop: _capture_stop,
    protocol.NewEpoch: lambda lab, request, _: lab.new_epoch(request.measuring),
    protocol.Deny: lambda lab, request, _: Later(lab.denials.deny(request.target, "hand"), protocol.Denials),
    protocol.Allow: lambda lab, request, _: Later(lab.denials.allow(request.target, "hand"), protocol.Denials),
    protocol.DenyShow: lambda lab, *_: protocol.Denials(lab.denials.states()),
    protocol.Check: lambda lab, *_: lab.check(),
    protocol.Shutdown: lambda *_: protocol.Done(),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
