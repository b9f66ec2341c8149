"""Imports every kind of fault, one file per family. Faults of one order compose in the order of these imports."""

from faults.kinds.base import NEEDS, TOLERANCE, By, Fault, Hit, On, kind_named, kinds
from faults.kinds.drops import BlackHole, BurstDrop, CountedDrop, Hang, RandomDrop  # isort: split

from faults.kinds.damage import Corrupt, Duplicate  # isort: split

from faults.kinds.delays import Delay, Distribution, RateLimit, Reorder  # isort: split

from faults.kinds.ports import Crash, Down, Flap, Reboot

__all__ = [
    "NEEDS",
    "TOLERANCE",
    "BlackHole",
    "BurstDrop",
    "By",
    "Corrupt",
    "CountedDrop",
    "Crash",
    "Delay",
    "Distribution",
    "Down",
    "Duplicate",
    "Fault",
    "Flap",
    "Hang",
    "Hit",
    "On",
    "RandomDrop",
    "RateLimit",
    "Reboot",
    "Reorder",
    "kind_named",
    "kinds",
]
