"""Converts a fault to the configuration bytes of its eBPF program, and back.

The layout is stated once; the C header is generated from it. Attaches nothing.
"""

from enum import IntEnum, IntFlag
from fractions import Fraction
from typing import Any

import numpy as np

from agent.wire.c_headers import c_struct
from faults.kinds import BlackHole, BurstDrop, Corrupt, CountedDrop, Duplicate, Fault, Hang, RandomDrop, kinds
from faults.quantities import CERTAIN, rate_of_threshold, threshold_of
from faults.selector import ALL, Only
from testbed.model.addressing import HOST_BLOCK, host_address

COPY_MARK, COPY_MASK = 0x5F1B0000, 0xFFFF0000
"""Mark of a packet that a fault has sent a second time, with the fault's priority in the lower half. Our choice."""


class Mode(IntEnum):
    """Rule that decides whether a packet is hit."""

    RANDOM = 0
    BURST = 1
    COUNTED = 2


class Effect(IntEnum):
    """Effect on a packet that is hit."""

    DROP = 0
    CORRUPT = 1
    DUPLICATE = 2


class Bit(IntFlag):
    """Conditions that are set; all must hold."""

    SIZE = 1
    QP = 2
    EV = 4
    DSCP = 8
    CONTROL = 16
    HOST = 32
    LAST = 64
    FIRST_SENT = 128
    FORWARDED = 256


CONFIG = np.dtype(
    [
        ("threshold", "u8"),  # thresholds are below or at 2^32
        ("to_bad", "u8"),
        ("to_good", "u8"),
        ("bad", "u8"),
        ("good", "u8"),
        ("seed", "u8"),
        ("kind", "u4"),
        ("mode", "u4"),
        ("effect", "u4"),
        ("only", "u4"),
        ("every", "u4"),
        ("priority", "u4"),
        ("min_bytes", "u4"),
        ("max_bytes", "u4"),
        ("qpn", "u4"),
        ("ev", "u4"),
        ("ev_mask", "u4"),
        ("dscp", "u4"),
        ("last", "u4"),
        ("reserved", "u4"),
        ("host", "u1", 16),
    ]
)
COUNTS = np.dtype([("passed", "u8"), ("seen", "u8"), ("hit", "u8"), ("hit_writes", "u8")])
"""Counters: packets of the port, those examined, those hit, MRC writes among these."""

_EFFECTS = {Corrupt: Effect.CORRUPT, Duplicate: Effect.DUPLICATE}
_MODES = {BurstDrop: Mode.BURST, CountedDrop: Mode.COUNTED}


def config_of(fault: Fault, seed: int, priority: int) -> bytes:
    """Return the program's configuration for a fault."""
    row: Any = np.zeros((), CONFIG)
    row["kind"], row["seed"], row["priority"] = kinds().index(type(fault)), seed, priority
    row["mode"], row["effect"] = _MODES.get(type(fault), Mode.RANDOM), _EFFECTS.get(type(fault), Effect.DROP)
    match fault:
        case RandomDrop(rate) | Corrupt(rate) | Duplicate(rate):
            row["threshold"] = threshold_of(rate)
        case BurstDrop(p, r, bad, good):
            for name, rate in (("to_bad", p), ("to_good", r), ("bad", bad), ("good", good)):
                row[name] = threshold_of(rate)
        case CountedDrop(every):
            row["every"] = every
        case BlackHole() | Hang():
            row["threshold"] = CERTAIN
        case _:
            raise ValueError(f"no eBPF program makes {fault}")
    _select(row, fault.only)
    return bytes(row.tobytes())


def with_priority(config: bytes, priority: int) -> bytes:
    """Return the same configuration for a program at another priority."""
    row: Any = np.frombuffer(config, CONFIG)[0].copy()
    row["priority"] = priority
    return bytes(row.tobytes())


def with_seed(config: bytes, seed: int) -> bytes:
    """Return the same configuration with another seed."""
    row: Any = np.frombuffer(config, CONFIG)[0].copy()
    row["seed"] = seed
    return bytes(row.tobytes())


def fault_of(config: bytes) -> Fault | None:
    """Return the fault of a configuration: inverse of `config_of`, up to the resolution of 32 bits for a rate.

    None if it makes none.
    """
    row: Any = np.frombuffer(config, CONFIG)[0]
    kind, only, rate = kinds()[int(row["kind"])], _selection(row), rate_of_threshold(int(row["threshold"]))
    if kind is BurstDrop:
        return BurstDrop(_rate(row, "to_bad"), _rate(row, "to_good"), _rate(row, "bad"), _rate(row, "good"), only)
    if kind is CountedDrop:
        return CountedDrop(int(row["every"]), only)
    if kind is BlackHole and rate == 1:
        return BlackHole(only.host or 0)
    if kind is Hang and rate == 1:
        return Hang()
    if kind is Corrupt:
        return Corrupt(rate, only)
    if kind is Duplicate:
        return Duplicate(rate, only)
    return RandomDrop(rate, only) if kind is RandomDrop else None


def c_header() -> str:
    """Return the C header of this layout."""
    lines = ["/* Generated from faults.mechanisms.ebpf_config; do not edit. */", "#include <linux/types.h>", ""]
    lines += [f"#define MODE_{mode.name} {int(mode)}" for mode in Mode]
    lines += [f"#define EFFECT_{effect.name} {int(effect)}" for effect in Effect]
    lines += [f"#define ONLY_{bit.name} {int(bit)}" for bit in Bit]
    lines += [f"#define COPY_MARK {COPY_MARK:#x}U", f"#define COPY_MASK {COPY_MASK:#x}U", ""]
    return "\n".join([*lines, *c_struct("config", CONFIG), *c_struct("tally", COUNTS), ""])


def _select(row: Any, only: Only) -> None:
    bits = Bit(0)
    if only.size_bytes is not None:
        bits |= Bit.SIZE
        row["min_bytes"], row["max_bytes"] = only.size_bytes
    if only.ev is not None:
        bits |= Bit.EV
        row["ev"], row["ev_mask"] = only.ev
    if only.host is not None:
        bits |= Bit.HOST
        row["host"] = np.frombuffer(host_address(only.host).packed, np.uint8)
    for bit, name, value in ((Bit.QP, "qpn", only.qpn), (Bit.DSCP, "dscp", only.dscp), (Bit.LAST, "last", only.last)):
        if value is not None:
            bits |= bit
            row[name] = value
    flags = ((Bit.CONTROL, only.control), (Bit.FIRST_SENT, only.first_sent), (Bit.FORWARDED, only.forwarded))
    for bit, holds in flags:
        bits |= bit if holds else Bit(0)
    row["only"] = int(bits)


def _selection(row: Any) -> Only:
    bits = Bit(int(row["only"]))
    if not bits:
        return ALL
    host = int.from_bytes(row["host"].tobytes(), "big") - int(HOST_BLOCK.network_address)
    return Only(
        size_bytes=(int(row["min_bytes"]), int(row["max_bytes"])) if Bit.SIZE in bits else None,
        qpn=int(row["qpn"]) if Bit.QP in bits else None,
        ev=(int(row["ev"]), int(row["ev_mask"])) if Bit.EV in bits else None,
        dscp=int(row["dscp"]) if Bit.DSCP in bits else None,
        control=Bit.CONTROL in bits,
        host=host if Bit.HOST in bits else None,
        last=int(row["last"]) if Bit.LAST in bits else None,
        first_sent=Bit.FIRST_SENT in bits,
        forwarded=Bit.FORWARDED in bits,
    )


def _rate(row: Any, name: str) -> Fraction:
    return rate_of_threshold(int(row[name]))
