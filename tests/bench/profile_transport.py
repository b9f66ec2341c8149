"""Where does the time of the hot loop go? Stage by stage, on the kernel fabric, everything on.

    python -m tests.bench.profile_transport

Times a few functions and takes what they call out of their share, so the stages add up to the whole. Timing costs
about 3 % itself.
"""

import os
from collections import Counter
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import click
import msgspec

from agent.core.memory_regions import RegionTable
from agent.core.receive.responder import Responder
from agent.core.send.limits import SendWindow
from agent.core.send.requester import Requester
from agent.io.codec import FAST
from agent.io.engine import Engine
from agent.io.host_runtime import HostRuntime
from agent.io.packet_ring import PacketRingPort
from agent.wire.array import decode, encode
from agent.wire.array.encode import write_frame_bytes
from agent.wire.validate import verdict_cache as verdicts
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.start.deploy import worker_settings
from testbed.emulation.network import FabricNet
from testbed.model.fabric import Fabric
from tests.bench.bench_transport import LAB, SPEC, go_first
from tests.bench.subject import measure
from tests.bench.worker import everything_on

PAYLOADS = (24, 3952)

STAGES: dict[str, tuple[tuple[object, str], ...]] = {
    "send(): the kernel forwards": ((PacketRingPort, "_push"),),
    "choose packets, EVs; in flight": ((Requester, "transmit"),),
    "encode headers": ((FAST, "encode_writes"),),
    "copy payloads to the ring": ((encode, "gather_rows"),),
    "ICRC of what is sent": ((encode, "stamp_icrc"),),
    "divide batches among ports": ((HostRuntime, "_put"),),
    "ring words": tuple((PacketRingPort, name) for name in ("receive", "release", "reserve", "fill", "send")),
    "judge received headers": ((decode, "judge"),),
    "check ICRC": ((verdicts, "judge_icrc"),),
    "headers to columns": ((FAST, "decode"),),
    "place payloads": ((RegionTable, "place"),),
    "responder": ((Responder, "receive_writes"),),
    "SACKs and ACKs out": (
        (Responder, "acknowledge"),
        (Responder, "acks"),
        (FAST, "encode_sacks"),
        (FAST, "encode_control"),
    ),
    "SACKs and ACKs in": ((Requester, "receive_sacks"), (Requester, "receive_acks")),
    "congestion control": ((Requester, "_steer"), (SendWindow, "on_sent"), (SendWindow, "room")),
    "turn of the engine": ((Engine, "receive"), (Engine, "send")),
}


class Stopwatch:
    """Nanoseconds by stage; what an inner stage takes is not counted for the outer one."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner: list[int] = []

    def timed(self, stage: str, act: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def run(*arguments: Any, **named: Any) -> Any:
            start_ns = perf_counter_ns()
            self._inner.append(0)
            try:
                return act(*arguments, **named)
            finally:
                took_ns = perf_counter_ns() - start_ns
                self.spent[stage] += took_ns - self._inner.pop()
                if self._inner:
                    self._inner[-1] += took_ns

        return run


@click.command()
@click.option("--seconds", default=3.0, show_default=True)
def main(seconds: float) -> None:
    """Measure and print."""
    watch = Stopwatch()
    for stage, functions in STAGES.items():
        for owner, name in functions:
            change = object.__setattr__ if owner is FAST else setattr  # a codec does not change while it runs
            change(owner, name, watch.timed(stage, getattr(owner, name)))
    cpu = min(os.sched_getaffinity(0))
    fabric = Fabric.of(SPEC)
    (settings,) = worker_settings(fabric, LabDir(LAB), 1, [cpu], seed=1)
    settings = msgspec.structs.replace(settings, hosts=settings.hosts[:2])
    os.sched_setaffinity(0, {cpu})
    go_first()
    shares: list[Counter[str]] = []
    with FabricNet.of(fabric, LAB):
        for payload in PAYLOADS:
            watch.spent.clear()
            sized = msgspec.structs.replace(settings, max_payload_bytes=payload)
            measure(sized, everything_on(payload, 4096), seconds)
            shares.append(watch.spent.copy())
    click.echo(f"# share of the hot loop    {'':6}" + "".join(f"{write_frame_bytes(p):6d} B" for p in PAYLOADS))
    for stage in STAGES:
        click.echo(f"{stage:32}" + "".join(f"{each[stage] / each.total():8.1%}" for each in shares))


if __name__ == "__main__":
    main()
