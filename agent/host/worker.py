"""The worker's engine: open its ports in the hosts' namespaces, and drive it while there is work.

The drive loop is the only place that waits. It sleeps briefly when there is no work and serves requests periodically.
It polls with short sleeps instead of wake-ups: a wake-up costs an inter-processor interrupt per arriving frame
(measured: make bench).
"""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agent.host.control.server import ControlServer
from agent.host.programs.scheduler import Programs
from agent.host.queue_pairs.construction import Wiring
from agent.host.records.event_log import EventLog
from agent.host.settings import HostSettings, WorkerSettings
from agent.io.codec import FAST, Codec
from agent.io.daemon import Ending
from agent.io.engine import Engine
from agent.io.host_runtime import HostRuntime
from agent.io.packet_ring import open_packet_ring
from agent.io.port import FramePort
from agent.io.scapy_environment import leave_home
from agent.wire.array.encode import write_frame_bytes


@contextmanager
def opened_engine(settings: WorkerSettings) -> Iterator[Engine]:
    """Yield an engine over all ports of all hosts in the settings. Raises PortOpenError; then nothing stays open."""
    with ExitStack() as undo:
        yield Engine([_open_host(host, settings, undo) for host in settings.hosts])


def _open_host(host: HostSettings, settings: WorkerSettings, undo: ExitStack) -> HostRuntime:
    opened = _open_scapy_ports if host.engine == "scapy" else _open_rings
    frame_bytes = write_frame_bytes(settings.max_payload_bytes, with_imm=True)
    ports, codec = opened(host, settings, frame_bytes, undo)
    return HostRuntime(host.host, host.wire_address(), ports, check_icrc=settings.check_icrc, codec=codec)


def _open_rings(
    host: HostSettings, settings: WorkerSettings, frame_bytes: int, undo: ExitStack
) -> tuple[list[FramePort], Codec]:
    ports: list[FramePort] = []
    for port in host.ports:
        ports.append(
            open_packet_ring(
                port.interface,
                port.plane,
                netns=host.netns,
                frame_bytes=frame_bytes,
                rx_slots=settings.rx_slots,
                tx_slots=settings.tx_slots,
            )
        )
        undo.callback(ports[-1].close)
    return ports, FAST


def _open_scapy_ports(
    host: HostSettings, settings: WorkerSettings, frame_bytes: int, undo: ExitStack
) -> tuple[list[FramePort], Codec]:
    """Open the ports of a host that uses Scapy; only then is Scapy loaded."""
    leave_home()
    from agent.io.scapy_port import SCAPY, open_scapy_port

    ports: list[FramePort] = []
    for port in host.ports:
        ports.append(open_scapy_port(port.interface, port.plane, netns=host.netns, frame_bytes=frame_bytes))
        undo.callback(ports[-1].close)
    return ports, SCAPY


_CONTROL_PERIOD_NS = 5_000_000
"""Period of looking for requests while frames move. Our choice: neither a person nor the engine notices it."""

_FLUSH_PERIOD_NS = 50_000_000
"""Period of writing events to the log."""

_SPIN_NS = 200_000
"""Time without sleep after a frame: an answer to it is due, and the shortest sleep takes 100 us. Other processes can
still get the core. Our choice."""

_NAP_S = 50e-6
"""Sleep while answers are late."""

_DOZE_AFTER_NS = 20_000_000
"""Time without a frame after which the loop is idle."""

_DOZE_S = 1e-3
"""Sleep while idle. Bounds the delay of a first frame."""


_COLLECT_EVERY = 100_000
"""Container objects allocated between two garbage collections; batches leave no cycles, and a collection costs more
than a batch."""


def settle() -> None:
    """Reduce garbage collection in the drive loop, 5 % of a busy engine's time.

    Call once, when everything is set up.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)


def drive(
    engine: Engine,
    programs: Programs,
    control: ControlServer,
    wiring: Wiring,
    log: EventLog,
    stop: Ending,
) -> None:
    """Run until `stop` is set."""
    moved_ns = control_ns = flush_ns = time.monotonic_ns()
    while not stop.is_set():
        now_ns = time.monotonic_ns()
        moved: int = engine.receive(now_ns)
        moved += programs.turn()
        moved += engine.send(now_ns)
        if moved:
            moved_ns = now_ns
        if now_ns - control_ns >= _CONTROL_PERIOD_NS:
            control.poll()
            wiring.turn(engine.hosts.values())
            log.add(engine.drain_events())
            control_ns = now_ns
        if now_ns - flush_ns >= _FLUSH_PERIOD_NS:
            log.observe(engine.hosts.values(), now_ns)
            log.flush(now_ns)
            flush_ns = now_ns
        idle_ns = now_ns - moved_ns
        if idle_ns > _DOZE_AFTER_NS:
            control.wait(_DOZE_S)
            control.poll()
        elif idle_ns > _SPIN_NS:
            time.sleep(_NAP_S)
        elif idle_ns:
            os.sched_yield()
    control.poll()  # the reply to the request that ended the loop
