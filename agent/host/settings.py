"""The worker's settings: a JSON file read once into frozen records. Looks nothing up and opens nothing else."""

from ipaddress import IPv6Address
from pathlib import Path
from typing import Literal

import msgspec

from agent.host.errors import SettingsError
from agent.wire.array.template import HostAddress, PortAddress
from agent.wire.constants import UDP_PORT_MRC

RX_SLOTS = 2048
TX_SLOTS = 1024
"""Frames that a port can hold. Our choice: 9 MB a port, and more than four windows of 256 packets."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class PortSettings(_Record, frozen=True):
    """One port of a host we drive."""

    plane: int
    interface: str
    mac: str
    """Its own address, `02:30:...`."""
    leaf_mac: str
    """The address of the leaf's end of the link."""


class PeerSettings(_Record, frozen=True):
    """Where a host is: enough to address frames to it."""

    host: int
    address: str
    """Its own (inner) IPv6 address, the same in every plane."""
    leaf: int
    slot: int


class HostSettings(_Record, frozen=True):
    """One host this worker drives."""

    host: int
    address: str
    leaf: int
    slot: int
    ports: tuple[PortSettings, ...]
    """One a plane, in order of planes."""
    netns: str | None = None
    """Path of its network namespace; None: the worker's own."""
    engine: Literal["ring", "scapy"] = "ring"
    """Packet rings and numpy, or Scapy's sockets and layers."""

    def wire_address(self) -> HostAddress:
        """As the wire needs it."""
        ports = tuple(PortAddress(_mac(port.mac), _mac(port.leaf_mac)) for port in self.ports)
        return HostAddress(IPv6Address(self.address).packed, self.leaf, self.slot, ports)


class FabricSettings(_Record, frozen=True):
    """Size of the fabric."""

    planes: int
    leaves: int
    spines: int
    hosts_per_leaf: int


class WorkerSettings(_Record, frozen=True):
    """All one engine worker is told."""

    lab: str
    control_socket: str
    """Path of the unix socket to listen on."""
    event_log: str
    """JSON Lines are appended here."""
    older_event_log: str
    """What was appended goes here when it becomes much."""
    fabric: FabricSettings
    hosts: tuple[HostSettings, ...]
    peers: tuple[PeerSettings, ...]
    """All hosts of the lab, ours included."""
    seed: int = 0
    cpu: int | None = None
    """Core to run on; None: wherever the scheduler likes."""
    udp_port: int = UDP_PORT_MRC
    max_payload_bytes: int = 4096
    """Longest packet payload; sizes the rings."""
    rx_slots: int = RX_SLOTS
    """Frames a port can hold until they are looked at; more than the windows of all peers that send to it."""
    tx_slots: int = TX_SLOTS
    check_icrc: bool = True

    def peer_addresses(self) -> dict[int, HostAddress]:
        """By host; of a peer only its place is known, not its ports."""
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
