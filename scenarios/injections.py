"""The faults of a lab as its owner keeps them: set by name, recorded in truth.jsonl, told with counters of this moment.

Which mechanism makes a fault, and whether it is in force, is the business of `faults.inject`.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Literal

import msgspec

from faults.inject import FaultStatus, Injector
from faults.mechanism import target_of
from faults.model import RandomDrop
from faults.quantities import parse_rate, render_rate
from faults.records import FaultClear, FaultRecord
from results.event_log import EventLog
from scenarios.lab_dir import LabDir
from scenarios.protocol import FaultState
from testbed.model.fabric import Fabric
from testbed.model.ids import parse_link

AUTO: Literal["auto"] = "auto"
"""Whichever mechanism this machine has."""


class Injections:
    """The faults that are in force in one lab."""

    def __init__(self, labdir: LabDir, fabric: Fabric, injector: Injector) -> None:
        self._labdir = labdir
        self._fabric = fabric
        self._injector = injector
        self._by: dict[str, str] = {}

    def set(self, link: str, drop: str, mechanism: str, by: str) -> tuple[FaultState, ...]:
        """Put a drop on every direction that `link` selects; 0% removes what is there.

        Raises `UnknownNameError`, `RateError`, `MechanismError`, `NotInForceError`; then none of them has a fault.
        """
        fault = RandomDrop(parse_rate(drop))
        chosen = None if mechanism == AUTO else mechanism
        links = parse_link(link, self._fabric)
        with ExitStack() as undo:
            for way in links:
                target = target_of(self._labdir.lab, self._fabric, way)
                undo.callback(self.clear, target.link)
                self._record(self._injector.set(target, fault, chosen), by)
                self._by[target.link] = by
            undo.pop_all()
        names = {str(way) for way in links}
        return tuple(state for state in self.states() if state.link in names)

    def clear(self, link: str | None) -> tuple[FaultState, ...]:
        """Remove faults, of the directions that `link` selects or all; they are told with their last counters."""
        names = None if link is None else {str(way) for way in parse_link(link, self._fabric)}
        removed = []
        for status in self._injector.status():
            if names is None or status.link in names:
                record = self._injector.clear(status.link)
                if record is not None:
                    self._record((record,), self._by.get(status.link, ""))
                    removed.append(self._cleared(status, record))
        return tuple(removed)

    def states(self) -> tuple[FaultState, ...]:
        """All faults, read from the kernel now."""
        return tuple(self._state(status) for status in self._injector.status())

    def _record(self, records: Sequence[FaultRecord], by: str) -> None:
        with EventLog(self._labdir.truth) as log:
            for record in records:
                log.append(msgspec.to_builtins(record) | {"by": by})

    def _state(self, status: FaultStatus) -> FaultState:
        return FaultState(
            link=status.link,
            kind=status.fault.kind,
            requested=render_rate(status.fault.rate),
            in_force=_told(status.in_force),
            mechanism=status.mechanism,
            by=self._by.get(status.link, ""),
            since=status.since.text,
            seen=status.tally.seen,
            dropped=status.tally.dropped,
            dropped_writes=status.tally.dropped_writes,
        )

    def _cleared(self, status: FaultStatus, record: FaultClear) -> FaultState:
        state = self._state(status)
        return msgspec.structs.replace(
            state, in_force="removed", seen=record.seen, dropped=record.dropped, dropped_writes=record.dropped_writes
        )


def _told(rate: Fraction | None) -> str:
    return "nothing" if rate is None else render_rate(rate)
