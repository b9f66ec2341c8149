"""Constants of the wire format, each once and each with its source. Imports no module of this project.

Sections and tables are those of OCP MRC 1.0 as our sources cite them; "our choice" marks values that no source fixes.
"""

from enum import IntEnum

# UDP, MRC 7.5.5.2. 4791 is RoCEv2's registered port; the specification's text prints 4971, apparently transposed.
UDP_PORT_MRC = 4791
UDP_PORT_MRC_ALT = 4971
UDP_PORT_ANNOUNCE = 54791
"""UDP port of flow announcements to SprayCheck. Our choice: dynamic port range, with the last digits of MRC's port so
that it is easy to remember."""

# Bit widths and values derived from them.
PSN_BITS = 24
PSN_SPACE = 1 << PSN_BITS
"""Number of packets that a flow can number."""
PSN_MASK = PSN_SPACE - 1
QPN_MASK = 0xFFFFFF
MSN_MASK = 0xFFFFFF
RQMSN_MASK = 0xFFFF
RCVD_BYTES_MASK = 0xFFFFFF
RCVD_BYTES_UNIT = 256
OOO_COUNT_MAX = 0x7FFF
RCV_CWND_PEN_MAX = 0x7F
SACK_BITMAP_BITS = 64
MPR_UNIT_PSNS = 128
ENDPOINT_QPN = 2
"""Destination QP of endpoint requests and responses, MRC 7.5."""

# Header lengths in bytes, MRC 6.2.2 and Tables 7-12 to 7-22.
ETHERNET_BYTES = 14
IPV6_BYTES = 40
IPV6_ADDRESS_BYTES = 16
UDP_BYTES = 8
BTH_BYTES = 12
METH_BYTES = 4
TSETH_BYTES = 4
RETH_BYTES = 16
IMMDT_BYTES = 4
PORT_MASK_BYTES = 4
ICRC_BYTES = 4
MAX_PAD_BYTES = 3

# Ethernet and IPv6, IANA.
ETHERTYPE_IPV6 = 0x86DD
NEXT_HEADER_UDP = 17
NEXT_HEADER_IPV6 = 41
NEXT_HEADER_ROUTING = 43
HOP_LIMIT = 64

# BTH, MRC 7.5.1.
PKEY = 0xFFFF
BTH_ACK_REQUEST = 0x80
"""Byte 8: the responder must answer with a SACK."""
BTH_RETRANSMISSION = 0x20
"""Byte 8: this packet is a retransmission; in a SACK the echo of that bit."""
BTH_TIMESTAMP = 0x10
"""Byte 8: a TSETH follows the METH."""
SPRAYCHECK_MARK = 0x01
"""Byte 4, lowest bit of the first reserved block (SprayCheck F3); outside the ICRC, so a switch may set it."""

# TSETH, MRC 7.5.2.
TSETH_FTYPE = 0x1
TSETH_TSR = 0x8000
TX_TIMESTAMP_TICK_NS = 8192
"""Duration of a tick when tsr = 1. Our choice: 16 bits wrap after 537 ms, above any round trip of an emulated
fabric."""

AETH_ACK = 0x1F
AETH_NAK = 0x60
NETH_CC_TYPE = 0x2
SETH_NXT_PORT_MASK = 0x1F
"""Value of SETH.nxt when a port mask follows the CC_STATE. Our choice: the highest value, not used by MRC."""


class Opcode(IntEnum):
    """BTH byte 0, MRC Table 7-5: top three bits 110."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMM = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMM = 0xCB
    ACKNOWLEDGE = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE_REQUEST = 0xDE


WRITE_OPCODES = (
    Opcode.WRITE_FIRST,
    Opcode.WRITE_MIDDLE,
    Opcode.WRITE_LAST,
    Opcode.WRITE_LAST_IMM,
    Opcode.WRITE_ONLY,
    Opcode.WRITE_ONLY_IMM,
)
IMMEDIATE_OPCODES = (Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM)


class Dscp(IntEnum):
    """Traffic classes of MRC 3.1; the names are the specification's, the values are our choice (it fixes none)."""

    NO_TRIM = 0
    TRIMMABLE = 4
    TRIMMABLE_RETX = 8
    TRIMMED = 12
    TRIMMED_LASTHOP = 16
    CONTROL = 46


class Ecn(IntEnum):
    """Low two bits of the traffic class, RFC 3168."""

    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


class EcnVerdict(IntEnum):
    """Values of SETH.m, MRC Table 7-14: what the responder reports of the path of the packet it answers."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2


class NackReason(IntEnum):
    """NETH.nack_reason, MRC Table 7-3."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


class NakCode(IntEnum):
    """Low bits of an AETH NAK syndrome, IBTA coding."""

    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3


class EndpointOp(IntEnum):
    """ERTH.op and EETH.op, MRC Tables 7-20 and 7-22."""

    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


class SprayPolicyCode(IntEnum):
    """Values of Announcement.policy: how the sender of the announced flow sprays. Our choice."""

    ROTATION = 0
    RANDOM = 1


ANNOUNCE_MAGIC = 0x53505259
"""ASCII "SPRY": distinguishes an announcement from any other datagram to its port. Our choice."""
ANNOUNCE_VERSION = 2


class AnnounceKind(IntEnum):
    """Values of Announcement.kind: the state of the flow. Our choice."""

    OPEN = 0
    """The flow will be sent."""
    CLOSE = 1
    """All its first transmissions have left; the number over each spine follows."""
    ELSEWHERE = 2
    """The flow is closed in another plane than the one that carries this announcement, since that plane may carry
    nothing."""
