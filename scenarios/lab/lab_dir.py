"""Defines the files of a lab, `/run/spraylab/<lab>/`: their names, the lock, and the state that `down` uses.

No other module has these names. It does not know what a lab consists of.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from results.files.user_files import naming
from scenarios.errors import EnvironmentLackingError, LabStateError
from scenarios.lab.processes import ProcessId, identify, is_alive
from testbed.model.fabric import Fabric, FabricSpec


class LabShape(msgspec.Struct, frozen=True):
    """The properties of a lab that do not change while it is up: the head of all that its owner reports."""

    lab: str
    owner: ProcessId
    started: str
    planes: int
    leaves: int
    spines: int
    hosts_per_leaf: int
    host_stack: bool
    mtu: int
    workers: int
    scapy_hosts: tuple[int, ...]
    """Hosts that move packets by Scapy."""

    def fabric(self) -> Fabric:
        """Return the fabric that is up."""
        spec = FabricSpec(
            self.planes, self.leaves, self.spines, self.hosts_per_leaf, mtu=self.mtu, host_stack=self.host_stack
        )
        return Fabric.of(spec)


RUN_ROOT = Path("/run/spraylab")
DEFAULT_LAB = "lab"

LOCKS = Path("/proc/locks")
"""Format of proc_locks(5). An inode's number needs its device: on every tmpfs, numbers start from one."""

UMASK = 0o022
"""Umask of the owner and all that it starts: the caller's does not apply to a lab's files (our choice)."""

FOLDER_MODE = 0o755
"""Mode of the folder: completion and `detect` read the state without root; locks and sockets are for root alone."""


class ChildState(msgspec.Struct, frozen=True):
    """A process that belongs to the lab."""

    name: str
    process: ProcessId


class LabState(LabShape, frozen=True):
    """Content of `state.json`, rewritten whenever a process starts or ends."""

    children: tuple[ChildState, ...] = ()


@dataclass(frozen=True)
class LabDir:
    """Paths of one lab's files."""

    lab: str
    root: Path = RUN_ROOT

    @property
    def path(self) -> Path:
        """The lab's folder."""
        return self.root / self.lab

    def command(self, verb: str) -> str:
        """Return the command that does `verb` to this lab."""
        return f"spraylab {verb}" if self.lab == DEFAULT_LAB else f"spraylab {verb} --lab {self.lab}"

    @property
    def down_command(self) -> str:
        """The command that takes this lab down."""
        return self.command("down")

    @property
    def lock(self) -> Path:
        """Lock that the owner holds as long as it lives."""
        return self.path / "lock"

    @property
    def run_lock(self) -> Path:
        """Lock of the one run that may use the lab at a time."""
        return self.path / "run.lock"

    @property
    def state(self) -> Path:
        """State of the lab, for other processes."""
        return self.path / "state.json"

    @property
    def socket(self) -> Path:
        """Socket of the owner."""
        return self.path / "owner.sock"

    @property
    def truth(self) -> Path:
        """Record of faults set and cleared."""
        return self.path / "truth.jsonl"

    @property
    def detect(self) -> Path:
        """Record of verdicts and named links as they come."""
        return self.path / "detect.jsonl"

    @property
    def older_detect(self) -> Path:
        """Earlier verdicts that are still kept."""
        return self.path / "detect.older.jsonl"

    @property
    def grace(self) -> Path:
        """File that exists while the kernel's grace periods are short for this lab."""
        return self.path / "grace"

    @property
    def bpf(self) -> Path:
        """Folder of compiled eBPF programs."""
        return self.path / "bpf"

    def log(self, process: str) -> Path:
        """Return the log of one of the lab's processes."""
        return self.path / f"{process}.log"

    def settings(self, process: str) -> Path:
        """Return the settings file of one of the lab's processes."""
        return self.path / f"{process}.settings.json"

    def worker_socket(self, index: int) -> Path:
        """Return the socket of an engine worker."""
        return self.path / f"worker{index}.sock"

    def leaf_socket(self, process: str) -> Path:
        """Return the socket on which a leaf's SprayCheck process answers its monitor."""
        return self.path / f"{process}.sock"

    def worker_events(self, index: int) -> Path:
        """Return the latest reports of a worker's agents."""
        return self.path / f"worker{index}.jsonl"

    def worker_older_events(self, index: int) -> Path:
        """Return the earlier reports of its agents that are still kept."""
        return self.path / f"worker{index}.older.jsonl"

    def worker_event_files(self, workers: int) -> tuple[Path, ...]:
        """Return all kept reports of all workers' agents, older first."""
        names = (self.worker_older_events, self.worker_events)
        return tuple(name(index) for index in range(workers) for name in names)

    def remove(self) -> None:
        """Delete the folder, and the root when nothing else is in it; does no harm when it is gone."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.root.rmdir()


def labs_up(root: Path = RUN_ROOT) -> tuple[str, ...]:
    """Return names of the labs that have a folder."""
    return tuple(sorted(path.name for path in root.iterdir() if path.is_dir())) if root.is_dir() else ()


@contextmanager
def owned(labdir: LabDir) -> Iterator[None]:
    """Hold the lab's lock and folder.

    Raises `LabStateError` when someone else does, or when a dead owner left its files, which stay for `down`;
    `EnvironmentLackingError` when the folder cannot be made.
    """
    while True:
        _make(labdir.path)
        with suppress(FileNotFoundError):  # the previous owner removed the folder just now
            fd = os.open(labdir.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not _locked(fd):
                os.close(fd)
                raise LabStateError(
                    f"lab {labdir.lab!r} is already up; `{labdir.down_command}` ends it, `--lab NAME` makes another"
                )
            if _is_file(fd, labdir.lock):
                break
            os.close(fd)
    if any(path != labdir.lock for path in labdir.path.iterdir()):
        os.close(fd)
        raise LabStateError(
            f"lab {labdir.lab!r} was left behind by an owner that is gone; "
            f"`{labdir.down_command}` removes what is left of it"
        )
    try:
        yield
    finally:
        labdir.remove()
        os.close(fd)


@contextmanager
def busy(labdir: LabDir) -> Iterator[None]:
    """Hold the lab for one run or one program. Raises `LabStateError` when another uses it."""
    fd = os.open(labdir.run_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(fd):
            holder = _holder(labdir.run_lock)
            who = "" if holder is None else f" (process {holder.pid})"
            raise LabStateError(
                f"a run is going on in lab {labdir.lab!r}, or a program uses it{who}; wait for it or interrupt it"
            )
        yield
    finally:
        os.close(fd)


def write_state(labdir: LabDir, state: LabState) -> None:
    """Replace the state file in one step."""
    fresh = labdir.state.with_suffix(".new")
    with naming(labdir.state):
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        fresh.replace(labdir.state)


def read_state(labdir: LabDir) -> LabState | None:
    """Return the state, or None when there is none that can be read."""
    try:
        return msgspec.json.decode(labdir.state.read_bytes(), type=LabState)
    except (OSError, msgspec.DecodeError):
        return None


def owner_of(labdir: LabDir) -> ProcessId | None:
    """Return the living owner, by the lock that it holds or the state that it wrote; changes neither."""
    if (holder := _holder(labdir.lock)) is not None:
        return holder
    state = read_state(labdir)
    return state.owner if state is not None and is_alive(state.owner) else None


def run_going_on(labdir: LabDir) -> bool:
    """Return whether a run uses the lab now."""
    return _holder(labdir.run_lock) is not None


def _holder(lock: Path) -> ProcessId | None:
    """Return the holder of a lock without trying to take it, which could stop others from taking it."""
    with suppress(OSError, ValueError, IndexError):
        found = lock.stat()
        file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in LOCKS.read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == file:
                return identify(int(fields[4]))
    return None


def _make(folder: Path) -> None:
    """Make the folder of a lab, which root may write and others may read, whatever the umask is or was."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # the previous owner removed them just now
            for each in (folder.parent, folder):
                each.chmod(FOLDER_MODE)
    except OSError as error:
        raise EnvironmentLackingError(f"{folder}: cannot be made: {error.strerror}") from error


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file(fd: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False
