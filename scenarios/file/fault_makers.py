"""Checks whether this machine can make the faults of a plan, before anything is built for them."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from faults.errors import MechanismError
from faults.inject import Injector, injector_of
from faults.kinds import By
from scenarios.file.plan import PlannedFault
from testbed.errors import MissingFeatureError
from testbed.kernel.kernel_config import lacks_option

_OPTIONS = {By.NETEM: "CONFIG_NET_SCH_NETEM", By.TBF: "CONFIG_NET_SCH_TBF"}

AUTO = "auto"
"""Any mechanism that this machine has."""


ROOTS_FOLDER = "/run"
"""Folder that only root can write. In TMPDIR, others could replace compiled programs before they are loaded."""


def mechanism_for(planned: PlannedFault, asked: str) -> str:
    """Return the mechanism of a fault: the run's, or else the scenario's."""
    return planned.mechanism if asked == AUTO else asked


def lacks_of_faults(faults: Iterable[PlannedFault], asked: str, injector: Injector) -> Iterator[str]:
    """Ask the kernel for a mechanism of each fault, without setting one. Return the reason for each fault without
    one.
    """
    for planned in faults:
        mechanism = mechanism_for(planned, asked)
        for fault in planned.worded.faults:
            try:
                injector.require(fault, None if mechanism == AUTO else mechanism)
            except (MechanismError, MissingFeatureError) as error:
                yield str(error)


def missing_here() -> frozenset[str]:
    """Return mechanisms that this kernel was built without; needs no rights."""
    return frozenset(str(by) for by, option in _OPTIONS.items() if lacks_option(option))


def lacks_of_faults_here(faults: Iterable[PlannedFault], asked: str) -> Iterator[str]:
    """Ask an injector without a lab. Needs root; takes some tenths of a second where eBPF is compiled."""
    with tempfile.TemporaryDirectory(prefix="spraylab-", dir=ROOTS_FOLDER) as folder:
        yield from lacks_of_faults(faults, asked, injector_of(Path(folder)))
