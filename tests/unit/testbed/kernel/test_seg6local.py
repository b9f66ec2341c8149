"""Bytes of the attributes that we declare ourselves, against those the kernel's headers ask for."""

import socket
from ipaddress import IPv6Address

from testbed.kernel.netlink import seg6local
from testbed.kernel.netlink.seg6local import RouteMessage

NESTED = 0x8000


def attribute(kind: int, value: bytes) -> bytes:
    padded = value + bytes(-len(value) % 4)
    return (4 + len(value)).to_bytes(2, "little") + kind.to_bytes(2, "little") + padded


def encoded(attributes: seg6local.Attributes) -> bytes:
    message = RouteMessage()
    message["family"] = socket.AF_INET6
    message["attrs"] = attributes
    message.encode()
    return bytes(message.data[28:])  # behind nlmsghdr and rtmsg


def decoded(attributes: seg6local.Attributes) -> RouteMessage:
    message = RouteMessage()
    message["family"] = socket.AF_INET6
    message["attrs"] = attributes
    message.encode()
    copy = RouteMessage(bytes(message.data))
    copy.decode()
    return copy


def without_nested_flag(data: bytes) -> bytes:
    """pyroute2 may or may not set NLA_F_NESTED; the kernel takes both."""
    return data.replace((22 | NESTED).to_bytes(2, "little"), (22).to_bytes(2, "little")).replace(
        (11 | NESTED).to_bytes(2, "little"), (11).to_bytes(2, "little")
    )


def test_end_with_next_csid():
    flavors = attribute(1, (16).to_bytes(4, "little")) + attribute(2, bytes([32])) + attribute(3, bytes([16]))
    encap = attribute(1, (1).to_bytes(4, "little")) + attribute(11, flavors)
    wanted = attribute(21, (7).to_bytes(2, "little")) + attribute(22, encap)
    assert without_nested_flag(encoded(seg6local.end_next_csid(32, 16))) == wanted


def test_end_dt6():
    encap = attribute(1, (7).to_bytes(4, "little")) + attribute(3, (255).to_bytes(4, "little"))
    wanted = attribute(21, (7).to_bytes(2, "little")) + attribute(22, encap)
    assert without_nested_flag(encoded(seg6local.end_dt6(255))) == wanted


def test_encap_red_keeps_the_last_segment_first():
    first, last = IPv6Address("5f00:0:2000:1000::"), IPv6Address("5f00:0:2001:e000::")
    header = bytes([3, 0, 0, 0]) + bytes([0, 4, 4, 1, 1, 0, 0, 0])
    encap = attribute(1, header + last.packed + first.packed)
    wanted = attribute(21, (5).to_bytes(2, "little")) + attribute(22, encap)
    assert without_nested_flag(encoded(seg6local.encap_red((first, last)))) == wanted


def test_what_was_encoded_decodes_again():
    message = decoded(seg6local.end_next_csid(32, 16))
    encap = message.get_attr("RTA_ENCAP")
    assert encap.get_attr("SEG6_LOCAL_ACTION") == seg6local.SEG6_LOCAL_ACTION_END
    flavors = encap.get_attr("SEG6_LOCAL_FLAVORS")
    assert flavors.get_attr("SEG6_LOCAL_FLV_OPERATION") == seg6local.FLV_OP_NEXT_CSID
    assert flavors.get_attr("SEG6_LOCAL_FLV_LCBLOCK_BITS") == 32
    segments = (IPv6Address("5f00:0:1::"), IPv6Address("5f00:0:2::"), IPv6Address("5f00:0:3::"))
    value = decoded(seg6local.encap_red(segments)).get_attr("RTA_ENCAP").get_attr("SEG6_IPTUNNEL_SRH")
    assert seg6local.segments_of(value) == segments


def test_segments_of_another_mode_are_not_taken_for_ours():
    red = encoded(seg6local.encap_red((IPv6Address("5f00:0:1::"),)))
    header = RouteMessage()
    header["family"] = socket.AF_INET6
    header.encode()
    place = red.index(bytes([3, 0, 0, 0, 0, 2, 4]))
    for mode in (0, 1, 2, 4, 9):
        other = red[:place] + bytes([mode]) + red[place + 1 :]
        length = (28 + len(other)).to_bytes(4, "little")
        message = RouteMessage(length + bytes(header.data[4:28]) + other)
        message.decode()
        assert seg6local.segments_of(message.get_attr("RTA_ENCAP").get_attr("SEG6_IPTUNNEL_SRH")) is None
