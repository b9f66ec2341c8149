"""SRv6 route attributes that pyroute2 lacks: flavors of seg6local (NEXT-CSID), and reduced encapsulation.

Only extends pyroute2's own classes by declarations in its style, so that each may become part of it. Sources:
linux/seg6_local.h, linux/seg6_iptunnel.h.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Any, ClassVar

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.rtmsg import LWTUNNEL_ENCAP_SEG6, LWTUNNEL_ENCAP_SEG6_LOCAL, rtmsg

__all__ = ["LWTUNNEL_ENCAP_SEG6", "LWTUNNEL_ENCAP_SEG6_LOCAL"]

FLV_OP_NEXT_CSID = 1 << 4
"""Bit of SEG6_LOCAL_FLV_OP_NEXT_CSID (4), in kernels since 6.1."""


class Seg6Local(rtmsg.seg6local_encap_info):
    """RTA_ENCAP of a seg6local route, with the attributes that newer kernels have."""

    __slots__ = ()
    nla_map = (
        *rtmsg.seg6local_encap_info.nla_map,
        ("SEG6_LOCAL_COUNTERS", "hex"),
        ("SEG6_LOCAL_FLAVORS", "flavors"),
    )

    class flavors(nla):  # noqa: N801, pyroute2 names them so
        """SEG6_LOCAL_FLAVORS."""

        __slots__ = ()
        nla_map = (
            ("SEG6_LOCAL_FLV_UNSPEC", "none"),
            ("SEG6_LOCAL_FLV_OPERATION", "uint32"),
            ("SEG6_LOCAL_FLV_LCBLOCK_BITS", "uint8"),
            ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", "uint8"),
        )


class Seg6(rtmsg.seg6_encap_info):
    """RTA_ENCAP of a seg6 (encapsulating) route, with the modes that newer kernels have."""

    __slots__ = ()

    class ipv6_sr_hdr(rtmsg.seg6_encap_info.ipv6_sr_hdr):  # noqa: N801
        """SEG6_IPTUNNEL_SRH."""

        __slots__ = ()
        encapmodes: ClassVar[dict[str, int]] = {
            **rtmsg.seg6_encap_info.ipv6_sr_hdr.encapmodes,
            "l2encap": 2,
            "encap.red": 3,
            "l2encap.red": 4,
        }
        r_encapmodes: ClassVar[dict[int, str]] = {number: name for name, number in encapmodes.items()}


class RouteMessage(rtmsg):
    """A route message with both extensions."""

    __slots__ = ()
    encaps: ClassVar[dict[int, Any]] = {
        **rtmsg.encaps,
        LWTUNNEL_ENCAP_SEG6: Seg6,
        LWTUNNEL_ENCAP_SEG6_LOCAL: Seg6Local,
    }


SEG6_LOCAL_ACTION_END: int = Seg6Local.action.actions["End"]
SEG6_LOCAL_ACTION_END_DT6: int = Seg6Local.action.actions["End.DT6"]

Attributes = list[tuple[str, Any]]


def end_next_csid(block_bits: int, usid_bits: int) -> Attributes:
    """Return the attributes of `encap seg6local action End flavors next-csid lblen BLOCK nflen USID`."""
    flavors: Attributes = [
        ("SEG6_LOCAL_FLV_OPERATION", FLV_OP_NEXT_CSID),
        ("SEG6_LOCAL_FLV_LCBLOCK_BITS", block_bits),
        ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", usid_bits),
    ]
    return _local([("SEG6_LOCAL_ACTION", {"value": "End"}), ("SEG6_LOCAL_FLAVORS", {"attrs": flavors})])


def end_dt6(table: int) -> Attributes:
    """Return the attributes of `encap seg6local action End.DT6 table TABLE`."""
    return _local([("SEG6_LOCAL_ACTION", {"value": "End.DT6"}), ("SEG6_LOCAL_TABLE", {"value": table})])


def encap_red(segments: Sequence[IPv6Address]) -> Attributes:
    """Return the attributes of `encap seg6 mode encap.red segs S1,S2,...`.

    The kernel keeps the list last segment first.
    """
    header = {"mode": "encap.red", "segs": [str(segment) for segment in reversed(segments)]}
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6), ("RTA_ENCAP", {"attrs": [("SEG6_IPTUNNEL_SRH", header)]})]


def segments_of(header: dict[str, Any]) -> tuple[IPv6Address, ...] | None:
    """Return the segments of an encap.red header read back, first segment first; None for another mode."""
    if header["mode"] != "encap.red":
        return None
    return tuple(IPv6Address(segment) for segment in reversed(header["segs"]))


def _local(attributes: Attributes) -> Attributes:
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6_LOCAL), ("RTA_ENCAP", {"attrs": attributes})]
