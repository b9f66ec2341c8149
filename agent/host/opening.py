"""Open the ports of the hosts in the settings, each in its host's network namespace, and close them again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agent.host.settings import HostSettings, WorkerSettings
from agent.io.codec import FAST, Codec
from agent.io.engine import Engine
from agent.io.packet_ring import open_packet_ring
from agent.io.port import FramePort
from agent.io.runtime import HostRuntime
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
