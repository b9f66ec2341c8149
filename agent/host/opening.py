"""Opens the ports of the hosts that the settings name, each in its host's network namespace, and closes them again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agent.host.settings import HostSettings, WorkerSettings
from agent.io.engine import Engine
from agent.io.packet_ring import PacketRingPort, open_packet_ring
from agent.io.runtime import HostRuntime
from agent.wire.encode import write_frame_bytes


@contextmanager
def opened_engine(settings: WorkerSettings) -> Iterator[Engine]:
    """An engine over all ports of all hosts of the settings. Raises PortOpenError; then nothing stays open."""
    with ExitStack() as undo:
        yield Engine([_open_host(host, settings, undo) for host in settings.hosts])


def _open_host(host: HostSettings, settings: WorkerSettings, undo: ExitStack) -> HostRuntime:
    ports: list[PacketRingPort] = []
    for port in host.ports:
        ports.append(
            open_packet_ring(
                port.interface,
                port.plane,
                netns=host.netns,
                frame_bytes=write_frame_bytes(settings.max_payload_bytes, with_imm=True),
                rx_slots=settings.rx_slots,
                tx_slots=settings.tx_slots,
            )
        )
        undo.callback(ports[-1].close)
    return HostRuntime(host.host, host.wire_address(), ports, check_icrc=settings.check_icrc)
