"""Settings of the worker: a JSON file read once into frozen records. Reads and opens nothing else."""

from ipaddress import IPv6Address
from pathlib import Path
from typing import Literal

import msgspec

from agent.host.errors import SettingsError
from agent.wire.array.template import HostAddress, PortAddress
from agent.wire.constants import UDP_PORT_MRC

RX_SLOTS = 2048
TX_SLOTS = 1024
"""Frames that a port can hold. Our choice: 9 MB per port, and more than four windows of 256 packets."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class PortSettings(_Record, frozen=True):
    """One port of a host that this worker drives."""

    plane: int
    interface: str
    mac: str
    """MAC address of the port, `02:30:...`."""
    leaf_mac: str
    """MAC address of the leaf's end of the link."""


class PeerSettings(_Record, frozen=True):
    """Place of a host: enough to address frames to it."""

    host: int
    address: str
    """Its own (inner) IPv6 address, the same in every plane."""
    leaf: int
    slot: int


class HostSettings(_Record, frozen=True):
    """One host that this worker drives."""

    host: int
    address: str
    leaf: int
    slot: int
    ports: tuple[PortSettings, ...]
    """Ports, one per plane, in order of planes."""
    netns: str | None = None
    """Path of its network namespace; None: the worker's own."""
    engine: Literal["ring", "scapy"] = "ring"
    """`ring`: packet rings and numpy; `scapy`: Scapy's sockets and layers."""

    def wire_address(self) -> HostAddress:
        """Convert to the address that the wire format needs."""
        ports = tuple(PortAddress(_mac(port.mac), _mac(port.leaf_mac)) for port in self.ports)
        return HostAddress(IPv6Address(self.address).packed, self.leaf, self.slot, ports)


class FabricSettings(_Record, frozen=True):
    """Size of the fabric."""

    planes: int
    leaves: int
    spines: int
    hosts_per_leaf: int


class WorkerSettings(_Record, frozen=True):
    """All settings of one engine worker."""

    lab: str
    control_socket: str
    """Path of the unix socket to listen on."""
    event_log: str
    """File to which events are appended as JSON Lines."""
    older_event_log: str
    """File that takes over older events when the first one grows too long."""
    fabric: FabricSettings
    hosts: tuple[HostSettings, ...]
    peers: tuple[PeerSettings, ...]
    """All hosts of the lab, including this worker's."""
    seed: int = 0
    cpu: int | None = None
    """CPU core to run on; None: the scheduler chooses."""
    udp_port: int = UDP_PORT_MRC
    max_payload_bytes: int = 4096
    """Longest packet payload; sizes the rings."""
    rx_slots: int = RX_SLOTS
    """Frames that a port can hold until they are read; more than the windows of all peers that send to it."""
    tx_slots: int = TX_SLOTS
    check_icrc: bool = True

    def peer_addresses(self) -> dict[int, HostAddress]:
        """Return addresses by host; of a peer only its place is known, not its ports."""
        return {
            peer.host: HostAddress(IPv6Address(peer.address).packed, peer.leaf, peer.slot, ()) for peer in self.peers
        }


def load_settings(path: Path) -> WorkerSettings:
    """Read and check the settings. Raises SettingsError."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=WorkerSettings)
    except OSError as error:
        raise SettingsError(str(path), error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise SettingsError(str(path), str(error)) from error
    if problems := [*_problems(settings)]:
        raise SettingsError(str(path), "; ".join(problems))
    return settings


def _problems(settings: WorkerSettings) -> list[str]:
    planes = list(range(settings.fabric.planes))
    known = {peer.host for peer in settings.peers}
    found = [
        f"host {host.host}: its ports are not those of planes 0..{len(planes) - 1} in order"
        for host in settings.hosts
        if [port.plane for port in host.ports] != planes
    ]
    found += [f"host {host.host} is not among the peers" for host in settings.hosts if host.host not in known]
    addresses = [(record.host, record.address) for record in settings.hosts]
    addresses += [(record.host, record.address) for record in settings.peers]
    for host, address in addresses:
        try:
            IPv6Address(address)
        except ValueError:
            found.append(f"host {host}: {address!r} is not an IPv6 address")
    return found


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
