"""Frames are as long as their headers, and word numbers and views find the fields."""

import numpy as np

from agent.wire.dtypes import (
    BASE_FRAME,
    BTH_OFFSET,
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_FRAME,
    UDP_OFFSET,
    WORD_LEAD_BYTES,
    WRITE_FRAME,
    header_words,
    offset_of,
    records,
    word_of,
)
from tests.unit.agent.wire.wire_frames import scapy_sack, scapy_write

WRITE = {
    "psn": 0xA1A2A3,
    "opcode": 0xC9,
    "flags": 0xA0,
    "ev_index": 3,
    "msn": 0xB1B2,
    "rqmsn": 0xB3B4,
    "va": 0xC1C2C3C4C5C6C7C8,
    "rkey": 0xD1D2D3D4,
    "dmalen": 0xD5D6D7D8,
    "imm": 0xE1E2E3E4,
    "source_offset": 0,
    "payload_bytes": 8,
}
SACK = {
    "cack_psn": 0xA1A2A3,
    "ack_psn_offset": 0x3132,
    "pr": 1,
    "rtx": 1,
    "m": 1,
    "ev": 0xB1B2B3B4,
    "spdcid": 0xC1C2,
    "dpdcid": 0xC3C4,
    "mpr": 0xC5,
    "sack_offset": 0x4142,
    "bitmap": 0xD1D2D3D4D5D6D7D8,
    "tx_timestamp": 0xE1E2,
    "ooo_count": 0x5152,
    "restore_cwnd": 1,
    "rcv_cwnd_pen": 0x41,
    "rcvd_bytes": 0xF1F2F3,
    "ev_index": 3,
}


def test_frames_are_as_long_as_their_headers():
    assert (INNER_OFFSET, UDP_OFFSET, BTH_OFFSET, PAYLOAD_OFFSET) == (54, 94, 102, 138)
    assert BASE_FRAME.itemsize == 114
    assert len(bytes(scapy_sack(SACK))) == SACK_FRAME.itemsize


def test_words_hold_the_fields():
    frame = np.frombuffer(bytes(scapy_write(WRITE))[: SACK_FRAME.itemsize], np.uint8)[np.newaxis]
    words = header_words(np.ascontiguousarray(frame[:, WORD_LEAD_BYTES:154]))
    assert words[word_of(WRITE_FRAME, "reth", "rkey"), 0] == WRITE["rkey"]
    assert words[word_of(WRITE_FRAME, "meth"), 0] == WRITE["rqmsn"] << 16 | WRITE["msn"]
    assert offset_of(WRITE_FRAME, "reth", "rkey") == 130


def test_records_view_rows_that_lie_apart():
    ring = np.zeros((4, 300), np.uint8)
    records(ring[:, 32:], WRITE_FRAME)["bth"]["opcode"] = [1, 2, 3, 4]
    assert ring[:, 32 + BTH_OFFSET].tolist() == [1, 2, 3, 4]
