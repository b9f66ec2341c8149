"""Layout of every header as a numpy structured dtype.

Every other offset, also in the C programs, is derived from these.

Big-endian throughout. A word that mixes bit fields is one field here (`psn_word` = flags(8) psn(24)); layers.py names
its bits. Sources: MRC 6.2.2, 7.5 and Tables 7-12 to 7-22, RFC 8200, RFC 768.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c

Record = np.dtype[np.void]
"""Type of a structured dtype."""

ETHERNET = np.dtype([("dst", "u1", 6), ("src", "u1", 6), ("type", ">u2")])
IPV6 = np.dtype(
    [
        ("class_word", ">u4"),  # version(4) traffic class(8) flow label(20)
        ("plen", ">u2"),
        ("nh", "u1"),
        ("hlim", "u1"),
        ("src", "u1", 16),
        ("dst", "u1", 16),
    ]
)
UDP = np.dtype([("sport", ">u2"), ("dport", ">u2"), ("len", ">u2"), ("chksum", ">u2")])
BTH = np.dtype(
    {
        "names": ["opcode", "pad_tver", "pkey", "var_res", "dqp_word", "flags", "psn_word"],
        "formats": ["u1", "u1", ">u2", "u1", ">u4", "u1", ">u4"],
        "offsets": [0, 1, 2, 4, 4, 8, 8],  # var_res(8) dqp(24); flags(8) psn(24)
        "itemsize": c.BTH_BYTES,
    }
)
METH = np.dtype([("rqmsn", ">u2"), ("msn", ">u2")])
TSETH = np.dtype([("tx_timestamp", ">u2"), ("tsr_ftype", ">u2")])
RETH = np.dtype([("va", ">u8"), ("rkey", ">u4"), ("dmalen", ">u4")])
IMMDT = np.dtype([("imm", ">u4")])
AETH = np.dtype({"names": ["syndrome", "msn_word"], "formats": ["u1", ">u4"], "offsets": [0, 0], "itemsize": 4})
SETH = np.dtype(
    [
        ("m_pr", ">u2"),  # type(4) nxt(5) m(2) r(3) pr(1) r(1)
        ("ack_psn_offset", ">i2"),
        ("entropy", ">u4"),
        ("spdcid", ">u2"),
        ("dpdcid", ">u2"),
        ("cack_word", ">u4"),  # reserved(8) cack_psn(24)
        ("cc", "u1"),  # cc_type(4) cc_fl(4)
        ("mpr", "u1"),
        ("sack_offset", ">i2"),
        ("sack_bitmap", ">u8"),
    ]
)
CC_STATE = np.dtype(
    [
        ("tx_timestamp", ">u2"),
        ("ooo_count", ">u2"),
        ("rcvd_word", ">u4"),  # restore_cwnd(1) rcv_cwnd_pen(7) rcvd_bytes(24)
    ]
)
PORT_MASK = np.dtype([("port_mask", ">u4")])
NETH = np.dtype(
    [
        ("res0", ">u2"),
        ("nack_reason", "u1"),
        ("vendor_info", "u1"),
        ("entropy", ">u4"),
        ("spdcid", ">u2"),
        ("dpdcid", ">u2"),
        ("nack_word", ">u4"),  # reserved(8) nack_psn(24)
        ("cc", "u1"),
        ("res17", "u1"),
        ("tx_timestamp", ">u2"),
    ]
)
PETH = np.dtype(
    [
        ("res0", ">u2"),
        ("res2", "u1"),
        ("vendor_info", "u1"),
        ("probe_id", ">u2"),
        ("res6", ">u2"),
        ("spdcid", ">u2"),
        ("dpdcid", ">u2"),
        ("tx_timestamp", ">u2"),
        ("tsr_ftype", ">u2"),
    ]
)
ERTH = np.dtype(
    [
        ("op_word", ">u2"),  # reserved(14) op(2)
        ("res2", "u1"),
        ("vendor_info", "u1"),
        ("port_status_mask", ">u4"),
        ("res8", ">u4"),
        ("tx_timestamp", ">u2"),
        ("tsr_ftype", ">u2"),
    ]
)
EETH = np.dtype(
    [
        ("op_word", ">u2"),  # reserved(12) op(2) reserved(2)
        ("res2", "u1", 26),
        ("tx_timestamp", ">u2"),
        ("res30", "u1", 6),
    ]
)
ANNOUNCE = np.dtype(
    [
        ("magic", ">u4"),
        ("version", "u1"),
        ("policy", "u1"),
        ("plane", "u1"),
        ("kind", "u1"),
        ("epoch", ">u2"),
        ("spines", ">u2"),
        ("src_leaf", ">u2"),
        ("dst_leaf", ">u2"),
        ("src_host", ">u2"),
        ("dst_host", ">u2"),
        ("dqpn", ">u4"),
        ("start_psn", ">u4"),
        ("packets", ">u4"),
        ("last_psn", ">u4"),
        ("end_psn", ">u4"),
        ("measured", "u1"),
        ("res41", "u1", 3),
    ]
)
SHARE = np.dtype(">u4")
"""One entry per spine after the announcement that closes a flow: first transmissions over that spine."""

_TUNNEL: list[tuple[str, Any]] = [("eth", ETHERNET), ("outer", IPV6), ("inner", IPV6), ("udp", UDP)]
_REQUEST: list[tuple[str, Any]] = [*_TUNNEL, ("bth", BTH)]
BASE_FRAME = np.dtype(_REQUEST)
"""Common start of every MRC frame, 114 bytes."""
WRITE_FRAME = np.dtype([*_REQUEST, ("meth", METH), ("tseth", TSETH), ("reth", RETH)])
"""A write request up to its payload (or ImmDt), 138 bytes."""
SACK_FRAME = np.dtype([*_REQUEST, ("seth", SETH), ("cc_state", CC_STATE), ("icrc", "<u4")])
"""A complete SACK, 154 bytes."""
SACK_MASK_FRAME = np.dtype([*_REQUEST, ("seth", SETH), ("cc_state", CC_STATE), ("ports", PORT_MASK), ("icrc", "<u4")])
"""A complete SACK with the port mask (our choice), 158 bytes."""
ACK_FRAME = np.dtype([*_REQUEST, ("aeth", AETH), ("icrc", "<u4")])
NACK_FRAME = np.dtype([*_REQUEST, ("neth", NETH), ("icrc", "<u4")])
PROBE_FRAME = np.dtype([*_REQUEST, ("peth", PETH), ("icrc", "<u4")])
ENDPOINT_REQUEST_FRAME = np.dtype([*_REQUEST, ("erth", ERTH), ("icrc", "<u4")])
ENDPOINT_RESPONSE_FRAME = np.dtype([*_REQUEST, ("eeth", EETH), ("icrc", "<u4")])
ANNOUNCE_FRAME = np.dtype([*_TUNNEL, ("announce", ANNOUNCE)])
"""A complete announcement that opens a flow, 146 bytes; one that closes it also has the SHAREs."""


def offset_of(frame: Record, *path: str) -> int:
    """Return the byte offset of a nested field from the start of the frame.

    Example: `offset_of(WRITE_FRAME, "bth", "opcode")`.
    """
    offset = 0
    for name in path:
        assert frame.fields is not None
        frame, start = frame.fields[name][:2]
        offset += start
    return offset


INNER_OFFSET = offset_of(BASE_FRAME, "inner")
UDP_OFFSET = offset_of(BASE_FRAME, "udp")
BTH_OFFSET = offset_of(BASE_FRAME, "bth")
PAYLOAD_OFFSET = WRITE_FRAME.itemsize
"""Offset of the payload in a write with TSETH and without ImmDt."""


def records(rows: NDArray[np.uint8], layout: Record) -> NDArray[np.void]:
    """View the first bytes of each row through a layout, `(n,)`; rows may lie apart, their bytes may not."""
    if rows.shape[1] == layout.itemsize and rows.flags.c_contiguous:
        return np.ndarray((len(rows),), layout, rows)  # a twentieth of the cost
    return rows[:, : layout.itemsize].view(layout)[:, 0]


def word(value: int) -> NDArray[np.uint32]:
    """Make a constant to combine with words: numpy is twice as fast with an array of no dimension as with a number."""
    return np.array(value, np.uint32)


_LONG = np.array(32, np.uint64)
_SHIFTS = tuple(word(shift) for shift in range(32))
_MASKS = tuple(word((1 << width) - 1) for width in range(33))

WORD_LEAD_BYTES = 2
"""Bytes to skip in a frame so that every header after Ethernet's 14 bytes is aligned to four."""


def word_of(frame: Record, *path: str) -> int:
    """Return the number of the 32-bit word that holds a field, counted from WORD_LEAD_BYTES: see `header_words`."""
    return (offset_of(frame, *path) - WORD_LEAD_BYTES) // 4


_DTYPES = {1: np.bool_, 2: np.uint8, 7: np.uint8, 8: np.uint8, 16: np.uint16, 64: np.uint64}


class Bits(NamedTuple):
    """A field of at most 32 bits, or of exactly 64, within a frame's words (see `header_words`)."""

    word: int
    """Number of its word, or of the first of two if it has 64 bits."""
    shift: int
    width: int

    @property
    def dtype(self) -> type[np.generic]:
        """Return the smallest type that holds the field; a single bit is a boolean."""
        return _DTYPES.get(self.width, np.uint32 if self.width > 16 else np.uint16)

    def read(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Extract the field of all frames, `(n,)`, from `(w, n)` words; at most 32 bits."""
        value: NDArray[np.uint32] = words[self.word]
        if self.shift:
            value = value >> _SHIFTS[self.shift]
        return value & _MASKS[self.width] if self.shift + self.width < 32 else value

    def column(self, words: NDArray[np.uint32]) -> NDArray[Any]:
        """Extract the field in its `dtype`; `words` is contiguous word by word, and the column may be a view of it."""
        if self.width in (8, 16) and self.shift % self.width == 0:
            parts: NDArray[Any] = words[self.word].view(self.dtype)
            place = self.shift // self.width
            return parts[place if sys.byteorder == "little" else -1 - place :: 32 // self.width]
        if self.width == 64:
            long: NDArray[np.uint64] = words[self.word].astype(np.uint64) << _LONG | words[self.word + 1]
            return long
        return self.read(words).astype(self.dtype, copy=False)

    def placed(self, values: NDArray[np.generic]) -> NDArray[np.uint32]:
        """Shift values, `(n,)`, that fit the field, to its place in the word; at most 32 bits."""
        wide = values.astype(np.uint32)
        return wide << _SHIFTS[self.shift] if self.shift else wide

    def above(self, end: int) -> int:
        """Count the bits between the field and byte `end` of the frame.

        Its position in a number of all bytes up to there.
        """
        last = self.word + self.width // 64
        return 8 * (end - WORD_LEAD_BYTES - 4 * (last + 1)) + self.shift


def bits_of(frame: Record, *path: str, low: int = 0, width: int | None = None) -> Bits:
    """Describe `width` bits of a field from its bit `low` up (bit 0 the least significant).

    By default the whole field.
    """
    layout = frame
    for name in path:
        assert layout.fields is not None
        layout = layout.fields[name][0]
    word, place = divmod(offset_of(frame, *path) - WORD_LEAD_BYTES, 4)
    shift = max(0, 8 * (4 - place - layout.itemsize)) + low
    return Bits(word, shift, 8 * layout.itemsize if width is None else width)


def header_words(headers: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Arrange frames' words side by side.

    `(n, 4 w)` bytes from WORD_LEAD_BYTES on to `(w, n)` in host order, contiguous.

    One pass over the headers; then each field is a mask and a shift of a contiguous column (measured: several times
    cheaper than reading the fields of a structured view one by one).
    """
    return headers.view(">u4").T.astype(np.uint32, order="C")
