"""Two agents over the fabric in memory, for the conformance list: real frames, virtual time, trouble by seed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvConfig, LossPolicy
from agent.core.ev.state import EvState
from agent.core.events import EvStatesChanged
from agent.wire.array.decode import Decoded, decode
from agent.wire.constants import Dscp, Opcode
from agent.wire.dtypes import BASE_FRAME, BTH_OFFSET, INNER_OFFSET, PAYLOAD_OFFSET, offset_of
from tests.unit.agent.io.memory_lab import STEP_NS, Flow, Lab

_OUTER_CLASS = offset_of(BASE_FRAME, "outer", "class_word")
_OUTER_LENGTH = offset_of(BASE_FRAME, "outer", "plen")
PAPER = EvConfig(
    loss_policy=LossPolicy.PAPER,
    skip_ns=200_000,
    probe_interval_ns=300_000,
    probe_timeout_ns=400_000,
    probe_max_interval_ns=5_000_000,
    revive_after=4,
    revive_ns=1_000_000,
    tail_probe_ns=300_000,
)
"""The paper's loss policy at the pace of a fabric whose round trip takes 50 us."""

DATA = (0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB)


class Wiretap:
    """What hosts put on the wire, decoded as their peer would: `alter` of a rule."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def __call__(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
        self.frames += [frames[row, :length].tobytes() for row, length in enumerate(lengths.tolist())]

    def decoded(self, address: bytes) -> Decoded:
        """All frames to one host."""
        width = max(len(frame) for frame in self.frames)
        matrix = np.zeros((len(self.frames), width), np.uint8)
        for row, frame in enumerate(self.frames):
            matrix[row, : len(frame)] = np.frombuffer(frame, np.uint8)
        lengths = np.array([len(frame) for frame in self.frames], np.uint32)
        return decode(matrix, lengths, address, 0)


def trimmer(share: float, seed: int, dscp: Dscp = Dscp.TRIMMED) -> Callable[..., None]:
    """A switch that trims `share` of the writes it may trim."""
    rng = np.random.default_rng(seed)

    def trim(frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
        words = np.ascontiguousarray(frames[:, _OUTER_CLASS : _OUTER_CLASS + 4]).view(">u4")[:, 0].astype(np.int64)
        allowed = np.isin(words >> 22 & 0x3F, (Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX))
        allowed &= np.isin(frames[:, BTH_OFFSET], DATA)
        rows = np.flatnonzero(allowed & (rng.random(len(frames)) < share))
        trimmed = words[rows] & ~(0x3F << 22) | dscp << 22
        frames[rows, _OUTER_CLASS : _OUTER_CLASS + 4] = trimmed.astype(">u4").view(np.uint8).reshape(-1, 4)
        cut = np.full(len(rows), PAYLOAD_OFFSET - INNER_OFFSET)
        frames[rows, _OUTER_LENGTH : _OUTER_LENGTH + 2] = cut.astype(">u2").view(np.uint8).reshape(-1, 2)
        frames[rows, PAYLOAD_OFFSET:] = 0xAA
        lengths[rows] = PAYLOAD_OFFSET

    return trim


def mark_congestion(frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
    """A switch that marks every ECN-capable packet."""
    words = np.ascontiguousarray(frames[:, _OUTER_CLASS : _OUTER_CLASS + 4]).view(">u4")[:, 0].astype(np.int64)
    capable = np.flatnonzero((words >> 20 & 3) == 2)
    marked = (words[capable] | 3 << 20).astype(">u4")
    frames[capable, _OUTER_CLASS : _OUTER_CLASS + 4] = marked.view(np.uint8).reshape(-1, 4)


def states_of(flow: Flow) -> list[EvState]:
    """State of each EV of the sender, in profile order."""
    return [EvState(state) for state in flow.source.qp.ev_states()[0].tolist()]


def retired(lab: Lab) -> list[int]:
    """EV rows that became ASSUMED_BAD, in order."""
    events = [item.event for item in lab.events if isinstance(item.event, EvStatesChanged)]
    return [row for event in events if event.state is EvState.ASSUMED_BAD for row in event.ev_indices]


def step_for(lab: Lab, duration_ns: int) -> None:
    """Let time pass, whether anything happens or not."""
    end_ns = lab.fabric.now_ns + duration_ns
    while lab.fabric.now_ns < end_ns:
        moved = lab.engine.step(lab.fabric.now_ns)
        lab.events += lab.engine.drain_events()
        due = [lab.fabric.next_arrival_ns(), lab.engine.next_deadline_ns(), lab.fabric.now_ns + _NAP_NS]
        next_ns = min(time for time in due if time is not None)
        lab.fabric.advance(min(end_ns, max(lab.fabric.now_ns + STEP_NS, 0 if moved else next_ns)))


_NAP_NS = 1_000_000
"""A drive loop looks again at least this often."""

ACKNOWLEDGEMENTS = (Opcode.SACK, Opcode.ACKNOWLEDGE)
