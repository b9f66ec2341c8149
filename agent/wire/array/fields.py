"""Columns as bits of headers, for every packet and both directions: the one table that encoding and decoding use.

decode.py and encode.py process many frames column by column, few_frames.py few frames number by number, control.py
writes the rare packets. Sources: MRC Tables 7-6, 7-12 to 7-22.
"""

from agent.wire.dtypes import (
    ACK_FRAME,
    BASE_FRAME,
    ENDPOINT_REQUEST_FRAME,
    ENDPOINT_RESPONSE_FRAME,
    NACK_FRAME,
    PAYLOAD_OFFSET,
    PROBE_FRAME,
    SACK_FRAME,
    SACK_MASK_FRAME,
    WORD_LEAD_BYTES,
    WRITE_FRAME,
    Bits,
    bits_of,
)

DQPN = bits_of(BASE_FRAME, "bth", "dqp_word", width=24)
PSN = bits_of(BASE_FRAME, "bth", "psn_word", width=24)
RTX = bits_of(BASE_FRAME, "bth", "flags", low=5, width=1)
_REQUEST_ID = bits_of(BASE_FRAME, "bth", "psn_word", width=16)

OUTER_ECN = bits_of(BASE_FRAME, "outer", "class_word", low=20, width=2)
INNER_ECN = bits_of(BASE_FRAME, "inner", "class_word", low=20, width=2)
FLOW_LABEL = bits_of(BASE_FRAME, "inner", "class_word", width=16)
SPORT = bits_of(BASE_FRAME, "udp", "sport")
PAD = bits_of(BASE_FRAME, "bth", "pad_tver", low=4, width=2)

WRITE = {
    "psn": PSN,
    "opcode": bits_of(BASE_FRAME, "bth", "opcode"),
    "flags": bits_of(BASE_FRAME, "bth", "flags"),
    "msn": bits_of(WRITE_FRAME, "meth", "msn"),
    "rqmsn": bits_of(WRITE_FRAME, "meth", "rqmsn"),
    "tx_timestamp": bits_of(WRITE_FRAME, "tseth", "tx_timestamp"),
    "va": bits_of(WRITE_FRAME, "reth", "va"),
    "rkey": bits_of(WRITE_FRAME, "reth", "rkey"),
    "dmalen": bits_of(WRITE_FRAME, "reth", "dmalen"),
}
IMM = Bits((PAYLOAD_OFFSET - WORD_LEAD_BYTES) // 4, 0, 32)
"""Place of the immediate data, if the opcode carries one."""
SACK = {
    "cack_psn": bits_of(SACK_FRAME, "seth", "cack_word", width=24),
    "ack_psn_offset": bits_of(SACK_FRAME, "seth", "ack_psn_offset"),
    "pr": bits_of(SACK_FRAME, "seth", "m_pr", low=1, width=1),
    "rtx": RTX,
    "m": bits_of(SACK_FRAME, "seth", "m_pr", low=5, width=2),
    "ev": bits_of(SACK_FRAME, "seth", "entropy"),
    "spdcid": bits_of(SACK_FRAME, "seth", "spdcid"),
    "dpdcid": bits_of(SACK_FRAME, "seth", "dpdcid"),
    "mpr": bits_of(SACK_FRAME, "seth", "mpr"),
    "sack_offset": bits_of(SACK_FRAME, "seth", "sack_offset"),
    "bitmap": bits_of(SACK_FRAME, "seth", "sack_bitmap"),
    "tx_timestamp": bits_of(SACK_FRAME, "cc_state", "tx_timestamp"),
    "ooo_count": bits_of(SACK_FRAME, "cc_state", "ooo_count", width=15),
    "restore_cwnd": bits_of(SACK_FRAME, "cc_state", "rcvd_word", low=31, width=1),
    "rcv_cwnd_pen": bits_of(SACK_FRAME, "cc_state", "rcvd_word", low=24, width=7),
    "rcvd_bytes": bits_of(SACK_FRAME, "cc_state", "rcvd_word", width=24),
}
PORT_MASK = bits_of(SACK_MASK_FRAME, "ports", "port_mask")
"""Place of the port mask, if a SACK has one."""
ACK = {
    "psn": PSN,
    "syndrome": bits_of(ACK_FRAME, "aeth", "syndrome"),
    "msn": bits_of(ACK_FRAME, "aeth", "msn_word", width=24),
}
NACK = {
    "nack_psn": bits_of(NACK_FRAME, "neth", "nack_word", width=24),
    "nack_reason": bits_of(NACK_FRAME, "neth", "nack_reason"),
    "vendor_info": bits_of(NACK_FRAME, "neth", "vendor_info"),
    "ev": bits_of(NACK_FRAME, "neth", "entropy"),
    "spdcid": bits_of(NACK_FRAME, "neth", "spdcid"),
    "dpdcid": bits_of(NACK_FRAME, "neth", "dpdcid"),
    "tx_timestamp": bits_of(NACK_FRAME, "neth", "tx_timestamp"),
}
PROBE = {name: bits_of(PROBE_FRAME, "peth", name) for name in ("probe_id", "spdcid", "dpdcid", "tx_timestamp")}
PROBE_TSR = bits_of(PROBE_FRAME, "peth", "tsr_ftype", low=15, width=1)
ENDPOINT_REQUEST = {
    "op": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "op_word", width=2),
    "request_id": _REQUEST_ID,
    "port_status_mask": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "port_status_mask"),
    "tx_timestamp": bits_of(ENDPOINT_REQUEST_FRAME, "erth", "tx_timestamp"),
}
ENDPOINT_RESPONSE = {
    "op": bits_of(ENDPOINT_RESPONSE_FRAME, "eeth", "op_word", low=2, width=2),
    "request_id": _REQUEST_ID,
    "tx_timestamp": bits_of(ENDPOINT_RESPONSE_FRAME, "eeth", "tx_timestamp"),
}

SENT_TWICE = {"nack_psn": PSN, "cack_psn": PSN}
"""Columns that the BTH carries as well."""

SIGNED = frozenset({"ack_psn_offset", "sack_offset"})
"""Columns that are signed; all 16 bits."""
