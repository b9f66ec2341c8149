"""Runs the captures of a lab: one tcpdump per end of a link, started in its namespace, ended by SIGINT.

The lab's owner runs them; a capture counts as running only once tcpdump reports that it listens.
A finished file is compared with what tcpdump counted: tcpdump does not notice a full disk.
"""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from results.captures.tcpdump import (
    LISTENING,
    MOST_BYTES,
    SNAPLEN_BYTES,
    CaptureEnd,
    counts_from,
    most_packets,
    tcpdump_command,
)
from results.errors import ResultsError
from results.files.user_files import Invoker, make_folder, new_file, rights_of
from scenarios.errors import EnvironmentLackingError, OwnerFailedError, UsageError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.processes import ask_to_end, end_text, last_words, spawn
from scenarios.lab.protocol import CaptureState
from scenarios.lab.start.capacity import full_disk_text, require_disk
from testbed.kernel.netns import command_inside
from testbed.model.node_names import namespace_name

START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class CaptureSize:
    """Limits of what is recorded."""

    snaplen: int = SNAPLEN_BYTES
    """Bytes per packet, at most."""
    most_bytes: int = MOST_BYTES
    """Most bytes of all files of an order."""


@dataclass(frozen=True)
class CapturePlace:
    """Folder of the files, and the user with whose rights they are made; None: root's."""

    folder: Path
    invoker: Invoker | None = None


@dataclass(frozen=True)
class _Running:
    end: CaptureEnd
    file: Path
    said: Path
    """File of tcpdump's stderr."""
    since: str
    client: int | None
    """Client whose lease it ends with; None: it runs until somebody stops it."""
    process: subprocess.Popen[bytes]
    snaplen: int
    packets: int
    """Packets after which it ends by itself."""

    def state(self) -> CaptureState:
        counts, code = counts_from(self.said.read_bytes()), self.process.poll()
        return CaptureState(
            str(self.end.link),
            str(self.end.node),
            self.end.port.interface,
            str(self.file),
            self.since,
            counts.captured if counts else None,
            counts.dropped if counts else None,
            self.snaplen,
            counts is not None and counts.captured >= self.packets,
            end_text(code) if code else "",
        )


class Captures:
    """All running captures of a lab."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir
        self._running: list[_Running] = []
        self._started = 0

    def start(
        self,
        ends: Sequence[CaptureEnd],
        place: CapturePlace,
        client: int | None = None,
        size: CaptureSize | None = None,
    ) -> tuple[CaptureState, ...]:
        """Record `ends` into a folder, all of them or none; `client` leases them.

        Raises `UsageError` for a file that is being written already, `EnvironmentLackingError` without tcpdump or room.
        """
        with _writing(place):
            make_folder(place.folder)
        size = size or CaptureSize()
        if full := full_disk_text(self._labdir.path):
            raise EnvironmentLackingError(f"{full}, where tcpdump reports")
        require_disk(place.folder, len(ends), size.most_bytes)
        share = replace(size, most_bytes=size.most_bytes // max(1, len(ends)))
        fresh: list[_Running] = []
        try:
            for end in ends:
                fresh.append(self._spawn(end, place, client, share))
            for capture in fresh:
                _wait_listening(capture)
        except BaseException:
            for capture in fresh:
                capture.process.kill()
                capture.process.wait()
                with rights_of(place.invoker), suppress(OSError):
                    capture.file.unlink()
            raise
        self._running += fresh
        return tuple(capture.state() for capture in fresh)

    def stop(self, folder: Path | None) -> tuple[CaptureState, ...]:
        """End the captures into `folder`, or all that are not leased; return their counts."""
        if folder is None:
            return self._end([capture for capture in self._running if capture.client is None])
        return self._end([capture for capture in self._running if capture.file.parent == folder])

    def left(self, client: int) -> None:
        """End what a client that is gone has leased."""
        self._end([capture for capture in self._running if capture.client == client])

    def end(self) -> None:
        """End all captures."""
        self._end(self._running)

    def _end(self, ended: list[_Running]) -> tuple[CaptureState, ...]:
        for capture in ended:
            ask_to_end(capture.process, signal.SIGINT)
        for capture in ended:
            try:
                capture.process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                capture.process.kill()
                capture.process.wait()
        self._running = [capture for capture in self._running if capture not in ended]
        states = tuple(capture.state() for capture in ended)
        for capture, state in zip(ended, states, strict=True):
            if not state.ended:
                capture.said.unlink(missing_ok=True)  # its content is in the counts
        return states

    def states(self) -> tuple[CaptureState, ...]:
        """Return the running captures."""
        return tuple(capture.state() for capture in self._running)

    def _spawn(self, end: CaptureEnd, place: CapturePlace, client: int | None, size: CaptureSize) -> _Running:
        file = place.folder / end.file_name
        if any(capture.file == file for capture in self._running):
            raise UsageError(f"{file} is being written already; `spraylab capture stop` first")
        said = self._labdir.log(f"tcpdump{self._started}")
        self._started += 1
        packets = most_packets(size.most_bytes, size.snaplen)
        command = tcpdump_command(end.port.interface, size.snaplen, packets)
        inside = command_inside(namespace_name(self._labdir.lab, end.node), command)
        with _writing(place):
            target = new_file(file)
        with target:
            process = spawn(inside, self._labdir.lab, said, stdout=target)
        since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return _Running(end, file, said, since, client, process, size.snaplen, packets)


@contextmanager
def _writing(place: CapturePlace) -> Iterator[None]:
    """Make files with the user's rights inside the body. Raises `EnvironmentLackingError` where that fails."""
    try:
        with rights_of(place.invoker):
            yield
    except OSError as error:
        raise EnvironmentLackingError(f"{error.filename or place.folder}: {error.strerror or error}") from error


def _wait_listening(capture: _Running) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while LISTENING not in (said := capture.said.read_bytes()):
        if (code := capture.process.poll()) is not None:
            if b"No such file" in said and b"tcpdump" in said:
                raise EnvironmentLackingError("tcpdump is missing; install the package tcpdump")
            words = last_words(capture.said)
            ended = f"ended before it recorded: {end_text(code)}" + (words and f"; its last output: {words}")
            raise OwnerFailedError(f"tcpdump on {capture.end.port} {ended}")
        if time.monotonic() > until:
            full = full_disk_text(capture.said.parent)
            raise OwnerFailedError(f"tcpdump on {capture.end.port} does not start to listen{full and f'; {full}'}")
        time.sleep(0.005)


_LEAST_PACKET_BYTES = 70
"""Least bytes per packet in a pcap file: its record's header of 16 bytes (pcap-savefile(5)), Ethernet and IPv6."""


def flaw_of(capture: CaptureState) -> str | None:
    """State why the file of a finished capture is wrong; tcpdump itself does not notice a full disk."""
    from results.captures.reader import packets_in

    end, file = f"{capture.link} at {capture.node}", Path(capture.file)
    if not file.exists():
        return f"{end}: the file {file} is gone"
    if capture.captured is None:
        how = f"was {capture.ended}" if capture.ended.startswith("killed") else capture.ended or "died"
        return f"{end}: tcpdump {how} before the end, {file} is incomplete"
    full = full_disk_text(file.parent)
    because = f"; {full}" if full else ""
    try:
        written = packets_in(file)
    except (ResultsError, OSError) as error:
        return f"{end}: {error}{because}"
    if written != capture.captured:
        holds = f"{end}: {file} holds {written:,} of the {capture.captured:,} packets"
        return f"{holds}{because or '; was the disk full?'}"
    return None


def is_doubtful(capture: CaptureState) -> bool:
    """Return whether the packets of its file should be counted: the disk is full, or the file too short for them."""
    file = Path(capture.file)
    if capture.captured is None or not file.exists() or full_disk_text(file.parent):
        return True
    return file.stat().st_size < capture.captured * _LEAST_PACKET_BYTES
