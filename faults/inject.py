"""Set, change and clear faults on links: the mechanism is chosen, the act journalled, the kernel read back.

The one owner of the faults of a lab. What it reports as in force has been read from the kernel.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

from faults.errors import MechanismError, NotInForceError
from faults.journal import Act, Journal, JournalLine
from faults.mechanism import Applied, Mechanism, Tally, Target
from faults.model import RandomDrop
from faults.netem import NetemMechanism
from faults.packet import PacketMechanism
from faults.quantities import rate_of_threshold, render_rate
from faults.records import FaultClear, FaultRecord, FaultSet, Moment
from testbed.errors import MissingFeatureError, TestbedError

TOLERANCE = rate_of_threshold(2)
"""How far the rate in force may be from the asked one: one step of netem's 32 bits and the rounding."""


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """One fault as the kernel holds it now."""

    link: str
    fault: RandomDrop
    in_force: Fraction | None
    """None if someone else removed it."""
    mechanism: str
    tally: Tally
    since: Moment


@dataclass(frozen=True, slots=True)
class _Standing:
    target: Target
    fault: RandomDrop
    mechanism: str
    applied: Applied
    since: Moment


class Injector:
    """The faults of one lab, by link. `with` clears them all at the end."""

    def __init__(self, journal: Journal, mechanisms: Sequence[Mechanism]) -> None:
        self._journal = journal
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._missing: dict[str, MissingFeatureError] = {}
        self._standing: dict[str, _Standing] = {}

    def __enter__(self) -> Self:
        """The injector itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Clear every fault."""
        self.clear_all()

    def set(self, target: Target, fault: RandomDrop, mechanism: str | None = None) -> tuple[FaultRecord, ...]:
        """Put `fault` in place of whatever is on the target; a rate of 0 only removes.

        Between old and new the link is healthy for some milliseconds. `mechanism` None takes the first that this
        machine has. Raises MechanismError, NotInForceError, KernelError; then nothing of the new fault is left.
        """
        if mechanism is not None and mechanism not in self._mechanisms:
            raise MechanismError(mechanism, "there is no such mechanism", f"choose {' or '.join(self._mechanisms)}")
        cleared = self.clear(target.link)
        before = (cleared,) if cleared else ()
        if fault.rate == 0:
            return before
        return (*before, self._set_first_possible(target, fault, mechanism))

    def clear(self, link: str) -> FaultClear | None:
        """Remove the fault of a link, with its final counters; None if it has none. Raises KernelError."""
        standing = self._standing.get(link)
        if standing is None:
            return None
        tally = standing.applied.revert()
        del self._standing[link]
        moment = self._note("cleared", standing.target, standing.fault, standing.mechanism)
        return FaultClear(
            ts=moment.text,
            mono_ns=moment.mono_ns,
            node=standing.target.node,
            interface=standing.target.interface,
            link=link,
            kind=standing.fault.kind,
            mechanism=standing.mechanism,
            set_mono_ns=standing.since.mono_ns,
            seen=tally.seen,
            dropped=tally.dropped,
            dropped_writes=tally.dropped_writes,
        )

    def clear_all(self) -> tuple[FaultClear, ...]:
        """Remove every fault. Raises the first error after all were tried."""
        records, errors = [], []
        for link in sorted(self._standing):
            try:
                record = self.clear(link)
            except (TestbedError, OSError) as error:
                errors.append(error)
                continue
            if record:
                records.append(record)
        if errors:
            raise errors[0]
        return tuple(records)

    def status(self) -> tuple[FaultStatus, ...]:
        """Every fault, read from the kernel now, by link."""
        return tuple(
            FaultStatus(link, each.fault, each.applied.in_force(), each.mechanism, each.applied.tally(), each.since)
            for link, each in sorted(self._standing.items())
        )

    def _set_first_possible(self, target: Target, fault: RandomDrop, asked: str | None) -> FaultSet:
        for name in [asked] if asked else self._mechanisms:
            if name not in self._missing:
                try:
                    return self._set_by(self._mechanisms[name], target, fault)
                except MissingFeatureError as error:
                    self._missing[name] = error
        raise self._impossible(asked)

    def _impossible(self, asked: str | None) -> MechanismError:
        if asked:
            others = [name for name in self._mechanisms if name not in self._missing]
            instead = f", or choose {' or '.join(others)}" if others else ""
            error = self._missing[asked]
            return MechanismError(asked, f"{error.feature} is missing", error.advice + instead)
        reasons = "; ".join(f"{name} needs {error}" for name, error in self._missing.items())
        return MechanismError(" and ".join(self._missing), "none can be used here", reasons)

    def _set_by(self, mechanism: Mechanism, target: Target, fault: RandomDrop) -> FaultSet:
        self._note("applying", target, fault, mechanism.name)
        try:
            applied = mechanism.apply(target, fault)
        except BaseException:
            self._note("cleared", target, fault, mechanism.name)
            raise
        in_force = self._read_back(applied, target, fault, mechanism.name)
        moment = self._note("in-force", target, fault, mechanism.name)
        self._standing[target.link] = _Standing(target, fault, mechanism.name, applied, moment)
        return FaultSet(
            ts=moment.text,
            mono_ns=moment.mono_ns,
            node=target.node,
            interface=target.interface,
            link=target.link,
            kind=fault.kind,
            requested=float(fault.rate),
            in_force=float(in_force),
            mechanism=mechanism.name,
        )

    def _read_back(self, applied: Applied, target: Target, fault: RandomDrop, mechanism: str) -> Fraction:
        """The rate in force, if it is the asked one; otherwise nothing is left and NotInForceError raised."""
        try:
            found = applied.in_force()
            if found is not None and abs(found - fault.rate) <= TOLERANCE:
                return found
            raise NotInForceError(target.link, str(fault), f"drop {render_rate(found)}" if found else "nothing")
        except BaseException:
            with suppress(TestbedError, OSError):
                applied.revert()
            self._note("cleared", target, fault, mechanism)
            raise

    def _note(self, act: Act, target: Target, fault: RandomDrop, mechanism: str) -> Moment:
        moment = Moment(time.time_ns(), time.monotonic_ns())
        line = JournalLine(
            ts=moment.text,
            act=act,
            link=target.link,
            kind=fault.kind,
            requested=render_rate(fault.rate),
            mechanism=mechanism,
            namespace=target.namespace.name,
            interface=target.interface,
        )
        self._journal.write(line)
        return moment


def injector_of(state_dir: Path) -> Injector:
    """The injector of a lab: netem where the kernel has it, eBPF otherwise; journal and object file in `state_dir`."""
    return Injector(Journal(state_dir / "faults.jsonl"), (NetemMechanism(), PacketMechanism(state_dir)))
