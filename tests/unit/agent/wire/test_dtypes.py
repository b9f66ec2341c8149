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
from tests.unit.agent.wire.wire_frames import TOLD_SACK, TOLD_WRITE, scapy_sack, scapy_write


def test_frames_are_as_long_as_their_headers():
    assert (INNER_OFFSET, UDP_OFFSET, BTH_OFFSET, PAYLOAD_OFFSET) == (54, 94, 102, 138)
    assert BASE_FRAME.itemsize == 114
    assert len(bytes(scapy_sack(TOLD_SACK))) == SACK_FRAME.itemsize


def test_words_hold_the_fields():
    frame = np.frombuffer(bytes(scapy_write(TOLD_WRITE))[: SACK_FRAME.itemsize], np.uint8)[np.newaxis]
    words = header_words(np.ascontiguousarray(frame[:, WORD_LEAD_BYTES:154]))
    assert words[word_of(WRITE_FRAME, "reth", "rkey"), 0] == TOLD_WRITE["rkey"]
    assert words[word_of(WRITE_FRAME, "meth"), 0] == TOLD_WRITE["rqmsn"] << 16 | TOLD_WRITE["msn"]
    assert offset_of(WRITE_FRAME, "reth", "rkey") == 130


def test_records_view_rows_that_lie_apart():
    ring = np.zeros((4, 300), np.uint8)
    records(ring[:, 32:], WRITE_FRAME)["bth"]["opcode"] = [1, 2, 3, 4]
    assert ring[:, 32 + BTH_OFFSET].tolist() == [1, 2, 3, 4]
