"""Common prefixes of all frames of one kind and length over one EV, and what masking changes in their ICRC.

Computed once from a FlowTemplate and cached; read-only.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.icrc import HEADER_BYTES, carried_alike
from agent.wire.array.template import FlowTemplate
from agent.wire.dtypes import (
    BASE_FRAME,
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_FRAME,
    SACK_MASK_FRAME,
    UDP_OFFSET,
    WRITE_FRAME,
    offset_of,
    records,
)

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
