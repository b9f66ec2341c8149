"""Whether this machine can make the faults of a plan, asked before anything is built for them."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from faults.inject import Injector, injector_of
from scenarios.file.plan import PlannedFault

AUTO = "auto"
"""Whichever mechanism this machine has."""


def mechanism_for(planned: PlannedFault, asked: str) -> str:
    """What is to make a fault: as the run is asked, or as the scenario says where the run leaves it open."""
    return planned.mechanism if asked == AUTO else asked


def require_makers(faults: Iterable[PlannedFault], asked: str, injector: Injector) -> None:
    """Ask the kernel for a mechanism of each fault; sets none. Raises `MechanismError` for the first without one."""
    for planned in faults:
        mechanism = mechanism_for(planned, asked)
        for fault in planned.worded.faults:
            injector.require(fault, None if mechanism == AUTO else mechanism)


def require_makers_here(faults: Iterable[PlannedFault], asked: str) -> None:
    """The same of an injector without a lab. Needs root; takes some tenths of a second where eBPF is compiled."""
    with tempfile.TemporaryDirectory(prefix="spraylab-") as folder:
        require_makers(faults, asked, injector_of(Path(folder)))
