"""Lists everything that this machine lacks for a request, faults of a plan included, before anything is started.

Tries things as `spraylab doctor` does; changes nothing. Needs root.
"""

import errno
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from faults.errors import MechanismError
from faults.kinds import By
from results.files.user_files import in_whose_name, invoker, rights_of
from results.text import count_text
from scenarios.errors import EnvironmentLackingError
from scenarios.file.model import Scenario
from scenarios.file.plan import AUTO, Plan, PlannedFault
from scenarios.lab.lab_dir import RUN_ROOT
from scenarios.lab.processes import worker_count
from scenarios.lab.start.capacity import (
    KEPT_BYTES,
    PROCESS_BYTES,
    no_room,
    no_room_for_captures,
    no_room_for_fabric,
    no_room_for_lab,
    no_room_for_results,
)
from testbed.errors import MissingFeatureError
from testbed.model.fabric import Fabric

if TYPE_CHECKING:
    from faults.inject import Injector
    from scenarios.doctor import Finding

TCPDUMP = "tcpdump"
"""Tools that only captures need."""


def require(lacks: Iterable[str]) -> None:
    """Check a list. Raises `EnvironmentLackingError` with every line of `lacks`, each once."""
    if text := "\n".join(dict.fromkeys(filter(None, lacks))):
        raise EnvironmentLackingError(text)


def lacks_of_lab(
    fabric: Fabric,
    workers: int | Literal["per-host"] | None = None,
    data_bytes: int = 0,
    capturing: bool = False,
    per_leaf: bool = False,
) -> Iterator[str]:
    """List what is missing for a lab of this fabric that must hold this much data: features, tools, memory.

    `per_leaf`: every leaf gets a SprayCheck process of its own.
    """
    for finding in _findings():
        if finding.needed and not finding.present and (capturing or finding.name != TCPDUMP):
            yield f"{finding.name} is missing: {finding.advice}"
    if lack := no_room_for_lab(RUN_ROOT):
        yield lack
    yield no_room_for_fabric(fabric.spec, _processes(fabric, workers, per_leaf), data_bytes)


def _findings() -> "tuple[Finding, ...]":
    from scenarios.doctor import examine  # loads pyroute2, which a run in a lab that is up does not need

    return examine()


def no_room_for_plan(plan: Plan, workers: int | Literal["per-host"] | None = None) -> Iterator[str]:
    """State that this machine has no memory for a plan's data, or for its fabric beside that, by an estimate."""
    if no_data := no_room(plan.region_bytes, "the flows' data"):
        yield no_data
    count = _processes(plan.fabric, workers, is_per_leaf(plan.scenario))
    if no_fabric := no_room_for_fabric(plan.fabric.spec, count, 0 if no_data else plan.region_bytes):
        yield no_fabric


def no_room_for_leaf_processes(fabric: Fabric) -> str:
    """State that a lab that is up has no memory for a SprayCheck process on every leaf; empty when it has."""
    count = len(fabric.leaves())
    return no_room(count * PROCESS_BYTES, f"a SprayCheck process on each of {count_text(count, 'leaf', 'leaves')}")


def is_per_leaf(scenario: Scenario) -> bool:
    """Return whether every leaf must have a SprayCheck process of its own."""
    return scenario.detector.processes == "per-leaf"


def _processes(fabric: Fabric, workers: int | Literal["per-host"] | None, per_leaf: bool) -> int:
    """Return the number of agents' processes."""
    engines = worker_count(workers, fabric.host_count, len(os.sched_getaffinity(0)))
    return engines + (len(fabric.leaves()) if per_leaf else 0)


def lacks_of_capture() -> Iterator[str]:
    """List what is missing for captures in a lab that is up."""
    for finding in _findings():
        if finding.name == TCPDUMP and not finding.present:
            yield f"{finding.name} is missing: {finding.advice}"


def lacks_of_folder(folder: Path, captures: int = 0, most_bytes: int = 0) -> Iterator[str]:
    """State why results, and this many captures of at most this many bytes, cannot be written into a folder.

    It need not be there yet. Makes nothing that stays.
    """
    try:
        place = folder.absolute()
    except FileNotFoundError:
        yield f"{folder}: results cannot be written there: the current folder was removed; change to another by `cd`"
        return
    if not _is_utf8(place):
        yield f"{place}: results cannot be written there: the name is not UTF-8; name another folder"
        return
    try:
        while not _is_there(place):
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with rights_of(invoker()), tempfile.TemporaryDirectory(prefix=".spraylab-", dir=place):
            pass
        if lack := no_room_for_results(place) or no_room_for_captures(place, captures, most_bytes, KEPT_BYTES):
            yield lack
    except OSError as error:
        why = f"{error.strerror or error}{in_whose_name()}"
        yield f"{folder}: results cannot be written there, name another folder; making one in {place}: {why}"


def _is_utf8(place: Path) -> bool:
    """Return whether its name can be recorded in the files of a run."""
    try:
        str(place).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_there(place: Path) -> bool:
    """Check a path. Raises OSError for an impossible one."""
    try:
        place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


_OPTIONS = {By.NETEM: "CONFIG_NET_SCH_NETEM", By.TBF: "CONFIG_NET_SCH_TBF"}


ROOTS_FOLDER = "/run"
"""Folder that only root can write. In TMPDIR, others could replace compiled programs before they are loaded."""


def mechanism_for(planned: PlannedFault, asked: str) -> str:
    """Return the mechanism of a fault: the run's, or else the scenario's."""
    return planned.mechanism if asked == AUTO else asked


def lacks_of_faults(faults: Iterable[PlannedFault], asked: str, injector: "Injector") -> Iterator[str]:
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
    from faults.inject import injector_of  # loads pyroute2, for runs that build a lab

    with tempfile.TemporaryDirectory(prefix="spraylab-", dir=ROOTS_FOLDER) as folder:
        yield from lacks_of_faults(faults, asked, injector_of(Path(folder)))


def lacks_option(option: str, places: tuple[Path, ...] | None = None) -> bool:
    """Report whether an option, as `CONFIG_NET_SCH_NETEM`, is neither built in nor a module.

    False if the configuration cannot be read.
    """
    config = _config(_places() if places is None else places)
    return bool(config) and not any(line in config for line in (f"{option}=y", f"{option}=m"))


def _places() -> tuple[Path, ...]:
    return Path("/proc/config.gz"), Path("/boot") / f"config-{os.uname().release}"


def _config(places: tuple[Path, ...]) -> frozenset[str]:
    """Return the lines of the first readable file; empty without one."""
    for place in places:
        try:
            content = place.read_bytes()
            text = gzip.decompress(content) if place.suffix == ".gz" else content
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        return frozenset(text.decode(errors="replace").splitlines())
    return frozenset()
