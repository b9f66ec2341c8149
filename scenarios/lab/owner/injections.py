"""Manages the faults of a lab: set by name, on a timeline, recorded in truth.jsonl.

`faults.inject` decides which mechanism makes a fault and whether it is in force; `faults.schedule` decides
when.
"""

import logging
import secrets
import time
import zlib
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import msgspec
import numpy as np

from agent.wire.detect_records import Localize
from faults.errors import FaultError, TargetError
from faults.inject import FaultStatus, Injector
from faults.kinds import Fault
from faults.mechanisms.base import target_of
from faults.records import FaultClear, FaultRecord
from faults.request import worded
from faults.schedule import Due, Schedule
from faults.targets import Chosen, chosen_of, require_fits
from faults.timing import Act, Event, Timing
from results.detect_log import accusations_in
from results.errors import RecordError
from results.files.event_log import EventLog, Tail
from results.text import count_text
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.fault_replies import cleared, never_set, planned, removed, standing, still_there
from scenarios.lab.protocol import FaultFailed, FaultPlanned, Faults, FaultSet, FaultState
from testbed.errors import TestbedError
from testbed.model.fabric import Fabric
from testbed.model.node_config import Difference, Placed
from testbed.model.node_names import DirectedLink

_log = logging.getLogger("owner.faults")

AUTO: Literal["auto"] = "auto"
"""Any mechanism that this machine has."""

LOOK_EVERY_NS = 50_000_000
"""Interval at which SprayCheck's records are read while a timeline waits for them (our choice)."""

Key = tuple[str, str]
"""A direction and the name of a fault there."""


@dataclass(frozen=True)
class _Ordered:
    """One fault on one direction, as ordered."""

    way: DirectedLink
    fault: Fault
    mechanism: str | None
    by: str
    seed: int
    links: frozenset[str]
    """All faults of one order."""
    client: int | None
    """Client whose lease it ends with; None: it stays until somebody clears it."""

    @property
    def key(self) -> Key:
        return str(self.way), self.fault.name


class Injections:
    """The faults that are in force in one lab, and those that will be."""

    def __init__(self, labdir: LabDir, fabric: Fabric, injector: Injector) -> None:
        self._labdir = labdir
        self._fabric = fabric
        self._injector = injector
        self._schedule = Schedule[Key]()
        self._ordered: dict[Key, _Ordered] = {}
        self._windows = Counter[Key]()
        """Number of times that its order has set each of these."""
        self._detections = Tail(labdir.detect, labdir.older_detect)
        self._spent = deque[Key]()
        """Armed faults whose timelines have ended."""
        self._failed: dict[Key, tuple[int | None, FaultFailed]] = {}
        self._last = ExitStack()
        """Action that undoes the last order."""

    def set(self, order: FaultSet, client: int | None = None) -> Faults:
        """Put faults on every direction that the order selects, now or on a timeline; zero removes.

        `client` leases them.

        Returns the replaced faults with their last counters, the order's faults that are in force now, and the next
        steps
        of its timelines. Raises `UnknownNameError`, `FaultError`, `KernelError`: nothing was changed if it cannot be
        done
        here; otherwise none of the order's faults is left, and the earlier faults are restored.
        """
        seed = secrets.randbits(32) if order.seed is None else order.seed
        chosen, said = chosen_of(order.target, self._fabric, seed), worded(order.words)
        mechanism = None if order.mechanism == AUTO else order.mechanism
        for fault in said.faults:
            require_fits(chosen, fault, self._fabric)
            self._injector.require(fault, mechanism)
        wanted = [each for fault in said.faults for each in _orders(chosen, fault, mechanism, order.by, seed, client)]
        statuses = {(status.link, status.name): status for status in self._injector.status()}
        before = {key: self._state(status) for key, status in statuses.items()}
        keys = {each.key for each in wanted}
        removed: list[FaultState] = []
        with ExitStack() as undo:
            for each in wanted:
                self._follow_all_but(keys)
                removed += [] if each.key in before else self._waiting(each.key)
                undo.callback(self._put_back, each.key, statuses.get(each.key), self._ordered.get(each.key))
                undo.callback(self._schedule.drop(each.key))
                undo.callback(self._take_back, each.key)
            gone = [record for fault in said.faults for record in self._arm(fault, wanted, said.timing)]
            began_ns = time.monotonic_ns()
            for each in wanted:
                self._follow_all_but(keys)
                gone += self._begin(each, said.timing, began_ns)
            for batch in self._batches(self._schedule.due(began_ns, keys)):
                self._follow_all_but(keys)
                gone += self._act_on(batch)
            keys_of = {(status.link, str(status.fault)): key for key, status in statuses.items()}
            removed += [cleared(before[keys_of[each.link, each.fault]], each) for each in gone]
            self._schedule.count_from(keys, time.monotonic_ns() if said.timing.at_once else began_ns)
            self._last = undo.pop_all()
        in_force = (state for state in self.states() if (state.link, state.fault) in keys)
        return Faults((*removed, *in_force), self.planned(keys))

    def clear(self, target: str | None, word: str | None = None, client: int | None = None) -> Faults:
        """Remove faults and timelines: of the target's directions, kind and client, or of all.

        Returns removed faults, with their last counters if they were in force, and failed steps of their timelines.
        Raises the first error after all were tried.
        """
        names = None if target is None else self._named(target)
        before = {(state.link, state.fault): state for state in self.states()}
        removed, errors = [], []
        for key in [*before, *(key for key in self._ordered if key not in before)]:
            if not self._is_meant(key, names, word, client):
                continue
            waiting = [] if key in before else self._waiting(key)
            try:
                removed += [cleared(before[key], record) for record in self._take_back(key) if key in before] or waiting
            except (FaultError, TestbedError, OSError) as error:
                errors.append(error)
        while self._spent:
            self._remove_spent()
        failed = self._forget_failed(names, word, client)
        if errors:
            raise errors[0]
        return Faults(tuple(removed), failed=failed)

    def _forget_failed(
        self, names: frozenset[str] | None, word: str | None, client: int | None
    ) -> tuple[FaultFailed, ...]:
        """Return failed steps of timelines, also of ended ones; they are reported until cleared, and then once more."""
        forgotten = []
        for (link, fault), (whose, failed) in list(self._failed.items()):
            named = names is None or link in names
            if named and word in (None, fault.partition(" ")[0]) and client in (None, whose):
                del self._failed[link, fault]
                forgotten.append(failed)
        return tuple(forgotten)

    def _named(self, target: str) -> frozenset[str]:
        chosen = chosen_of(target, self._fabric)
        if chosen.by_chance:
            raise TargetError(target, "would be chosen again", "name what to clear, as `fault show` lists it")
        return frozenset(str(way) for way in chosen.ways)

    def take_back_last(self) -> None:
        """Undo the last order: earlier faults are restored, with new counters. Failures are logged and reported."""
        try:
            self._last.close()
        except (FaultError, TestbedError, OSError) as error:
            _log.error("take back: %s", error)

    def left(self, client: int) -> None:
        """Clear what a client that is gone has leased. Failures are logged and reported."""
        try:
            self.clear(None, client=client)
        except (FaultError, TestbedError, OSError) as error:
            _log.error("clear what a client has left: %s", error)

    def _is_meant(self, key: Key, names: frozenset[str] | None, word: str | None, client: int | None) -> bool:
        ordered = self._ordered.get(key)
        if names is not None and key[0] not in names:
            return False
        if word is not None and (ordered is None or ordered.fault.word != word):
            return False
        return client is None or (ordered is not None and ordered.client == client)

    def states(self) -> tuple[FaultState, ...]:
        """Return all faults in force, read from the kernel now; timelines continue meanwhile."""
        found = []
        for status in self._injector.statuses():
            found.append(self._state(status))
            self._act(self._schedule.due(time.monotonic_ns()))
        return tuple(found)

    def placed(self) -> dict[tuple[str, int], Placed]:
        """Return what the faults have put on ports, by node and interface index."""
        return self._injector.placed()

    def removed(self) -> tuple[Difference, ...]:
        """List faults that the kernel no longer holds as they were set: somebody else has changed them."""
        return tuple(
            removed(status, way)
            for status in self._injector.status()
            if (way := self._way_of(status)) is not None and not still_there(status)
        )

    def _way_of(self, status: FaultStatus) -> DirectedLink | None:
        ordered = self._ordered.get((status.link, status.name))
        return None if ordered is None else ordered.way

    def planned(self, keys: Collection[Key] | None = None) -> tuple[FaultPlanned, ...]:
        """Return the next steps of timelines, of these faults or all."""
        now, steps = time.monotonic_ns(), []
        for key, ordered in self._ordered.items():
            following = self._schedule.next_of(key)
            if following is not None and (keys is None or key in keys):
                steps.append(planned(key[0], ordered.fault, following, now, ordered.by))
        return tuple(steps)

    def failed(self, client: int | None = None) -> tuple[FaultFailed, ...]:
        """Return failed steps of timelines, of one client or any, until they are set again or cleared."""
        return tuple(failed for whose, failed in self._failed.values() if client in (None, whose))

    def coming(self, event: Event) -> None:
        """Prepare for an event: set faults now that must be in force from then on."""
        self._act(self._schedule.ahead(event, time.monotonic_ns()))

    def happened(self, event: Event, at_ns: int | None = None) -> None:
        """Report an event to timelines that wait for it; they count from `at_ns` (monotonic); None: from now."""
        now_ns = time.monotonic_ns()
        self._act(self._schedule.happened(event, now_ns if at_ns is None else min(at_ns, now_ns)))
        self.run()

    def due_in_s(self) -> float | None:
        """Return seconds until `run` has something to do; None when nothing is planned."""
        if self._spent:
            return 0.0
        now = time.monotonic_ns()
        times = [at_ns for at_ns in (self._schedule.next_ns(),) if at_ns is not None]
        if self._schedule.waits_for(Event.DETECTED):
            times.append(now + LOOK_EVERY_NS)
        return max(0.0, (min(times) - now) / 1e9) if times else None

    def run(self) -> None:
        """Do what is due. Failures are logged and reported with the faults; it never raises an expected error."""
        if self._schedule.waits_for(Event.DETECTED):
            self._look_for_detections()
        self._act(self._schedule.due(time.monotonic_ns()))
        self._remove_spent()

    def _remove_spent(self) -> None:
        """Remove one armed fault that will not be in force again from its port; one per turn, since each takes a
        moment.
        """
        if not self._spent:
            return
        key = self._spent.popleft()
        if key not in self._ordered:
            try:
                self._injector.disarm(*key)
            except (FaultError, TestbedError, OSError) as error:
                self._fail(key, "remove", error)

    def _look_for_detections(self) -> None:
        for said in self._fresh_accusations():
            if said.links:
                named = {key for key, each in self._ordered.items() if each.links & set(said.links)}
                self._act(self._schedule.happened(Event.DETECTED, time.monotonic_ns(), frozenset(named)))

    def _fresh_accusations(self) -> list[Localize]:
        """Return SprayCheck's new accusations; a line that cannot be read is logged, and skipped the next time."""
        found = list[Localize]()
        try:
            found.extend(accusations_in(self._detections.fresh()))
        except RecordError as error:
            _log.error("%s", error)
        return found

    def _arm(self, fault: Fault, wanted: Sequence[_Ordered], timing: Timing) -> tuple[FaultClear, ...]:
        """Arm a fault with a timeline, so that it can come and go on all ports in one step; return what it replaced."""
        mine = [each for each in wanted if each.fault is fault]
        if timing == Timing() or fault.comes_and_goes() or fault.is_nothing:
            return ()
        targets = [target_of(self._labdir.lab, self._fabric, each.way) for each in mine]
        gone = self._injector.arm(targets, fault, mine[0].mechanism, [_seed_of(each, 0) for each in mine]) or ()
        self._record(gone, mine[0].by)
        return gone

    def _begin(self, ordered: _Ordered, timing: Timing, now_ns: int) -> tuple[FaultClear, ...]:
        """Set a fault now, or start its timeline; return what it replaced."""
        self._ordered[ordered.key] = ordered
        self._failed.pop(ordered.key, None)
        self._windows.pop(ordered.key, None)
        if ordered.fault.is_nothing:
            return self._take_back(ordered.key)
        if timing == Timing() and not ordered.fault.comes_and_goes():
            return self._apply(ordered)
        if Event.DETECTED in (timing.on, timing.until):
            self._look_for_detections()  # it does not wait for what was detected before
        self._schedule.add(ordered.key, ordered.fault, timing, ordered.seed, now_ns)
        return ()

    def _follow_all_but(self, keys: Collection[Key]) -> None:
        """Keep other timelines on time while an order takes long."""
        others = [key for key in self._ordered if key not in keys]
        self._act(self._schedule.due(time.monotonic_ns(), others))

    def _put_back(self, key: Key, status: FaultStatus | None, ordered: _Ordered | None) -> None:
        """Restore the earlier fault, with its own mechanism and seed, and new counters."""
        if ordered is None:
            return
        self._ordered[key] = ordered
        if status is None:
            return
        target = target_of(self._labdir.lab, self._fabric, ordered.way)
        try:
            self._record(self._injector.set(target, status.fault, status.mechanism, status.seed), ordered.by)
        except (FaultError, TestbedError, OSError) as error:
            self._fail(key, "put back", error)

    def _act(self, due: Iterable[Due[Key]]) -> None:
        for batch in self._batches(due):
            for each in batch:
                if each.skipped:
                    late = f"too late for {count_text(each.skipped, 'edge')} before it"
                    self._fail(each.name, each.act.value, FaultError(late))
            try:
                self._act_on(batch)
            except (FaultError, TestbedError, OSError) as error:
                for each in batch:
                    self._fail(each.name, each.act.value, error)

    def _batches(self, due: Iterable[Due[Key]]) -> Iterator[list[Due[Key]]]:
        """Group steps: the same act at the same time, of faults that were armed together."""
        for _, alike in groupby(due, lambda each: (self._step_of(each), each.act, each.at_ns)):
            yield list(alike)

    def _step_of(self, due: Due[Key]) -> Hashable:
        group = self._injector.group_of(*due.name)
        return due.name if group is None or due.name not in self._ordered else group

    def _fail(self, key: Key, act: str, error: Exception) -> None:
        failed, ordered = FaultFailed(*key, act, str(error)), self._ordered.get(key)
        _log.error("%s", failed)
        self._failed[key] = ordered.client if ordered else None, failed

    def _act_on(self, batch: Sequence[Due[Key]]) -> tuple[FaultClear, ...]:
        """Do one group of steps; return the faults that were replaced."""
        first, ordered = batch[0], self._ordered.get(batch[0].name)
        if ordered is None:
            return ()
        if self._injector.group_of(*first.name) is not None:
            return self._switch(first.act, [each.name for each in batch], first.last, ordered.by)
        if first.act is Act.SET:
            return self._apply(ordered)
        self._record(self._injector.clear(*ordered.key), ordered.by)
        if first.last:
            self._ordered.pop(ordered.key, None)
        return ()

    def _switch(self, act: Act, keys: Sequence[Key], last: bool, by: str) -> tuple[FaultClear, ...]:
        """Bring armed faults into force, or out of it, in one step; return what they replaced."""
        if act is Act.SET:
            records = self._injector.fire(keys)
            self._windows.update(keys)
            self._record(records, by)
            return tuple(record for record in records if isinstance(record, FaultClear))
        seeds = [_seed_of(self._ordered[key], self._windows[key]) for key in keys]
        self._record(self._injector.rest(keys, seeds), by)
        if last:
            for key in keys:
                self._ordered.pop(key, None)
            self._spent.extend(keys)
        return ()

    def _apply(self, ordered: _Ordered) -> tuple[FaultClear, ...]:
        """Set a fault; record what it replaces even if the new one cannot be made."""
        target = target_of(self._labdir.lab, self._fabric, ordered.way)
        self._injector.require(ordered.fault, ordered.mechanism)
        cleared = self._injector.clear(*ordered.key)
        self._record(cleared, ordered.by)
        seed = _seed_of(ordered, self._windows[ordered.key])
        self._windows[ordered.key] += 1
        self._record(self._injector.set(target, ordered.fault, ordered.mechanism, seed), ordered.by)
        return cleared

    def _take_back(self, key: Key) -> tuple[FaultClear, ...]:
        self._schedule.drop(key)
        ordered = self._ordered.pop(key, None)
        records = self._injector.clear(*key)
        self._record(records, ordered.by if ordered else "")
        return records

    def _waiting(self, key: Key) -> list[FaultState]:
        """Describe a fault whose timeline alone is removed."""
        ordered = self._ordered.get(key)
        if ordered is None or self._schedule.next_of(key) is None:
            return []
        return [never_set(key[0], ordered.fault, ordered.by)]

    def _record(self, records: Sequence[FaultRecord], by: str) -> None:
        with EventLog(self._labdir.truth) as log:
            for record in records:
                log.append(msgspec.to_builtins(record) | {"by": by})

    def _state(self, status: FaultStatus) -> FaultState:
        ordered = self._ordered.get((status.link, status.name))
        return standing(status, ordered.by if ordered else "")


def _orders(
    chosen: Chosen, fault: Fault, mechanism: str | None, by: str, seed: int, client: int | None
) -> list[_Ordered]:
    links = frozenset(str(way) for way in chosen.ways)
    return [_Ordered(way, fault, mechanism, by, seed, links, client) for way in chosen.ways]


def _seed_of(ordered: _Ordered, window: int) -> int:
    """Return the seed of one fault on one direction at its n-th time: no two ports or times lose the same packets."""
    sequence = np.random.SeedSequence([ordered.seed, zlib.crc32(" ".join(ordered.key).encode()), window])
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1
