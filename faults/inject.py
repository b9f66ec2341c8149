"""Sets, changes and clears faults on ports: chooses the mechanism, records the act, reads the kernel back.

It is the only owner of a lab's faults. What it reports as in force has been read from the kernel.
"""

import itertools
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.base.moment import Moment, now
from faults.errors import FaultError, MechanismError, NotInForceError
from faults.kinds import By, Fault
from faults.mechanisms.base import Applied, Arming, Mechanism, Switched, Tally, Target
from faults.mechanisms.ebpf import PacketMechanism
from faults.mechanisms.link import LinkMechanism
from faults.mechanisms.port_queue import PortQueues, QueueMechanism
from faults.records import Act, FaultClear, FaultRecord, FaultSet, Journal, JournalLine
from testbed.errors import MissingFeatureError, TestbedError
from testbed.model.node_config import Placed

SEED_BITS = 63
"""Bits of a seed: what JSON, netem and the eBPF program all accept."""


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """One fault as the kernel holds it now."""

    link: str
    name: str
    fault: Fault
    in_force: Fault | None
    """What the kernel holds; None if someone else removed it."""
    mechanism: str
    tally: Tally
    since: Moment
    seed: int | None
    """Seed of which packets are hit; None where the mechanism leaves that to the kernel."""


@dataclass(frozen=True, slots=True)
class _Standing:
    target: Target
    fault: Fault
    mechanism: By
    applied: Applied
    since: Moment
    seed: int | None


@dataclass(frozen=True, slots=True)
class _Armed:
    """A fault that waits in the kernel for the step that brings it into force, together with others."""

    target: Target
    fault: Fault
    found: Fault
    """The fault as the kernel holds it, read when it was armed."""
    mechanism: By
    applied: Switched
    seed: int
    group: int
    """Number that distinguishes faults that share a step."""


class Injector:
    """The faults of one lab, by link and name. `with` clears them all at the end."""

    def __init__(self, journal: Journal, mechanisms: Sequence[Mechanism]) -> None:
        self._journal = journal
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._checked: dict[By, MissingFeatureError | None] = {}
        self._standing: dict[tuple[str, str], _Standing] = {}
        self._armed: dict[tuple[str, str], _Armed] = {}
        self._groups = itertools.count(1)

    def __enter__(self) -> Self:
        """Create the injector."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Clear every fault."""
        self.clear_all()

    def set(
        self, target: Target, fault: Fault, mechanism: str | None = None, seed: int | None = None
    ) -> tuple[FaultRecord, ...]:
        """Put `fault` in place of the one of its name on the target; set to zero it only removes that.

        Others on the target stay. Between old and new the link is healthy for some milliseconds. `mechanism` None takes
        the first that this machine has, `seed` None draws one. Raises MechanismError before anything is changed;
        NotInForceError, KernelError, and then nothing of the new fault is left.
        """
        possible = self._possible(fault, mechanism)
        cleared = self.clear(target.link, fault.name)
        if fault.is_nothing:
            return cleared
        drawn = secrets.randbits(SEED_BITS) if seed is None else seed
        return (*cleared, self._set_first_free(possible, target, fault, drawn))

    def require(self, fault: Fault, mechanism: str | None = None) -> By:
        """Return the mechanism that would be used. Raises MechanismError; changes nothing."""
        return self._possible(fault, mechanism)[0]

    def arm(
        self, targets: Sequence[Target], fault: Fault, mechanism: str | None, seeds: Sequence[int]
    ) -> tuple[FaultClear, ...] | None:
        """Make `fault` ready on all targets, so that `fire` brings it into force there in one step.

        What stands there stays, but for what was fired with others: that is cleared and returned. None, and nothing is
        done, where the mechanism that would be taken cannot. Raises as `set` does; nothing of the new fault is left
        then.
        """
        by, keys = self.require(fault, mechanism), [(target.link, fault.name) for target in targets]
        maker = self._mechanisms[by]
        if not isinstance(maker, Arming):
            return None
        cleared = self._clear([key for key in keys if key in self._armed], also_armed=True)
        alike = [(target, fault, by) for target in targets]
        self._note_all("applying", alike)
        try:
            applied = maker.arm(targets, fault, seeds)
        except BaseException:
            self._note_all("cleared", alike)
            raise
        group = next(self._groups)
        for key, target, seed, each in zip(keys, targets, seeds, applied, strict=True):
            self._armed[key] = _Armed(target, fault, fault, by, each, seed, group)
        self._read_back_armed(keys)
        return cleared

    def _read_back_armed(self, keys: Sequence[tuple[str, str]]) -> None:
        """Read back what was armed; if it is not what was asked for, nothing of it is left and NotInForceError raised.

        What cannot even be taken back stays in the journal as applied.
        """
        try:
            for key in keys:
                armed = self._armed[key]
                found = armed.applied.held()
                if found is None or not armed.fault.agrees(found):
                    raise NotInForceError(key[0], str(armed.fault), str(found) if found else "nothing")
                self._armed[key] = replace(armed, found=found)
        except BaseException:
            for key in keys:
                with suppress(TestbedError, FaultError, OSError):
                    self.disarm(*key)
            raise

    def group_of(self, link: str, name: str) -> int | None:
        """Return which faults come into force in one step with this one; None if it is not armed."""
        armed = self._armed.get((link, name))
        return None if armed is None else armed.group

    def fire(self, keys: Sequence[tuple[str, str]]) -> tuple[FaultRecord, ...]:
        """Bring armed faults of one group into force in one step, in place of those of their names.

        All have the time of that step; what is read back then is the step, the rest was when they were armed. Raises
        KernelError, BpfError, NotInForceError.
        """
        armed = [self._armed[key] for key in keys]
        cleared = self._clear([key for key in keys if key in self._standing])
        armed[0].applied.switch(True)
        moment = now()
        if not armed[0].applied.is_on():
            raise NotInForceError(armed[0].target.link, str(armed[0].fault), "nothing")
        records = []
        for key, each in zip(keys, armed, strict=True):
            self._standing[key] = _Standing(each.target, each.fault, each.mechanism, each.applied, moment, each.seed)
            records.append(_set_record(each.target, each.fault, each.found, each.mechanism, moment, each.seed))
        self._note_all("in-force", [(each.target, each.fault, each.mechanism) for each in armed])
        return (*cleared, *records)

    def rest(self, keys: Sequence[tuple[str, str]], seeds: Sequence[int]) -> tuple[FaultClear, ...]:
        """Take armed faults of one group out of force in one step; they wait for the next `fire` with new seeds.

        Those not in force are left out. All have the time of that step and their last counters. Raises BpfError.
        """
        standing = [key for key in keys if self._has_fired(key)]
        if not standing:
            return ()
        self._armed[standing[0]].applied.switch(False)
        moment = now()
        gone = [self._standing.pop(key) for key in standing]
        records = [_clear_record(was, was.applied.tally(), moment) for was in gone]
        self._note_all("cleared", [(was.target, was.fault, was.mechanism) for was in gone])
        for key, seed in zip(keys, seeds, strict=True):
            self._armed[key].applied.prepare(seed)
            self._armed[key] = replace(self._armed[key], seed=seed)
        return tuple(records)

    def disarm(self, link: str, name: str) -> None:
        """Remove an armed fault that is not in force; if there is none, do nothing. Raises KernelError."""
        armed = self._armed.get((link, name))
        if armed is not None and not self._has_fired((link, name)):
            armed.applied.revert()
            del self._armed[link, name]
            self._note("cleared", armed.target, armed.fault, armed.mechanism)

    def _has_fired(self, key: tuple[str, str]) -> bool:
        """Return whether the fault in place is the armed one."""
        armed, standing = self._armed.get(key), self._standing.get(key)
        return armed is not None and standing is not None and standing.applied is armed.applied

    def clear(self, link: str, name: str | None = None) -> tuple[FaultClear, ...]:
        """Remove the faults of a link, or the one of that name; return them with final counters. None there is no
        error.

        Armed faults there are removed as well. Raises KernelError, ReadBackError after all were tried.
        """
        return self._clear([key for key in self._all() if key[0] == link and name in (None, key[1])], also_armed=True)

    def clear_all(self) -> tuple[FaultClear, ...]:
        """Remove every fault. Raises the first error after all were tried."""
        return self._clear(self._all(), also_armed=True)

    def _all(self) -> list[tuple[str, str]]:
        return [*self._standing, *(key for key in self._armed if key not in self._standing)]

    def status(self) -> tuple[FaultStatus, ...]:
        """Return every fault, read from the kernel now, by link and in the order they were set."""
        return tuple(self.statuses())

    def statuses(self) -> Iterator[FaultStatus]:
        """Yield the same one by one; what is set or cleared meanwhile may be left out."""
        for link, name in sorted(self._standing, key=lambda key: key[0]):
            if (each := self._standing.get((link, name))) is not None:
                yield FaultStatus(
                    link,
                    name,
                    each.fault,
                    each.applied.in_force(),
                    each.mechanism,
                    each.applied.tally(),
                    each.since,
                    each.seed,
                )

    def placed(self) -> dict[tuple[str, int], Placed]:
        """Return what the faults have put on ports, by node and interface index."""
        found: dict[tuple[str, int], Placed] = {}
        applied = [(each.target, each.applied) for each in self._standing.values()]
        applied += [(each.target, each.applied) for each in self._armed.values()]
        for target, each in applied:
            key = target.node, target.ifindex
            found[key] = found.get(key, Placed()).plus(each.placed())
        return found

    def _clear(self, keys: Sequence[tuple[str, str]], also_armed: bool = False) -> tuple[FaultClear, ...]:
        """Remove faults, the last one first. Raises the first error after all were tried."""
        records, errors = [], []
        for key in reversed(keys):
            try:
                if key in self._standing:
                    records.append(self._clear_one(key))
                if also_armed:
                    self.disarm(*key)
            except (TestbedError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return tuple(reversed(records))

    def _clear_one(self, key: tuple[str, str]) -> FaultClear:
        standing, fired = self._standing[key], self._has_fired(key)
        tally = standing.applied.revert()
        del self._standing[key]
        if fired:
            del self._armed[key]
        moment = self._note("cleared", standing.target, standing.fault, standing.mechanism)
        return _clear_record(standing, tally, moment)

    def _possible(self, fault: Fault, asked: str | None) -> tuple[By, ...]:
        """Return mechanisms of this machine that can make the fault, the preferred first."""
        makers = [by for by in fault.makers if by in self._mechanisms]
        if asked is not None:
            if asked not in self._mechanisms:
                raise MechanismError(asked, "there is no such mechanism", f"choose {' or '.join(self._mechanisms)}")
            if asked not in makers:
                raise MechanismError(asked, f"it cannot make {fault}", f"choose {' or '.join(makers)}")
        found = tuple(by for by in makers if asked in (None, by) and self._missing(by) is None)
        if not found:
            raise self._impossible(makers, asked)
        return found

    def _missing(self, by: By) -> MissingFeatureError | None:
        """State why a mechanism cannot be used here; the kernel is asked only once."""
        if by not in self._checked:
            try:
                self._mechanisms[by].check()
                self._checked[by] = None
            except MissingFeatureError as error:
                self._checked[by] = error
        return self._checked[by]

    def _impossible(self, makers: Sequence[By], asked: str | None) -> MechanismError:
        reasons = {by: error for by in makers if (error := self._missing(by)) is not None}
        if asked is not None:
            error = reasons[By(asked)]
            others = [by for by in makers if by not in reasons]
            instead = f"choose {' or '.join(others)}, or: " if others else ""
            return MechanismError(asked, f"{error.feature} is missing", instead + error.advice)
        if len(reasons) == 1:
            ((by, error),) = reasons.items()
            return MechanismError(by, f"{error.feature} is missing", error.advice)
        told = "; ".join(f"{by}: {error}" for by, error in reasons.items())
        return MechanismError(" and ".join(reasons), "none can be used here", told)

    def _set_first_free(self, possible: Sequence[By], target: Target, fault: Fault, seed: int) -> FaultSet:
        """Apply by the first mechanism whose place on the port is free: a netem has room for one loss."""
        for at, by in enumerate(possible):
            try:
                return self._set_by(self._mechanisms[by], target, fault, seed)
            except MechanismError:
                if at == len(possible) - 1:
                    raise
        raise AssertionError(possible)

    def _set_by(self, mechanism: Mechanism, target: Target, fault: Fault, seed: int) -> FaultSet:
        self._note("applying", target, fault, mechanism.name)
        try:
            applied = mechanism.apply(target, fault, seed)
        except BaseException:
            self._note("cleared", target, fault, mechanism.name)
            raise
        found, seeded = self._read_back(applied, target, fault, mechanism.name)
        moment = self._note("in-force", target, fault, mechanism.name)
        kept = seed if seeded else None
        self._standing[target.link, fault.name] = _Standing(target, fault, mechanism.name, applied, moment, kept)
        return _set_record(target, fault, found, mechanism.name, moment, kept)

    def _read_back(self, applied: Applied, target: Target, fault: Fault, mechanism: By) -> tuple[Fault, bool]:
        """Return the fault in force, if it is the requested one; otherwise nothing is left and NotInForceError is
        raised.

        What cannot even be taken back stays in the journal as applied.
        """
        try:
            found = applied.in_force()
            if found is not None and fault.agrees(found):
                return found, applied.is_seeded()
            raise NotInForceError(target.link, str(fault), str(found) if found else "nothing")
        except BaseException:
            with suppress(TestbedError, FaultError, OSError):
                applied.revert()
                self._note("cleared", target, fault, mechanism)
            raise

    def _note(self, act: Act, target: Target, fault: Fault, mechanism: By) -> Moment:
        return self._note_all(act, [(target, fault, mechanism)])

    def _note_all(self, act: Act, faults: Sequence[tuple[Target, Fault, By]]) -> Moment:
        """Write an act to the journal, with its time."""
        moment = now()
        self._journal.write(*(_journal_line(moment, act, *each) for each in faults))
        return moment


def _journal_line(moment: Moment, act: Act, target: Target, fault: Fault, mechanism: By) -> JournalLine:
    return JournalLine(
        ts=moment.text,
        act=act,
        link=target.link,
        kind=fault.kind,
        name=fault.name,
        requested=str(fault),
        mechanism=mechanism,
        namespace=target.namespace.name,
        interface=target.interface,
    )


def _set_record(
    target: Target, fault: Fault, found: Fault, mechanism: By, moment: Moment, seed: int | None
) -> FaultSet:
    return FaultSet(
        ts=moment.text,
        mono_ns=moment.mono_ns,
        node=target.node,
        interface=target.interface,
        link=target.link,
        kind=fault.kind,
        fault=str(fault),
        fault_in_force=str(found),
        only=str(fault.only).removeprefix(" of "),
        requested=_drop_rate(fault),
        in_force=_drop_rate(found),
        mechanism=mechanism,
        fault_seed=seed,
    )


def _clear_record(standing: _Standing, tally: Tally, moment: Moment) -> FaultClear:
    return FaultClear(
        ts=moment.text,
        mono_ns=moment.mono_ns,
        node=standing.target.node,
        interface=standing.target.interface,
        link=standing.target.link,
        kind=standing.fault.kind,
        fault=str(standing.fault),
        mechanism=standing.mechanism,
        set_mono_ns=standing.since.mono_ns,
        seen=tally.seen,
        dropped=tally.dropped,
        dropped_writes=tally.dropped_writes,
        dropped_reverse=tally.dropped_reverse,
        hit=tally.hit,
        passed=tally.passed,
        overlimits=tally.overlimits,
    )


def _drop_rate(fault: Fault) -> float | None:
    rate = fault.drop_rate
    return None if rate is None else float(rate)


def injector_of(state_dir: Path) -> Injector:
    """Return the injector of a lab with all mechanisms; journal and object files are in `state_dir`."""
    ports = PortQueues()
    mechanisms = (
        QueueMechanism(By.NETEM, ports),
        PacketMechanism(state_dir),
        QueueMechanism(By.TBF, ports),
        LinkMechanism(),
    )
    return Injector(Journal(state_dir / "faults.jsonl"), mechanisms)
