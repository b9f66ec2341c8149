"""A frame that takes one path of a fabric and can be told from all others: an inner packet without a next header."""

from testbed.emulation.network import FabricNet
from testbed.model.addressing import Path, host_address, port_of
from tests.support.namespaces import ETH_P_IPV6

INNER_TEXT = b"which way did I come"


def frame_for(net: FabricNet, path: Path, source: int, target: int) -> bytes:
    first = path.links[0]
    macs = [bytes.fromhex(port_of(net.fabric, end).mac.replace(":", "")) for end in (first.ingress, first.egress)]
    inner = ipv6(host_address(source).packed, host_address(target).packed, 59, INNER_TEXT)
    outer = ipv6(host_address(source).packed, path.destination.packed, 41, inner)
    return b"".join(macs) + ETH_P_IPV6.to_bytes(2) + outer


def ipv6(source: bytes, destination: bytes, next_header: int, payload: bytes) -> bytes:
    return b"\x60\0\0\0" + len(payload).to_bytes(2) + bytes((next_header, 64)) + source + destination + payload
