"""The C blaster as a measuring device: compile it, give it frames of a flow, run it, count what arrived."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.base.system_calls import inside
from agent.host.queue_pairs.construction import Wiring
from agent.host.settings import WorkerSettings
from agent.io.host_runtime import HostRuntime
from agent.wire.array.columns import WriteBatch
from agent.wire.array.encode import encode_writes, write_frame_bytes
from agent.wire.constants import Opcode
from tests.support.queue_pairs import qp_settings

_FRAMES = 512
"""Distinct frames, sent round and round: every EV many times."""


@dataclass(frozen=True)
class Blast:
    """One run of the blaster; rates are for a second in which it had its core."""

    sent_pps: float
    delivered_pps: float
    """Frames that reached the target host's port."""
    waited: float
    """Share of the time the process waited for its CPU."""


class Blaster:
    """Sends one flow's frames from host 0 to host 1 of the settings."""

    def __init__(self, folder: Path, settings: WorkerSettings, payload_bytes: int) -> None:
        self._program = folder / "blaster"
        self._frames = folder / f"frames{payload_bytes}"
        self._frame_bytes = write_frame_bytes(payload_bytes)
        self._source, self._target = settings.hosts[:2]
        self._cpu = settings.cpu or 0
        if not self._program.exists():
            source = Path(__file__).with_name("blaster.c")
            subprocess.run(["cc", "-O2", "-o", self._program, source], check=True)
        self._frames.write_bytes(_frames_of(settings, payload_bytes).tobytes())

    def run(self, seconds: float) -> Blast:
        """Blast for so long."""
        arguments = [self._source.netns, self._source.ports[0].interface, self._frames]
        numbers = [self._frame_bytes, seconds, self._cpu]
        before = self._arrived()
        command = [str(word) for word in (self._program, *arguments, *numbers)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        arrived = self._arrived() - before
        sent, took_ns, waited_ns = (int(word) for word in output.split())
        had_ns = took_ns - waited_ns
        return Blast(sent * 1e9 / had_ns, arrived * 1e9 / had_ns, waited_ns / took_ns)

    def _arrived(self) -> int:
        """Packets received by the target host's port."""
        with inside(self._target.netns):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        (line,) = (line for line in lines if line.strip().startswith(self._target.ports[0].interface + ":"))
        return int(line.split(":")[1].split()[1])


def _frames_of(settings: WorkerSettings, payload_bytes: int) -> np.ndarray:
    """Frames such as our own transport sends, over all EVs of the first port's plane in turn."""
    source = settings.hosts[0]
    runtime = HostRuntime(source.host, source.wire_address(), ())
    wiring = Wiring(settings.fabric, settings.peer_addresses(), 0, settings.udp_port)
    channel = wiring.create(runtime, settings.hosts[1].host, qp_settings(pmtu=payload_bytes))
    rows = np.arange(_FRAMES)
    evs = np.flatnonzero(channel.profile.planes == settings.hosts[0].ports[0].plane)
    batch = WriteBatch(
        psn=rows.astype(np.uint32),
        opcode=np.full(_FRAMES, Opcode.WRITE_MIDDLE, np.uint8),
        flags=np.zeros(_FRAMES, np.uint8),
        ev_index=np.resize(evs, _FRAMES).astype(np.uint16),
        msn=np.zeros(_FRAMES, np.uint16),
        rqmsn=np.zeros(_FRAMES, np.uint16),
        va=rows.astype(np.uint64) * np.uint64(payload_bytes),
        rkey=np.zeros(_FRAMES, np.uint32),
        dmalen=np.full(_FRAMES, _FRAMES * payload_bytes, np.uint32),
        source_offset=rows * payload_bytes,
        payload_bytes=np.full(_FRAMES, payload_bytes, np.uint32),
        tx_timestamp=0,
        source=np.frombuffer(os.urandom(_FRAMES * payload_bytes), np.uint8),
    )
    frames = np.zeros((_FRAMES, write_frame_bytes(payload_bytes)), np.uint8)
    encode_writes(channel.template, batch, frames)
    return frames
