"""Hostile frames by the million at hosts whose other queue pairs are at work: `python -m tests.fuzz.fuzz_host --help`.

Four things must hold: nothing raises; every frame is delivered or counted under one reason; no byte outside a
region changes; queue pairs of other pairs move their data right, without one retransmission.
"""

import argparse
import sys
import time
import warnings
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.core.events import QpState
from agent.core.memory_regions import MemoryRegion
from agent.core.qp import QueuePair
from agent.io.memory_fabric import PathRule
from agent.io.port import FrameBlock, FramePort, FrameSpace, PortCounters
from agent.wire.array.decode import RejectReason, decode
from tests.fuzz.hostile_frames import Corpus, Frames, Lengths, Target, hostile_frames
from tests.unit.agent.io.memory_lab import STEP_NS, Flow, Lab, build

CANARY = 0xA5
CANARY_BYTES = 4096
"""More than any one packet could write past an end."""
ATTACKED = (0, 1)
"""Host 0 writes to host 1; both ends are attacked. Host 2 and host 1 write to each other meanwhile."""
FLOW_BYTES = 40_000
BATCHES = (16, 64, 512, 2048)
"""Frames that arrive together at a queue pair that is attacked gently: one in GENTLE_PERIOD."""
ROUGH_BATCH = 8
"""At the others: the first forged write to a wrong place fails them, rightly, and the rest is lost on them."""
GENTLE_PERIOD = 8
VICTIM_BATCHES = 16
"""Then the attacked queue pair is replaced; one that fails is replaced at once."""
KINDS = ("writes", "sacks", "acks", "nacks", "probes", "endpoint_requests", "endpoint_responses")


class HostilePort:
    """A port in front of another: what is injected arrives before what waits there."""

    def __init__(self, port: FramePort) -> None:
        self._port = port
        self._hostile: deque[FrameBlock] = deque()
        self._handed = False

    def inject(self, frames: Frames, lengths: Lengths) -> None:
        """Let frames arrive."""
        self._hostile.append(FrameBlock(frames, lengths))

    def receive(self, limit: int) -> FrameBlock | None:
        """A hostile block if there is one."""
        self._handed = bool(self._hostile)
        return self._hostile[0] if self._hostile else self._port.receive(limit)

    def carrier(self) -> bool:
        """As the port behind sees."""
        return self._port.carrier()

    def release(self, count: int) -> None:
        """Forget the block handed out; its memory is overwritten, as a ring's would be."""
        if self._handed:
            self._hostile.popleft().frames[:] = 0xEE
        else:
            self._port.release(count)

    @property
    def plane(self) -> int:
        """Of the port behind."""
        return self._port.plane

    def room(self) -> int:
        """Of the port behind."""
        return self._port.room()

    def reserve(self, count: int) -> FrameSpace:
        """Of the port behind."""
        return self._port.reserve(count)

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Of the port behind."""
        self._port.fill(lengths)

    def send(self) -> int:
        """Of the port behind."""
        return self._port.send()

    def counters(self) -> PortCounters:
        """Of the port behind."""
        return self._port.counters()

    def close(self) -> None:
        """Of the port behind."""
        self._port.close()


class GuardedLab(Lab):
    """A lab whose regions lie between canary bytes and have keys nobody guesses."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab.engine, lab.fabric, lab.planes, lab.spines, lab.rng)
        self.memories: dict[int, NDArray[np.uint8]] = {}

    def _region(self, host: int, data: NDArray[np.uint8]) -> MemoryRegion:
        memory = np.full(len(data) + 2 * CANARY_BYTES, CANARY, np.uint8)
        inside = memory[CANARY_BYTES:-CANARY_BYTES]
        inside[:] = data
        rkey = int(self.rng.integers(1 << 31, 1 << 32))
        region = MemoryRegion(int(self.rng.integers(1 << 40, 1 << 60)), rkey, inside)
        self.engine.hosts[host].regions.register(region)
        self.memories[rkey] = memory
        return region

    def overrun(self) -> bool:
        """Whether a byte outside a region has changed."""
        return any(
            (memory[:CANARY_BYTES] != CANARY).any() or (memory[-CANARY_BYTES:] != CANARY).any()
            for memory in self.memories.values()
        )

    def remove(self, flow: Flow) -> None:
        """Take a flow's queue pairs and regions away."""
        for channel, region in ((flow.source, flow.sent), (flow.target, flow.received)):
            runtime = self.engine.hosts[flow.target.peer_host if channel is flow.source else flow.source.peer_host]
            del runtime.channels[channel.qpn]
            runtime.regions.deregister(region.rkey)
            del self.memories[region.rkey]


@dataclass
class Tally:
    """What became of the hostile frames."""

    frames: int = 0
    delivered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[RejectReason] = field(default_factory=Counter)
    unknown_qp: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    """What the attacked queue pairs said of packets that the wire let pass: replayed, mis-keyed, out of place."""
    victims: int = 0
    victims_failed: int = 0
    others_bytes: int = 0


class Fuzz:
    """One attack, wholly determined by its seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.corpus = Corpus()
        rules = tuple(PathRule(target=host, alter=self.corpus.capture) for host in ATTACKED)
        self.lab = GuardedLab(build(3, planes=2, spines=2, rules=rules, seed=seed))
        self.ports = [self._stand_before(host) for host in ATTACKED]
        self.others = [self.lab.flow(2, 1, FLOW_BYTES, message_bytes=5_000), self.lab.flow(1, 2, FLOW_BYTES)]
        self.tally = Tally()
        self.victim = self._new_victim()

    def run(self, frames: int) -> Tally:
        """Throw so many frames; raises AssertionError, or what the agent raised, with the batch in a note."""
        number = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while self.tally.frames < frames:
                number += 1
                try:
                    size = int(self.rng.choice(BATCHES)) if self._gently() else ROUGH_BATCH
                    self._attack(min(size, frames - self.tally.frames))
                    if number % VICTIM_BATCHES == 0 or self._victim_failed():
                        self._replace_victim()
                except Exception as error:
                    error.add_note(f"in batch {number}, after {self.tally.frames} frames")
                    raise
        self._check_end()
        return self.tally

    def _stand_before(self, host: int) -> HostilePort:
        runtime = self.lab.engine.hosts[host]
        port = HostilePort(runtime.ports[0])
        runtime.ports[0] = port
        return port

    def _new_victim(self) -> Flow:
        """A flow halfway through its transfer, so that there are frames to learn from and to continue."""
        victim = self.lab.flow(0, 1, FLOW_BYTES, message_bytes=3_000)
        self._turn(12)
        self.tally.victims += 1
        return victim

    def _gently(self) -> bool:
        return self.tally.victims % GENTLE_PERIOD == 1

    def _victim_failed(self) -> bool:
        return any(end.qp.state is QpState.ERROR for end in (self.victim.source, self.victim.target))

    def _replace_victim(self) -> None:
        self.tally.victims_failed += self._victim_failed()
        for end in (self.victim.source, self.victim.target):
            self.tally.judged.update(_judged(end.qp))
        self.lab.remove(self.victim)
        for end in (self.victim.source, self.victim.target):
            self.corpus.forget(end.qpn)
        self.victim = self._new_victim()

    def _attack(self, count: int) -> None:
        at_target = int(self.rng.integers(0, count + 1))
        for host, port, share in zip(ATTACKED, self.ports, (count - at_target, at_target), strict=True):
            target = self._target(host)
            seen = self.corpus.frames_to(target.qpn)
            if share and seen:
                frames, lengths = hostile_frames(self.rng, seen, target, share)
                self._account(host, frames, lengths)
                port.inject(frames, lengths)
        self._turn(4)
        assert not self.lab.overrun(), "a byte outside a region has changed"

    def _target(self, host: int) -> Target:
        at_source = host == ATTACKED[0]
        channel = self.victim.source if at_source else self.victim.target
        region = self.victim.sent if at_source else self.victim.received
        return Target(
            qpn=channel.qpn,
            rkey=region.rkey,
            va=region.va,
            region_bytes=len(region.data),
            gently=self._gently(),
            others_qpns=tuple(end.qpn for flow in self.others for end in (flow.source, flow.target)),
            others_rkeys=tuple(region.rkey for flow in self.others for region in (flow.sent, flow.received)),
        )

    def _account(self, host: int, frames: Frames, lengths: Lengths) -> None:
        """Every row is delivered once or counted once."""
        result = decode(frames, lengths, self.lab.engine.hosts[host].address.address, 0)
        rows = {name: len(getattr(result, name) or ()) for name in KINDS}
        assert sum(rows.values()) + sum(result.rejected.values()) == len(frames), "a frame was lost count of"
        self.tally.frames += len(frames)
        self.tally.delivered.update(rows)
        self.tally.rejected.update(result.rejected)

    def _turn(self, steps: int) -> None:
        """Let virtual time pass; who has finished a transfer begins another."""
        lab = self.lab
        for _ in range(steps):
            lab.engine.step(lab.fabric.now_ns)
            for _ in lab.engine.drain_events():
                pass
            lab.fabric.advance(lab.fabric.now_ns + STEP_NS)
        for flow in self.others:
            if flow.is_complete():
                assert flow.is_right(), "another pair's data is wrong"
                self.tally.others_bytes += len(flow.sent.data)
                flow.received.data[:] = ~flow.sent.data
                flow.source.qp.post_write(flow.sent, 0, len(flow.sent.data), flow.received.va, flow.received.rkey)

    def _check_end(self) -> None:
        hosts = self.lab.engine.hosts
        rejected = sum((hosts[host].rejected for host in ATTACKED), Counter())
        assert rejected == self.tally.rejected, "the hosts counted otherwise"
        self.tally.unknown_qp = sum(hosts[host].unknown_qp for host in ATTACKED)
        for flow in self.others:
            for end in (flow.source, flow.target):
                progress = end.qp.progress()
                assert progress.state is QpState.RTS, "another pair's queue pair failed"
                assert progress.requester.packets_rtx == 0, "another pair sent again"
        assert self.tally.others_bytes > 0, "the others did not work meanwhile"


def _judged(qp: QueuePair) -> dict[str, int]:
    progress = qp.progress()
    requester, responder = progress.requester, progress.responder
    return {
        "replayed writes": responder.duplicates,
        "mis-keyed or out of the region": responder.access_errors,
        "not cut from messages": responder.invalid,
        "beyond the window": responder.out_of_window,
        "SACKs of what was never sent": requester.sacks_rejected,
        "SACKs of the past": requester.sacks_stale,
        "ACKs of what was never sent": requester.acks_rejected,
        "NACKs of the past": requester.nacks_stale,
        "NACKs of what was never sent": requester.nacks_rejected,
    }


def main() -> None:
    """Throw frames and say what became of them; exit code 1 if something broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    tally = Fuzz(options.seed).run(options.frames)
    print(f"{tally.frames} frames in {time.monotonic() - started:.0f} s, seed {options.seed}")
    for name, count in [*tally.delivered.items(), *((reason.name, n) for reason, n in tally.rejected.items())]:
        print(f"  {name:20} {count}")
    print(f"  {'unknown queue pair':20} {tally.unknown_qp}")
    for name, count in tally.judged.items():
        print(f"  {name:30} {count}")
    print(f"  {tally.victims} queue pairs attacked, {tally.victims_failed} of them failed")
    print(f"  {tally.others_bytes} bytes of other pairs moved right meanwhile")


if __name__ == "__main__":
    sys.exit(main())
