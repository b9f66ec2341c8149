"""What the counters of a lab's leaves returned, poll by poll: recorded from a SprayCheck process, and played again.

`record` runs in the place of SprayCheck's own program; `replayed` needs neither root nor a lab.
"""

import lzma
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.base.moment import Moment
from agent.spraycheck import __main__ as program
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.accuse.unheard_flows import UnheardFlows
from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.leaf.bpf_layout import MARK, REFUSAL
from agent.spraycheck.leaf.counters import KernelCounters
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import Leaves, SharedLeaves
from agent.spraycheck.settings import Settings

QPN = np.dtype("u4")


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One leaf at one poll: the bytes of flow records, of queue pairs with their marks, refusals, declarations."""

    flows: bytes
    qpns: bytes
    marks: bytes
    refusals: bytes
    elsewhere: bytes


class Poll(msgspec.Struct, frozen=True, array_like=True):
    """All leaves at one moment; None is a leaf that returned the same as before."""

    mono_ns: int
    leaves: tuple[Read | None, ...]


class Recording(msgspec.Struct, frozen=True):
    """A whole run."""

    settings: Settings
    polls: tuple[Poll, ...]


def save(recording: Recording, path: Path) -> None:
    """Write it compressed."""
    path.write_bytes(lzma.compress(msgspec.msgpack.encode(recording), preset=9 | lzma.PRESET_EXTREME))


def load(path: Path) -> Recording:
    """Read it."""
    return msgspec.msgpack.decode(lzma.decompress(path.read_bytes()), type=Recording)


class RecordingCounters(KernelCounters):
    """The maps of a leaf, read once a poll, with all that was read."""

    def read(self) -> Read:
        """Read all now; what the detector asks for until the next time is answered from it."""
        self._flows_now = super().flows()
        self._marks_now = super().marks()
        self._refusals_now = super().refusals()
        self._elsewhere_now = super().take_elsewhere()
        qpns, marks = self._marks_now
        flows = self._flows_now.astype(self._flows._value)  # numpy has put the declared counts into native byte order
        elsewhere = self._elsewhere_now.astype(self._elsewhere._value)
        return Read(*(each.tobytes() for each in (flows, qpns, marks, self._refusals_now, elsewhere)))

    def flows(self) -> NDArray[np.void]:
        return self._flows_now

    def marks(self) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
        return self._marks_now

    def refusals(self) -> NDArray[np.void]:
        return self._refusals_now

    def take_elsewhere(self) -> NDArray[np.void]:
        return self._elsewhere_now


def record(path: Path) -> int:
    """Run SprayCheck's program as it is, and leave what its counters returned in `path`."""
    counters, polls, step = list[RecordingCounters](), list[Poll](), program.step

    def opened(*parts: Any) -> RecordingCounters:
        counters.append(RecordingCounters(*parts))
        return counters[-1]

    before: list[Read | None] = []

    def noted(leaves: Leaves, monitor: Monitor, log: DetectLog, stamp: Moment, unheard: UnheardFlows) -> None:
        reads = [each.read() for each in counters]
        changed = reads if not before else [None if a == b else a for a, b in zip(reads, before, strict=True)]
        before[:] = reads
        polls.append(Poll(stamp.mono_ns, tuple(changed)))
        step(leaves, monitor, log, stamp, unheard)

    vars(program)["KernelCounters"], vars(program)["step"] = opened, noted
    status = program.main(sys.argv[1:])
    save(Recording(program.read_settings(Path(sys.argv[1])), tuple(polls)), path)
    return status


@dataclass
class ReplayedCounters:
    """A leaf's counters as they were recorded."""

    layouts: tuple[np.dtype[Any], ...]
    read: Read = field(default_factory=lambda: Read(b"", b"", b"", b"", b""))
    fresh: bool = False

    def show(self, read: Read | None) -> None:
        """The next poll."""
        self.read, self.fresh = read or self.read, read is not None

    def _array(self, place: int) -> NDArray[np.void]:
        return np.frombuffer(msgspec.structs.astuple(self.read)[place], self.layouts[place])

    def flows(self) -> NDArray[np.void]:
        return self._array(0)

    def marks(self) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
        return self._array(1), self._array(2)

    def refusals(self) -> NDArray[np.void]:
        return self._array(3)

    def take_elsewhere(self) -> NDArray[np.void]:
        return self._array(4) if self.fresh else self._array(4)[:0]

    def set_test(self, dqpn: int, epoch: int, last_psn: int, threshold: int) -> None:
        """The data plane was told when this was recorded."""

    def erase(self, dqpn: int, epoch: int) -> None:
        """Nothing is erased in a recording shorter than a flow's state is kept."""

    def erase_marks(self, before_ns: int) -> None:
        """As `erase`."""


@dataclass
class Lines:
    """A log in memory."""

    records: list[Any] = field(default_factory=list)

    def append(self, record: msgspec.Struct) -> None:
        """As JSON would give it back."""
        self.records.append(msgspec.json.decode(msgspec.json.encode(record)))


def replayed(recording: Recording) -> list[dict[str, Any]]:
    """The records that SprayCheck writes of what was recorded."""
    settings, log = recording.settings, Lines()
    layouts = settings.counting.flow, QPN, MARK, REFUSAL, settings.counting.elsewhere
    counters = [ReplayedCounters(layouts) for _ in settings.leaves]
    rules = [settings.rules_of(leaf) for leaf in settings.leaves]
    leaves = SharedLeaves([LeafDetector(*parts) for parts in zip(rules, counters, strict=True)])
    monitor, unheard = Monitor(settings.required, {each.leaf for each in rules}), UnheardFlows(leaves)
    for poll in recording.polls:
        _show(counters, poll)
        program.step(leaves, monitor, log, Moment(0, poll.mono_ns), unheard)
    return log.records


def _show(counters: Sequence[ReplayedCounters], poll: Poll) -> None:
    for each, read in zip(counters, poll.leaves, strict=True):
        each.show(read)
