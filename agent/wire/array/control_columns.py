"""Columns of the control packets besides SACKs: frozen groups of numpy arrays, one row per packet.

Arrays are `(n,)` unless stated. `...Batch` is to be sent over the EVs of one FlowTemplate, `...Columns` was received,
of any queue pairs. Knows no byte layout and no protocol rule. Field names are those of MRC Tables 7-3 and 7-16 to 7-22.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.wire.array.columns import Columns


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _AckFields(Columns):
    """AETH: the transport acknowledgement, of messages."""

    psn: NDArray[np.uint32]
    """Cumulative transport PSN, 24 bits, as in RoCE."""
    syndrome: NDArray[np.uint8]
    """AETH_ACK, or AETH_NAK + NakCode; nothing else is delivered."""
    msn: NDArray[np.uint32]
    """Message sequence number, 24 bits."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.psn)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AckBatch(_AckFields):
    """Transport ACKs and NAKs of one QP to be encoded; class CONTROL."""

    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AckColumns(_AckFields):
    """Transport ACKs and NAKs as received."""

    dqpn: NDArray[np.uint32]
    plane: int
    source: NDArray[np.uint32] | None = None
    """(n, 4) words of the inner source address; None where there was no frame."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _NackFields(Columns):
    """NETH: one PSN that the responder does not count as received, and the reason."""

    nack_psn: NDArray[np.uint32]
    """PSN that is refused, 24 bits; also carried in the BTH."""
    nack_reason: NDArray[np.uint8]
    """Reason (NackReason); nothing else is delivered."""
    vendor_info: NDArray[np.uint8]
    ev: NDArray[np.uint32]
    """EV of the refused packet, reflected."""
    spdcid: NDArray[np.uint16]
    dpdcid: NDArray[np.uint16]
    tx_timestamp: NDArray[np.uint16]
    """Timestamp of the refused packet, reflected."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.nack_psn)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NackBatch(_NackFields):
    """Reliability NACKs of one QP to be encoded; class CONTROL."""

    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NackColumns(_NackFields):
    """Reliability NACKs as received."""

    dqpn: NDArray[np.uint32]
    plane: int
    source: NDArray[np.uint32] | None = None
    """(n, 4) words of the inner source address; None where there was no frame."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _ProbeFields(Columns):
    """PETH: a request about one QP that a SACK with `pr` answers."""

    probe_id: NDArray[np.uint16]
    spdcid: NDArray[np.uint16]
    dpdcid: NDArray[np.uint16]
    tx_timestamp: NDArray[np.uint16]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.probe_id)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ProbeBatch(_ProbeFields):
    """Reliability probes of one QP to be encoded, in the class of its first transmissions, tsr = 1."""

    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""
    in_control: bool = False
    """Use class CONTROL instead: a round trip without queues (our choice)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ProbeColumns(_ProbeFields):
    """Reliability probes as received."""

    tsr: NDArray[np.bool_]
    """The timestamp has a tick of the sender's choice."""
    ev: NDArray[np.uint32]
    """EV of the frame, to be reflected."""
    ce: NDArray[np.bool_]
    """Congestion Experienced, in the outer or the inner header."""
    dqpn: NDArray[np.uint32]
    plane: int
    source: NDArray[np.uint32] | None = None
    """(n, 4) words of the inner source address; None where there was no frame."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _EndpointRequestFields(Columns):
    """ERTH: a request to a host, not to a QP."""

    op: NDArray[np.uint8]
    """Operation (EndpointOp); nothing else is delivered."""
    request_id: NDArray[np.uint16]
    port_status_mask: NDArray[np.uint32]
    """Bit N: port N (from 1, = plane + 1) works; 0 in an EV probe (our choice)."""
    tx_timestamp: NDArray[np.uint16]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.request_id)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EndpointRequestBatch(_EndpointRequestFields):
    """EV probes (class of first transmissions) and port status updates (class CONTROL) to one host, tsr = 1.

    Needs a FlowTemplate towards ENDPOINT_QPN.
    """

    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EndpointRequestColumns(_EndpointRequestFields):
    """EV probes and port status updates as received."""

    ev: NDArray[np.uint32]
    """EV of the frame, which names the path it took."""
    source_address: NDArray[np.uint8]
    """(n, 16) inner source address: the host that sent the request."""
    dqpn: NDArray[np.uint32]
    plane: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _EndpointResponseFields(Columns):
    """EETH: the answer to an ERTH."""

    op: NDArray[np.uint8]
    """Operation of the request (EndpointOp); nothing else is delivered."""
    request_id: NDArray[np.uint16]
    tx_timestamp: NDArray[np.uint16]
    """Timestamp of the request, reflected."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.request_id)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EndpointResponseBatch(_EndpointResponseFields):
    """Answers to endpoint requests of one host; class CONTROL. Needs a FlowTemplate towards ENDPOINT_QPN."""

    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EndpointResponseColumns(_EndpointResponseFields):
    """Answers to endpoint requests as received."""

    ev: NDArray[np.uint32]
    """EV of the frame: the path of the answer, not the probed one."""
    source_address: NDArray[np.uint8]
    """(n, 16) inner source address: the host that answers."""
    dqpn: NDArray[np.uint32]
    plane: int


ControlBatch = AckBatch | NackBatch | ProbeBatch | EndpointRequestBatch | EndpointResponseBatch
