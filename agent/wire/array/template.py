"""Common part of every packet of a QP per path: tables of frame prefixes, one row per EV.

Prefixes of one kind and length, and what masking changes in their ICRC, are computed once from a FlowTemplate and
cached. Holds addresses as given; knows nothing of PSNs, windows or sockets. Mapping from EV to outer address: MRC paper
2.3.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.icrc import HEADER_BYTES, carried_alike, mask_effect
from agent.wire.constants import Dscp, Ecn
from agent.wire.dtypes import (
    BASE_FRAME,
    BTH_OFFSET,
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_FRAME,
    SACK_MASK_FRAME,
    UDP_OFFSET,
    WRITE_FRAME,
    Record,
    offset_of,
    records,
)
from agent.wire.ev import EvCodec, EvError

IPV6_VERSION = 6 << 28

DATA_ROW, CONTROL_ROW = 0, 1
"""Rows of `FlowTemplate.tunnel_prefix`."""


@dataclass(frozen=True, slots=True)
class PortAddress:
    """One port of a host: its own MAC and that of the leaf port it is wired to, 6 bytes each."""

    mac: bytes
    leaf_mac: bytes


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Address of a host: its own (inner) IPv6 address, 16 bytes, and its place, the same in every plane."""

    address: bytes
    leaf: int
    slot: int
    ports: tuple[PortAddress, ...]
    """Ports by plane."""


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """Inputs of a flow's prefixes: its two ends, and the class of its first transmissions."""

    source: HostAddress
    peer: HostAddress
    udp_port: int
    data_class: int
    """Traffic class octet."""
    codec: EvCodec


@dataclass(frozen=True, slots=True, eq=False)
class FlowTemplate:
    """Prefixes of all packets one QP sends, by EV.

    `ev_index` of a batch selects the row. A QP's SACKs use a template towards the same peer QP over its reverse EVs.
    """

    evs: NDArray[np.uint32]
    """(E,) entropy values."""
    planes: NDArray[np.uint8]
    """(E,) plane, and so the port, of each row."""
    dqpn: int
    peer: NDArray[np.uint32]
    """(4,) words of the peer's inner address."""
    ends: FlowEnds = field(repr=False)
    write_prefix: NDArray[np.uint8] = field(repr=False)
    """(E, 138) bytes from Ethernet to RETH of a write; fields that differ between packets are zero."""
    write_icrc_effect: NDArray[np.uint32] = field(repr=False)
    """(E,) what the ICRC's masking changes at the end of the headers (icrc.mask_effect)."""
    retransmission_class: int | None
    """Traffic class octet of retransmissions if it differs from that of first transmissions."""
    sack_frame: NDArray[np.uint8] = field(repr=False)
    """(E, 154) bytes of a complete SACK frame in class CONTROL, likewise."""
    sack_mask_frame: NDArray[np.uint8] = field(repr=False)
    """(E, 158) bytes of a complete SACK with a port mask."""
    sack_icrc_effect: NDArray[np.uint32] = field(repr=False)
    """(E,) as `write_icrc_effect`, for SACKs."""
    tunnel_prefix: NDArray[np.uint8] = field(repr=False)
    """(2, E, 102) bytes from Ethernet to UDP, without lengths, in the class of first transmissions and in CONTROL."""
    tunnel_icrc_effect: NDArray[np.uint32] = field(repr=False)
    """(2, E) as `write_icrc_effect`, for `tunnel_prefix`."""

    @classmethod
    def for_peer(
        cls,
        source: HostAddress,
        peer: HostAddress,
        dqpn: int,
        evs: NDArray[np.uint32],
        *,
        dscp: Dscp = Dscp.NO_TRIM,
        retransmission_dscp: Dscp | None = None,
        udp_port: int = c.UDP_PORT_MRC,
        codec: EvCodec | None = None,
    ) -> "FlowTemplate":
        """Build prefixes from `source` to QP `dqpn` of `peer` over `evs`.

        Data is ECN-capable (ECT(0)), control is not. Raises EvError for an EV that names no path between the two.
        """
        codec = codec or EvCodec()
        data_class = class_octet(dscp, Ecn.ECT0)
        again_class = data_class if retransmission_dscp is None else class_octet(retransmission_dscp, Ecn.ECT0)
        writes = tunnel_frames(source, peer, evs, codec, WRITE_FRAME, data_class)
        sacks = tunnel_frames(source, peer, evs, codec, SACK_MASK_FRAME, CONTROL_CLASS)
        for frames in (writes, sacks):
            frames["udp"]["dport"] = udp_port
            frames["bth"]["pkey"] = c.PKEY
            frames["bth"]["dqp_word"] = dqpn
        writes["tseth"]["tsr_ftype"] = c.TSETH_TSR | c.TSETH_FTYPE
        sacks["bth"]["opcode"] = c.Opcode.SACK
        prefixes = (_as_bytes(writes), _as_bytes(sacks))
        effects = (_icrc_effect(writes), _icrc_effect(sacks))
        return cls(
            evs=evs.astype(np.uint32),
            planes=codec.plane_of(evs),
            dqpn=dqpn,
            peer=np.frombuffer(peer.address, ">u4").astype(np.uint32),
            ends=FlowEnds(source, peer, udp_port, data_class, codec),
            write_prefix=prefixes[DATA_ROW],
            write_icrc_effect=effects[DATA_ROW],
            retransmission_class=None if again_class == data_class else again_class,
            sack_frame=_with_lengths(sacks, SACK_FRAME.itemsize),
            sack_mask_frame=_with_lengths(sacks, SACK_MASK_FRAME.itemsize),
            sack_icrc_effect=effects[CONTROL_ROW],
            tunnel_prefix=np.stack([prefix[:, :BTH_OFFSET] for prefix in prefixes]),
            tunnel_icrc_effect=np.stack(effects),
        )

    def with_row(self, row: int, one: "FlowTemplate") -> "FlowTemplate":
        """Return the template with another EV to the same QP in a row: the only row of `one`."""
        changed: dict[str, Any] = {}
        for name in _BY_EV:
            changed[name] = getattr(self, name).copy()
            changed[name][..., row, :] = getattr(one, name)[..., 0, :]
        for name in _NUMBER_BY_EV:
            changed[name] = getattr(self, name).copy()
            changed[name][..., row] = getattr(one, name)[..., 0]
        return replace(self, **changed)


_BY_EV = ("write_prefix", "sack_frame", "sack_mask_frame", "tunnel_prefix")
_NUMBER_BY_EV = ("evs", "planes", "write_icrc_effect", "sack_icrc_effect", "tunnel_icrc_effect")


def class_octet(dscp: Dscp, ecn: Ecn) -> int:
    """Return the IPv6 traffic class, 8 bits."""
    return dscp << 2 | ecn


CONTROL_CLASS = class_octet(Dscp.CONTROL, Ecn.NOT_ECT)


def tunnel_frames(
    source: HostAddress,
    peer: HostAddress,
    evs: NDArray[np.uint32],
    codec: EvCodec,
    layout: Record,
    traffic_class: int,
) -> NDArray[np.void]:
    """Build one frame of a layout per EV, `(E,)`: Ethernet to UDP are set except lengths and port, the rest is zero.

    Both IPv6 headers carry the same class and flow label. Raises EvError.
    """
    frames = np.zeros(len(evs), layout)
    frames["eth"]["type"] = c.ETHERTYPE_IPV6
    for row, ev in enumerate(evs.tolist()):
        plane = codec.path_of(ev).plane
        if plane >= len(source.ports):
            raise EvError(ev, f"leaves by plane {plane}, but the host has {len(source.ports)} ports")
        port = source.ports[plane]
        frames["eth"]["src"][row] = _octets(port.mac)
        frames["eth"]["dst"][row] = _octets(port.leaf_mac)
        frames["outer"]["dst"][row] = _octets(codec.carrier_of(ev, source.leaf, peer.leaf, peer.slot))
    frames["inner"]["dst"] = _octets(peer.address)
    for header, next_header in (("outer", c.NEXT_HEADER_IPV6), ("inner", c.NEXT_HEADER_UDP)):
        frames[header]["class_word"] = IPV6_VERSION | traffic_class << 20 | codec.flow_label(evs).astype(np.uint32)
        frames[header]["nh"] = next_header
        frames[header]["hlim"] = c.HOP_LIMIT
        frames[header]["src"] = _octets(source.address)
    frames["udp"]["sport"] = codec.sport(evs)
    return frames


def _with_lengths(frames: NDArray[np.void], length: int) -> NDArray[np.uint8]:
    """Copy the frames cut to `length` bytes, with matching lengths in their headers."""
    cut = frames.copy()
    cut["outer"]["plen"] = length - INNER_OFFSET
    cut["inner"]["plen"] = cut["udp"]["len"] = length - UDP_OFFSET
    return _as_bytes(cut)[:, :length].copy()


def _icrc_effect(frames: NDArray[np.void]) -> NDArray[np.uint32]:
    """Compute the effect per EV: the masked bytes are the same in every frame sent, whatever its length."""
    return mask_effect(_as_bytes(frames)[:, INNER_OFFSET : INNER_OFFSET + HEADER_BYTES])


def _as_bytes(frames: NDArray[np.void]) -> NDArray[np.uint8]:
    return frames.view(np.uint8).reshape(len(frames), frames.dtype.itemsize)


def _octets(address: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(address, np.uint8)


_NXT = offset_of(SACK_FRAME, "seth", "m_pr")


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Prefixes by EV; as arrays for many frames, as numbers for few."""

    octets: NDArray[np.uint8]
    """(E, h) bytes; those that differ between packets are zero."""
    effect: NDArray[np.uint32]
    """(E,) what masking changes in the ICRC at `end`."""
    end: int
    """Offset of the ICRC."""

    @cached_property
    def numbers(self) -> list[int]:
        """Return each row of `octets` as one large number, at most up to the ICRC."""
        return [int.from_bytes(row[: self.end].tobytes()) for row in self.octets]

    @cached_property
    def effects(self) -> list[int]:
        """Return `effect` as numbers."""
        effects: list[int] = self.effect.tolist()
        return effects


@lru_cache(maxsize=256)
def write_prefixes(template: FlowTemplate, width: int, with_imm: bool = False) -> Prefixes:
    """Build prefixes up to the RETH, of writes with `width` bytes of payload."""
    pad = -width % 4
    end = PAYLOAD_OFFSET + with_imm * c.IMMDT_BYTES + width + pad
    octets = template.write_prefix.copy()
    frames = records(octets, WRITE_FRAME)
    frames["bth"]["flags"] = c.BTH_TIMESTAMP
    stamp_lengths(frames, end, pad)
    return Prefixes(octets, _carried(template.write_icrc_effect, end), end)


@lru_cache(maxsize=256)
def sack_prefixes(template: FlowTemplate, masked: bool) -> Prefixes:
    """Build prefixes of complete SACKs, the ICRC included, with or without port mask."""
    octets, layout = (template.sack_mask_frame, SACK_MASK_FRAME) if masked else (template.sack_frame, SACK_FRAME)
    end = layout.itemsize - c.ICRC_BYTES
    octets = octets.copy()
    if masked:
        octets[:, _NXT : _NXT + 2] = np.frombuffer((c.SETH_NXT_PORT_MASK << 7).to_bytes(2), np.uint8)
    return Prefixes(octets, _carried(template.sack_icrc_effect, end), end)


@lru_cache(maxsize=256)
def control_prefixes(template: FlowTemplate, transport: bytes) -> Prefixes:
    """Build prefixes of control frames up to the ICRC, in the class of data and then in CONTROL.

    Shape (2 E, h), row class * E + EV. `transport` holds the common bytes from the BTH on, without the QP number.
    """
    classes, evs, tunnel = template.tunnel_prefix.shape
    end = tunnel + len(transport)
    octets = np.zeros((classes * evs, end), np.uint8)
    octets[:, :tunnel] = template.tunnel_prefix.reshape(-1, tunnel)
    octets[:, tunnel:] = np.frombuffer(transport, np.uint8)
    frames = records(octets, BASE_FRAME)
    frames["bth"]["dqp_word"] = template.dqpn
    stamp_lengths(frames, end, 0)
    return Prefixes(octets, _carried(template.tunnel_icrc_effect.ravel(), end), end)


def forget_prefixes() -> None:
    """Clear the cache, and release its templates, for instance when a queue pair is destroyed."""
    for kept in (write_prefixes, sack_prefixes, control_prefixes):
        kept.cache_clear()


def stamp_lengths(frames: NDArray[np.void], end: NDArray[np.uint32] | int, pad: NDArray[np.uint32] | int) -> None:
    """Set lengths in the headers of frames (n,): the ICRC is at `end`, (n,) or one for all, after `pad` bytes."""
    udp_bytes = end - (UDP_OFFSET - c.ICRC_BYTES)
    frames["outer"]["plen"] = udp_bytes + c.IPV6_BYTES
    frames["inner"]["plen"] = udp_bytes
    frames["udp"]["len"] = udp_bytes
    frames["bth"]["pad_tver"] = pad << 4


def _carried(effect: NDArray[np.uint32], end: int) -> NDArray[np.uint32]:
    return carried_alike(effect, end - INNER_OFFSET - HEADER_BYTES)
