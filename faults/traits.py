"""What can be asked of a fault of any kind: its makers, name, amount and drop rate, whether two agree. Pure."""

from dataclasses import fields
from fractions import Fraction

from faults.model import (
    BlackHole,
    BurstDrop,
    By,
    Corrupt,
    CountedDrop,
    Crash,
    Delay,
    Down,
    Duplicate,
    Fault,
    Flap,
    Hang,
    RandomDrop,
    RateLimit,
    Reboot,
    Reorder,
)
from faults.only import ALL, Only
from faults.quantities import rate_of_threshold

TOLERANCE = rate_of_threshold(2)
"""How far a rate in force may be from the asked one: one step of netem's 32 bits and the rounding."""


def makers_of(fault: Fault) -> tuple[By, ...]:
    """Mechanisms that can make this fault, the preferred first: whatever selects packets is made by eBPF."""
    if only_of(fault) != ALL:
        return tuple(by for by in fault.makers if by is By.EBPF)
    return fault.makers


def only_of(fault: Fault) -> Only:
    """The packets that a fault looks at."""
    only = getattr(fault, "only", ALL)
    return only if isinstance(only, Only) else ALL


def name_of(fault: Fault) -> str:
    """What identifies a fault among those of one port: its word and its selection. The same name replaces."""
    if isinstance(fault, Hang | BlackHole):
        return str(fault)
    return f"{fault.word}{only_of(fault)}"


def amount_of(fault: Fault) -> str:
    """A fault in words without its kind: `1%`, `10ms +- 2ms normal`; empty where the kind says it all."""
    return str(fault).removeprefix(fault.word).strip()


def is_nothing(fault: Fault) -> bool:
    """Whether the fault, set to zero, only asks for the removal of what is there under its name."""
    match fault:
        case BurstDrop():
            return fault.rate == 0
        case RandomDrop() | Corrupt() | Duplicate() | Reorder():
            return fault.rate == 0
        case CountedDrop():
            return fault.every == 0
        case Delay():
            return fault.delay_ns == 0 and fault.jitter_ns == 0
        case RateLimit():
            return fault.bits_per_s == 0
        case _:
            return False


def drop_rate_of(fault: Fault) -> Fraction | None:
    """The share of the packets it looks at that a fault drops; None for kinds that drop none on purpose."""
    match fault:
        case RandomDrop() | BurstDrop() | CountedDrop():
            return fault.rate
        case BlackHole() | Hang() | Down() | Flap() | Reboot() | Crash():
            return Fraction(1)
        case _:
            return None


def agrees(asked: Fault, found: Fault) -> bool:
    """Whether what the kernel holds is what was asked for, rates up to TOLERANCE."""
    if type(asked) is not type(found):
        return False
    return all(_close(getattr(asked, each.name), getattr(found, each.name)) for each in fields(asked))


def _close(asked: object, found: object) -> bool:
    if isinstance(asked, Fraction) and isinstance(found, Fraction):
        return abs(asked - found) <= TOLERANCE
    return asked == found
