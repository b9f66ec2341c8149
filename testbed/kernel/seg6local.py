"""Netlink attributes of SRv6 routes as pyroute2 lacks them: seg6local flavors (NEXT-CSID) and encap.red.

Declares messages only; sends nothing. Sources: linux/seg6_local.h, linux/seg6_iptunnel.h, linux/seg6.h.
"""

import struct
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Any, ClassVar

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.rtmsg import rtmsg

LWTUNNEL_ENCAP_SEG6 = 5
LWTUNNEL_ENCAP_SEG6_LOCAL = 7

SEG6_LOCAL_ACTION_END = 1
SEG6_LOCAL_ACTION_END_DT6 = 7

FLV_OP_NEXT_CSID = 1 << 4
"""Bit of SEG6_LOCAL_FLV_OP_NEXT_CSID (4), in a kernel from 6.1 on."""

_IPTUN_MODE_ENCAP_RED = 3
_ROUTING_HEADER_SEGMENT = 4  # RFC 8754, section 2
_SRH = struct.Struct("=iBBBBBBH")  # mode, then next header, length, type, segments left, last entry, flags, tag


class Flavors(nla):
    """SEG6_LOCAL_FLAVORS."""

    __slots__ = ()
    nla_map = (
        ("SEG6_LOCAL_FLV_UNSPEC", "none"),
        ("SEG6_LOCAL_FLV_OPERATION", "uint32"),
        ("SEG6_LOCAL_FLV_LCBLOCK_BITS", "uint8"),
        ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", "uint8"),
    )


class Seg6Local(nla):
    """RTA_ENCAP of a seg6local route."""

    __slots__ = ()
    nla_map = (
        ("SEG6_LOCAL_UNSPEC", "none"),
        ("SEG6_LOCAL_ACTION", "uint32"),
        ("SEG6_LOCAL_SRH", "hex"),
        ("SEG6_LOCAL_TABLE", "uint32"),
        ("SEG6_LOCAL_NH4", "ip4addr"),
        ("SEG6_LOCAL_NH6", "ip6addr"),
        ("SEG6_LOCAL_IIF", "uint32"),
        ("SEG6_LOCAL_OIF", "uint32"),
        ("SEG6_LOCAL_BPF", "hex"),
        ("SEG6_LOCAL_VRFTABLE", "uint32"),
        ("SEG6_LOCAL_COUNTERS", "hex"),
        ("SEG6_LOCAL_FLAVORS", "flavors"),
    )
    flavors = Flavors


class Seg6(nla):
    """RTA_ENCAP of a seg6 (encapsulating) route; the value is `struct seg6_iptunnel_encap`."""

    __slots__ = ()
    nla_map = (("SEG6_IPTUNNEL_UNSPEC", "none"), ("SEG6_IPTUNNEL_SRH", "cdata"))


class RouteMessage(rtmsg):
    """A route message that knows both kinds of SRv6 route."""

    __slots__ = ()
    encaps: ClassVar[dict[int, Any]] = {LWTUNNEL_ENCAP_SEG6: Seg6, LWTUNNEL_ENCAP_SEG6_LOCAL: Seg6Local}


Attributes = list[tuple[str, Any]]


def end_next_csid(block_bits: int, usid_bits: int) -> Attributes:
    """Attributes of `encap seg6local action End flavors next-csid lblen BLOCK nflen USID`."""
    flavors: Attributes = [
        ("SEG6_LOCAL_FLV_OPERATION", FLV_OP_NEXT_CSID),
        ("SEG6_LOCAL_FLV_LCBLOCK_BITS", block_bits),
        ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", usid_bits),
    ]
    return _local([("SEG6_LOCAL_ACTION", SEG6_LOCAL_ACTION_END), ("SEG6_LOCAL_FLAVORS", {"attrs": flavors})])


def end_dt6(table: int) -> Attributes:
    """Attributes of `encap seg6local action End.DT6 table TABLE`."""
    return _local([("SEG6_LOCAL_ACTION", SEG6_LOCAL_ACTION_END_DT6), ("SEG6_LOCAL_TABLE", table)])


def encap_red(segments: Sequence[IPv6Address]) -> Attributes:
    """Attributes of `encap seg6 mode encap.red segs S1,S2,...`. The kernel keeps the list last segment first."""
    last = len(segments) - 1
    header = _SRH.pack(_IPTUN_MODE_ENCAP_RED, 0, 2 * len(segments), _ROUTING_HEADER_SEGMENT, last, last, 0, 0)
    value = header + b"".join(segment.packed for segment in reversed(segments))
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6), ("RTA_ENCAP", {"attrs": [("SEG6_IPTUNNEL_SRH", value)]})]


def segments_of(value: bytes) -> tuple[IPv6Address, ...] | None:
    """The segments of an encap.red value read back, first segment first; None for another mode."""
    mode, _, _, _, _, last, _, _ = _SRH.unpack_from(value)
    if mode != _IPTUN_MODE_ENCAP_RED:
        return None
    body = value[_SRH.size : _SRH.size + 16 * (last + 1)]
    return tuple(IPv6Address(body[i : i + 16]) for i in reversed(range(0, len(body), 16)))


def _local(attributes: Attributes) -> Attributes:
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6_LOCAL), ("RTA_ENCAP", {"attrs": attributes})]
