"""Hostile frames by seed: noise, cut, grown, broken, replayed and forged ones, made from frames seen on the wire.

A forged frame has a right ICRC, so it passes the wire's checks and must be stopped, or counted, by the transport.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.icrc import flat_bytes, icrcs_of
from agent.wire.constants import Dscp, NackReason, Opcode
from agent.wire.dtypes import (
    ACK_FRAME,
    BASE_FRAME,
    BTH_OFFSET,
    INNER_OFFSET,
    NACK_FRAME,
    SACK_FRAME,
    UDP_OFFSET,
    WORD_LEAD_BYTES,
    WRITE_FRAME,
    Bits,
    bits_of,
    offset_of,
    records,
)
from agent.wire.validate.rules import CONTROL_FRAMES, FIELD_RULES, KIND_OF_OPCODE, Kind

Frames = NDArray[np.uint8]
Lengths = NDArray[np.uint32]

STRIDE = 512
WINDOW_PKTS = 1024
"""At least what the attacked queue pairs send ahead."""
_FLAGS = offset_of(BASE_FRAME, "bth", "flags")
_TRAILER = c.ICRC_BYTES
_EDGES = np.array([0, 1, 2, 3, 0xFF, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)


@dataclass(frozen=True)
class Target:
    """What an attacker of one queue pair knows, and what it does not."""

    qpn: int
    rkey: int
    va: int
    region_bytes: int
    gently: bool
    """Forge nothing that rightly fails the queue pair, so that it lives to see more."""
    others_qpns: tuple[int, ...]
    """Never named: packets to another queue pair with a right ICRC and a PSN in its window would be that pair's own."""
    others_rkeys: tuple[int, ...]
    """Never named: a key is the only secret of a region."""


class Corpus:
    """The last frames seen on the way to each queue pair; feed it from a `PathRule`."""

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._seen: dict[int, list[bytes]] = {}

    def capture(self, frames: Frames, lengths: Lengths) -> None:
        """Copy the frames; changes nothing."""
        for row, length in zip(frames, lengths.tolist(), strict=True):
            frame = row[:length].tobytes()
            seen = self._seen.setdefault(int.from_bytes(frame[BTH_OFFSET + 5 : BTH_OFFSET + 8]), [])
            seen.append(frame)
            del seen[: -self._limit]

    def frames_to(self, qpn: int) -> list[bytes]:
        """What is known of one queue pair, oldest first."""
        return self._seen.get(qpn, [])

    def forget(self, qpn: int) -> None:
        """The queue pair is gone."""
        self._seen.pop(qpn, None)


def hostile_frames(rng: np.random.Generator, seen: list[bytes], target: Target, count: int) -> tuple[Frames, Lengths]:
    """`count` frames for one port made from the frames `seen` on the way to `target`, `(count, STRIDE)` and lengths."""
    rows, lengths = _drawn(rng, seen, count)
    share = np.array(list(_SHARES.values()))
    chosen = rng.choice(len(share), count, p=share / share.sum())
    for number, attack in enumerate(_SHARES):
        hit = np.flatnonzero(chosen == number)
        if len(hit):
            frames, sizes = rows[hit], lengths[hit]
            attack(rng, frames, sizes, target)
            rows[hit], lengths[hit] = frames, sizes
    return rows, lengths


def _drawn(rng: np.random.Generator, seen: list[bytes], count: int) -> tuple[Frames, Lengths]:
    rows = np.zeros((count, STRIDE), np.uint8)
    lengths = np.zeros(count, np.uint32)
    for row, number in enumerate(rng.integers(0, len(seen), count).tolist()):
        frame = seen[number]
        rows[row, : len(frame)] = np.frombuffer(frame, np.uint8)
        lengths[row] = len(frame)
    return rows, lengths


def _replay(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """Once more, as it was."""


def _noise(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    frames[:] = rng.integers(0, 256, frames.shape, np.uint8)
    lengths[:] = rng.integers(0, STRIDE + 1, len(lengths))


def _cut(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    lengths[:] = rng.integers(0, lengths)


def _grown(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    for frame, length in zip(frames, lengths.tolist(), strict=True):
        frame[length:] = rng.integers(0, 256, STRIDE - length, np.uint8)
    lengths[:] = rng.integers(lengths, STRIDE + 1)


def _flipped(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """Up to three bits, ICRC left as it was."""
    for _ in range(3):
        places = rng.integers(0, lengths)
        frames[np.arange(len(frames)), places] ^= np.uint8(1) << rng.integers(0, 8, len(frames), np.uint8)


def _wrong_lengths(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """One of the headers' three lengths is something else, or the port says a length that is not there."""
    frame = records(frames, BASE_FRAME)
    fields = (frame["outer"], frame["inner"], frame["udp"])
    which = rng.integers(0, 4, len(frames))
    values = rng.choice(np.array([0, 1, 7, 8, 40, 300, 0x7FFF, 0x8000, 0xFFFF]), len(frames))
    for number, (header, name) in enumerate(zip(fields, ("plen", "plen", "len"), strict=True)):
        hit = which == number
        header[name][hit] = values[hit]
    lengths[which == 3] = values[which == 3]


def _forged_words(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """Up to four words from the BTH on are edges, near what they were, or anything; now and then another opcode."""
    for _ in range(4):
        ends = np.minimum(lengths, BTH_OFFSET + 56)
        places = BTH_OFFSET + 4 * rng.integers(0, np.maximum((ends - BTH_OFFSET) // 4, 1))
        spots = places[:, np.newaxis] + np.arange(4)
        rows = np.arange(len(frames))[:, np.newaxis]
        old = np.ascontiguousarray(frames[rows, spots]).view(">u4")[:, 0].astype(np.uint32)
        near = old + rng.integers(-300, 300, len(old)).astype(np.uint32)
        new = np.choose(
            rng.integers(0, 4, len(old)),
            [old, rng.choice(_EDGES, len(old)), near, rng.integers(0, 1 << 32, len(old), np.uint32)],
        )
        frames[rows, spots] = new.astype(">u4").view(np.uint8).reshape(-1, 4)
    other = rng.random(len(frames)) < 0.2
    frames[other, BTH_OFFSET] = rng.choice(np.array(list(Opcode), np.uint8), int(other.sum()))
    _make_plausible(rng, frames, target)
    _sign(frames, lengths)


def _forged_place(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """Writes of any age to about the ends of the region, mostly under the right key and as whole messages."""
    opcodes = rng.choice(np.array(c.WRITE_OPCODES, np.uint8), len(frames))
    writes = KIND_OF_OPCODE[frames[:, BTH_OFFSET]] >= Kind.WRITE.value
    frames[writes, BTH_OFFSET] = opcodes[writes]
    frame = records(frames, WRITE_FRAME)
    payload = np.maximum(lengths.astype(np.int64) - WRITE_FRAME.itemsize - _TRAILER, 0)
    whole = writes & (rng.random(len(frames)) < 0.8)
    frames[whole, BTH_OFFSET] = Opcode.WRITE_ONLY
    pad = frame["bth"]["pad_tver"] >> 4 & 3
    frame["reth"]["dmalen"][whole] = np.maximum(payload - pad, 0)[whole]
    edges = [
        np.zeros(len(frames), np.int64),
        target.region_bytes - payload,
        rng.integers(0, target.region_bytes, len(frames)),
    ]
    near = rng.choice(np.array([-600, -4, -1, 0, 1, 2, 3, 4, 600]), len(frames))
    place = np.choose(rng.integers(0, 3, len(frames)), edges) + near
    va = (np.uint64(target.va) + place.astype(np.uint64)).astype(np.uint64)
    va[rng.random(len(frames)) < 0.1] = np.uint64((1 << 64) - 100)
    frame["reth"]["va"][writes] = va[writes]
    wrong_key = writes & (rng.random(len(frames)) < 0.2)
    frame["reth"]["rkey"][wrong_key] = rng.integers(0, 1 << 32, int(wrong_key.sum()), np.uint32)
    ahead = rng.integers(-700, 700, len(frames)).astype(np.uint32)
    psn_word = frame["bth"]["psn_word"].astype(np.uint32)
    frame["bth"]["psn_word"] = psn_word & np.uint32(0xFF000000) | psn_word + ahead & np.uint32(c.PSN_MASK)
    _make_plausible(rng, frames, target)
    _sign(frames, lengths)


def _forged_size(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """All lengths agree and the ICRC is right, but there is more or less behind the headers than there should be."""
    ends = BTH_OFFSET + c.BTH_BYTES + 4 * rng.integers(0, (STRIDE - BTH_OFFSET - 16) // 4, len(frames))
    _say_lengths(frames, ends)
    records(frames, BASE_FRAME)["bth"]["pad_tver"] = rng.integers(0, 4, len(frames)) << 4
    lengths[:] = ends + _TRAILER
    _make_plausible(rng, frames, target)
    _sign(frames, lengths)


def _forged_control(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """Control packets of every kind, right in length and ICRC; what they say is edges, near the truth, or anything."""
    kinds = rng.integers(0, len(CONTROL_FRAMES), len(frames))
    ends = np.array([frame.layout.itemsize - _TRAILER for frame in CONTROL_FRAMES])[kinds]
    frames[:, BTH_OFFSET] = np.array([frame.opcode for frame in CONTROL_FRAMES], np.uint8)[kinds]
    body = np.arange(BTH_OFFSET + c.BTH_BYTES, BTH_OFFSET + c.BTH_BYTES + 40)
    words = rng.choice(_EDGES, (len(frames), len(body) // 4)).astype(">u4").view(np.uint8)
    frames[:, body] = np.where(rng.random((len(frames), 1)) < 0.5, words, rng.integers(0, 256, words.shape, np.uint8))
    for rule in FIELD_RULES:
        hit = np.flatnonzero((KIND_OF_OPCODE[frames[:, BTH_OFFSET]] == rule.kind) & (rng.random(len(frames)) < 0.95))
        _write(frames, hit, rule.bits, rng.choice(np.array(rule.allowed, np.uint32), len(hit)))
    sacks = np.flatnonzero((frames[:, BTH_OFFSET] == Opcode.SACK) & (rng.random(len(frames)) < 0.95))
    _write(frames, sacks, bits_of(SACK_FRAME, "seth", "m_pr", low=7, width=9), np.zeros(len(sacks), np.uint32))
    psns = records(frames, BASE_FRAME)["bth"]["psn_word"].astype(np.uint32) + rng.integers(
        0, 99, len(frames), np.uint32
    )
    for header, field in (("seth", "cack_word"), ("neth", "nack_word")):
        layout = SACK_FRAME if header == "seth" else NACK_FRAME
        hit = np.flatnonzero((frames[:, BTH_OFFSET] == _OPCODE_OF[header]) & (rng.random(len(frames)) < 0.7))
        _write(frames, hit, bits_of(layout, header, field, width=24), psns[hit] & np.uint32(c.PSN_MASK))
    _say_lengths(frames, ends)
    records(frames, BASE_FRAME)["bth"]["pad_tver"] = 0
    lengths[:] = ends + _TRAILER
    _make_plausible(rng, frames, target)
    _sign(frames, lengths)


def _trimmed(rng: np.random.Generator, frames: Frames, lengths: Lengths, target: Target) -> None:
    """As a switch trims: another class, the outer length shorter; some words changed, as no ICRC guards them."""
    kept = np.minimum(rng.integers(BTH_OFFSET, BTH_OFFSET + 60, len(frames)), lengths)
    octets = rng.choice(np.array([Dscp.TRIMMED << 2, Dscp.TRIMMED_LASTHOP << 2 | 3], np.uint32), len(frames))
    frame = records(frames, BASE_FRAME)
    class_word = frame["outer"]["class_word"].astype(np.uint32)
    frame["outer"]["class_word"] = class_word & np.uint32(0xF00FFFFF) | octets << np.uint32(20)
    frame["outer"]["plen"] = np.maximum(kept.astype(np.int64) - INNER_OFFSET, 0)
    ahead = rng.integers(-40, 40, len(frames)).astype(np.uint32)
    psn_word = frame["bth"]["psn_word"].astype(np.uint32)
    frame["bth"]["psn_word"] = psn_word & np.uint32(0xFF000000) | psn_word + ahead & np.uint32(c.PSN_MASK)
    lengths[:] = kept
    _make_plausible(rng, frames, target)


_SHARES: dict[Callable[[np.random.Generator, Frames, Lengths, Target], None], float] = {
    _replay: 0.10,
    _noise: 0.05,
    _cut: 0.08,
    _grown: 0.04,
    _flipped: 0.08,
    _wrong_lengths: 0.05,
    _forged_words: 0.30,
    _forged_place: 0.15,
    _forged_size: 0.08,
    _forged_control: 0.20,
    _trimmed: 0.07,
}
"""What is done to a frame, and to how many of them."""


_OPCODE_OF = {"seth": Opcode.SACK, "neth": Opcode.NACK}


def _say_lengths(frames: Frames, ends: NDArray[np.int64]) -> None:
    """All three lengths for frames whose ICRC starts at `ends`."""
    frame = records(frames, BASE_FRAME)
    udp_bytes = ends + _TRAILER - UDP_OFFSET
    frame["udp"]["len"] = frame["inner"]["plen"] = udp_bytes
    frame["outer"]["plen"] = udp_bytes + c.IPV6_BYTES


def _write(frames: Frames, rows: NDArray[np.intp], bits: Bits, values: NDArray[np.uint32]) -> None:
    spots = WORD_LEAD_BYTES + 4 * bits.word + np.arange(4)
    words = np.ascontiguousarray(frames[rows[:, np.newaxis], spots]).view(">u4")[:, 0].astype(np.uint32)
    mask = np.uint32((1 << bits.width) - 1 << bits.shift)
    words = words & ~mask | values << np.uint32(bits.shift)
    frames[rows[:, np.newaxis], spots] = words.astype(">u4").view(np.uint8).reshape(-1, 4)


def _make_plausible(rng: np.random.Generator, frames: Frames, target: Target) -> None:
    """Mostly version, key and queue pair are right, so that the transport has to judge; never others' names."""
    bth = records(frames, BASE_FRAME)["bth"]
    right = rng.random(len(frames)) < 0.9
    bth["pkey"][right] = c.PKEY
    bth["pad_tver"][right] &= 0x30
    dqpn = bth["dqp_word"].astype(np.uint32) & np.uint32(c.QPN_MASK)
    endpoint = np.isin(bth["opcode"], (Opcode.ENDPOINT_REQUEST, Opcode.ENDPOINT_RESPONSE))
    named = np.where(endpoint, c.ENDPOINT_QPN, target.qpn)
    bth["dqp_word"] = np.where(right | np.isin(dqpn, target.others_qpns), named, dqpn)
    if target.gently:
        _make_harmless(rng, frames, target)
    # With a TSETH and without one.
    for place in (offset_of(WRITE_FRAME, "reth", "rkey"), offset_of(WRITE_FRAME, "reth", "rkey") - c.TSETH_BYTES):
        key = np.ascontiguousarray(frames[:, place : place + 4]).view(">u4")[:, 0]
        frames[np.isin(key, target.others_rkeys), place] ^= 0xFF


def _make_harmless(rng: np.random.Generator, frames: Frames, target: Target) -> None:
    """No write outside the region, none that is new, none with immediate, no NAK, no NACK that is fatal."""
    opcode = frames[:, BTH_OFFSET]
    opcode[np.isin(opcode, c.IMMEDIATE_OPCODES)] = Opcode.WRITE_MIDDLE
    writes = np.flatnonzero(KIND_OF_OPCODE[opcode] >= Kind.WRITE.value)
    frames[writes, _FLAGS] |= c.BTH_TIMESTAMP
    frame = records(frames, WRITE_FRAME)
    place = rng.integers(0, target.region_bytes - STRIDE, len(writes))
    frame["reth"]["va"][writes] = target.va + place
    frame["reth"]["rkey"][writes] = target.rkey
    # A new one would have to fit the messages around it, or end the connection.
    past = rng.integers(WINDOW_PKTS, 3 * WINDOW_PKTS, len(writes), np.uint32)
    word = frame["bth"]["psn_word"][writes].astype(np.uint32)
    frame["bth"]["psn_word"][writes] = word & np.uint32(0xFF000000) | word - past & np.uint32(c.PSN_MASK)
    acks = np.flatnonzero(opcode == Opcode.ACKNOWLEDGE)
    _write(frames, acks, bits_of(ACK_FRAME, "aeth", "syndrome"), np.full(len(acks), c.AETH_ACK, np.uint32))
    nacks = np.flatnonzero(opcode == Opcode.NACK)
    reasons = rng.choice(np.array([r for r in NackReason if r is not NackReason.UNEXP_EVENT], np.uint32), len(nacks))
    _write(frames, nacks, bits_of(NACK_FRAME, "neth", "nack_reason"), reasons)


def _sign(frames: Frames, lengths: Lengths) -> None:
    """A right ICRC where the UDP length says it ends, if that is within the frame."""
    ends = records(frames, BASE_FRAME)["udp"]["len"].astype(np.int64) + UDP_OFFSET - _TRAILER
    good = np.flatnonzero((ends >= BTH_OFFSET + c.BTH_BYTES) & (ends + _TRAILER <= lengths))
    if not len(good):
        return
    base = good * frames.strides[0]
    icrc = icrcs_of(flat_bytes(frames), base + INNER_OFFSET, base + ends[good], frames[good, INNER_OFFSET:])
    octets = icrc.astype("<u4").view(np.uint8).reshape(-1, 4)
    frames[good[:, np.newaxis], ends[good][:, np.newaxis] + np.arange(4)] = octets
