"""Whether this machine can make the faults of a plan, asked before anything is built for them."""

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
"""Whichever mechanism this machine has."""


ROOTS_FOLDER = "/run"
"""Only root writes here. TMPDIR may belong to somebody who would exchange what is compiled before it is loaded."""


def mechanism_for(planned: PlannedFault, asked: str) -> str:
    """What is to make a fault: as the run is asked, or as the scenario says where the run leaves it open."""
    return planned.mechanism if asked == AUTO else asked


def lacks_of_faults(faults: Iterable[PlannedFault], asked: str, injector: Injector) -> Iterator[str]:
    """Ask the kernel for a mechanism of each fault; sets none. Why there is none, of each without one."""
    for planned in faults:
        mechanism = mechanism_for(planned, asked)
        for fault in planned.worded.faults:
            try:
                injector.require(fault, None if mechanism == AUTO else mechanism)
            except (MechanismError, MissingFeatureError) as error:
                yield str(error)


def missing_here() -> frozenset[str]:
    """Mechanisms of which this kernel says that it was built without them; asked without any rights."""
    return frozenset(str(by) for by, option in _OPTIONS.items() if lacks_option(option))


def lacks_of_faults_here(faults: Iterable[PlannedFault], asked: str) -> Iterator[str]:
    """The same of an injector without a lab. Needs root; takes some tenths of a second where eBPF is compiled."""
    with tempfile.TemporaryDirectory(prefix="spraylab-", dir=ROOTS_FOLDER) as folder:
        yield from lacks_of_faults(faults, asked, injector_of(Path(folder)))
