"""Keeps the controller's denylist: links that no queue pair may use, by hand or because SprayCheck named them.

The engine workers know which entropy values cross a link. Every change is recorded beside the verdicts.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent.host.control.requests import DeniedLink, LinkProbesAsked, SetDenied
from agent.wire.detect_records import Localize
from results.detect_log import accusations_in
from results.errors import RecordError
from results.files.event_log import EventLog, Tail, timestamp
from scenarios.errors import ScenariosError, UsageError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.worker_requests import STEP_S, Pending, StatusOf, Steps, Works, replies_of, require_running
from scenarios.lab.processes import worker_name
from scenarios.lab.protocol import RUNNING, ChildStatus, DenialState
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_link
from testbed.model.node_names import DirectedLink, NodeId, Role

Counts = tuple[int, int]
"""Probes answered and lost."""


@dataclass
class Trials:
    """Keeps each link's last sums, and the probes answered since the last one that was lost."""

    _sums: dict[DeniedLink, Counts] = field(default_factory=dict)
    _clean: dict[DeniedLink, int] = field(default_factory=dict)

    def keep(self, links: Collection[DeniedLink]) -> None:
        """Forget all other links: one that is denied again starts from zero."""
        self._sums = {link: counts for link, counts in self._sums.items() if link in links}
        self._clean = {link: clean for link, clean in self._clean.items() if link in links}

    def passed(self, rows: Iterable[Mapping[str, Any]], enough: int) -> list[DeniedLink]:
        """Return links with at least `enough` answers in a row, by every worker's counts since it probes them.

        Workers report no order among themselves: where any probe was lost since the last look, all that was
        answered since then does not count either.
        """
        sums: dict[DeniedLink, Counts] = {}
        for row in rows:
            link = DeniedLink(row["plane"], row["leaf"], row["spine"], row["up"])
            answered, lost = sums.get(link, (0, 0))
            sums[link] = answered + row["answered"], lost + row["lost"]
        for link, (answered, lost) in sums.items():
            before = self._sums.get(link, (0, 0))
            self._clean[link] = 0 if lost > before[1] else self._clean.get(link, 0) + answered - before[0]
            self._sums[link] = answered, lost
        return [link for link in sums if self._clean[link] >= enough]


R = TypeVar("R")

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05
"""Interval at which SprayCheck's records are read while it may deny (our choice)."""

AGAIN_S = 1.0
"""Time between two attempts to inform a worker that may have missed a change (our choice)."""

BY_DETECTOR = "spraycheck"
BY_PROBES = "probes"


@dataclass(frozen=True)
class Acting:
    """Expectation whose accusations deny links."""

    epoch: int
    """The run that requested it; accusations of other runs are ignored."""
    expectation: str
    lift_after: int = 0
    """Answered probes in a row after which a link that SprayCheck named is allowed again; 0: never by itself."""


class Denials:
    """The links denied now. Requests to workers are pending work: `run` continues them."""

    def __init__(self, labdir: LabDir, fabric: Fabric, workers: int, status_of: StatusOf) -> None:
        self._labdir = labdir
        self._fabric = fabric
        self._workers = range(workers)
        self._status_of = status_of
        self._unsure = set[int]()
        """Workers that may have another list: one did not answer, and the change was undone."""
        self._again_s = 0.0
        self._works = Works()
        """Changes, one at a time: each begins from the result of the one before."""
        self._denied: dict[DirectedLink, DenialState] = {}
        self._acting: Acting | None = None
        self._records = Tail(labdir.detect, labdir.older_detect)
        self._trials = Trials()
        self._lifted: set[str] = set()
        """Links allowed in this epoch: accusations of them rest on earlier losses."""
        self.epoch = 0
        """Number of the latest run; changes are recorded under it."""

    def states(self) -> tuple[DenialState, ...]:
        """Return everything that is denied."""
        return tuple(self._denied.values())

    def act_on(self, acting: Acting | None) -> Pending[None]:
        """Deny what SprayCheck accuses from here on, or stop that; done when the workers know what to probe."""
        self._records.skip()
        self._acting = acting
        self._lifted.clear()
        return self._begun(self._acting_on())

    def _acting_on(self) -> Steps[None]:
        if self._denied:
            yield from self._put(self._denied)

    def deny(self, target: str, by: str) -> Pending[tuple[DenialState, ...]]:
        """Deny every direction that `target` selects; return everything denied then.

        Raises `UnknownNameError`, `UsageError` for links to hosts; the work raises `WorkerFailedError`.
        """
        ways = parse_link(target, self._fabric)
        for way in ways:
            if Role.HOST in (way.sender.role, way.receiver.role):
                raise UsageError(f"{way} is a host's own link: take its port down instead (fault set {way} --down)")
        return self._begun(self._deny(ways, by))

    def _deny(self, ways: Sequence[DirectedLink], by: str) -> Steps[tuple[DenialState, ...]]:
        fresh = [way for way in ways if way not in self._denied]
        now = timestamp(time.time_ns())
        yield from self._put(self._denied | {way: DenialState(str(way), by, now) for way in fresh})
        for way in fresh:
            self._note("DENY", way, by)
        return self.states()

    def allow(self, target: str | None, by: str) -> Pending[tuple[DenialState, ...]]:
        """Allow what `target` selects again, or (None) everything; return what is still denied. Raises as `deny`."""
        return self._begun(self._allow(None if target is None else parse_link(target, self._fabric), by))

    def _allow(self, ways: Sequence[DirectedLink] | None, by: str) -> Steps[tuple[DenialState, ...]]:
        gone = [way for way in self._denied if ways is None or way in ways]
        yield from self._put({way: state for way, state in self._denied.items() if way not in gone})
        for way in gone:
            self._note("ALLOW", way, by)
        return self.states()

    def _begun(self, steps: Steps[R]) -> Pending[R]:
        work = self._works.ask(steps)
        self._works.run()
        return work

    def due_in_s(self) -> float | None:
        """Return seconds until `run` has something to do; None when nothing is planned."""
        if self._works:
            return STEP_S
        if self._acting is not None:
            return LOOK_EVERY_S
        return AGAIN_S if self._unsure else None

    def run(self) -> None:
        """Deny newly accused links, allow links that passed their probes; failures are logged, none is raised."""
        if self._acting is not None:
            for said in self._fresh_accusations():
                if (said.epoch, said.expectation) == (self._acting.epoch, self._acting.expectation):
                    for link in said.links:
                        self._works.add(self._follow(link, self._acting))
        if not self._works:
            self._works.add(self._assure())
            self._works.add(self._try())
        self._works.run()

    def _fresh_accusations(self) -> list[Localize]:
        """Return SprayCheck's new accusations; a line that cannot be read is logged."""
        try:
            return list(accusations_in(self._records.fresh()))
        except RecordError as error:
            _log.error("%s", error)
            return []

    def _try(self) -> Steps[None]:
        """Allow links again over which enough probes in a row were answered."""
        lift_after = self._acting.lift_after if self._acting else 0
        if not (lift_after and self._probed()) or any(self._status(i).state != RUNNING for i in self._workers):
            return
        try:
            asking = replies_of(self._labdir, self._workers, LinkProbesAsked(), self._status_of)
            replies = yield from self._works.aside(asking)
            rows = [row for reply in replies or () for row in reply["links"]]
            for link in self._trials.passed(rows, lift_after):
                way = next(way for way in self._denied if _denied_link(way) == link)
                self._lifted.add(str(way))
                yield from self._allow((way,), BY_PROBES)
        except ScenariosError as error:
            _log.error("probes of denied links: %s", error)

    def _follow(self, link: str, acting: Acting) -> Steps[None]:
        """Deny an accused link unless that would cost its leaf more than half of its links in that direction."""
        try:
            (way,) = parse_link(link, self._fabric)
            if way in self._denied or link in self._lifted or acting is not self._acting:
                return
            if leaves_too_few(way, set(self._denied), self._fabric.spec.spines):
                self._note("DENY_REFUSED", way, BY_DETECTOR)
                return
            yield from self._deny((way,), BY_DETECTOR)
        except (ScenariosError, ValueError) as error:
            _log.error("deny %s: %s", link, error)

    def _put(self, wanted: dict[DirectedLink, DenialState]) -> Steps[None]:
        """Inform all workers, then apply the change; a worker that fails ends its runs by itself.

        Raises `WorkerFailedError`; then what was denied before holds, and those that have heard otherwise hear that.
        """
        for index in self._workers:
            require_running(self._status(index))
        try:
            order = self._order(wanted)
            self._trials.keep(order.probed)
            yield from replies_of(self._labdir, self._workers, order, self._status_of)
        except ScenariosError:
            self._unsure = {*self._workers}
            raise
        self._denied = wanted
        self._unsure.clear()

    def _assure(self) -> Steps[None]:
        """Inform workers that may have another list, as soon as they run."""
        if not self._unsure or time.monotonic() < self._again_s:
            return
        self._again_s = time.monotonic() + AGAIN_S
        for index in sorted(self._unsure):
            if self._status(index).state == RUNNING:
                informing = replies_of(self._labdir, (index,), self._order(self._denied), self._status_of)
                try:
                    if (yield from self._works.aside(informing)) is None:
                        return
                    self._unsure.discard(index)
                except ScenariosError as error:
                    _log.error("inform workers of denied links: %s", error)

    def _status(self, index: int) -> ChildStatus:
        return self._status_of(worker_name(index))

    def _order(self, denied: Mapping[DirectedLink, DenialState]) -> SetDenied:
        return SetDenied(tuple(map(_denied_link, denied)), self._probed(denied))

    def _probed(self, denied: Mapping[DirectedLink, DenialState] | None = None) -> tuple[DeniedLink, ...]:
        """Return denied links (by default of now) that are probed; links denied by hand are allowed by hand."""
        if self._acting is None or not self._acting.lift_after:
            return ()
        links = self._denied if denied is None else denied
        return tuple(_denied_link(way) for way, state in links.items() if state.by == BY_DETECTOR)

    def _note(self, event: str, way: DirectedLink, by: str) -> None:
        """Record a change; without disk room it is in force all the same."""
        try:
            with EventLog(self._labdir.detect) as log:
                log.write(event, "controller", {"epoch": self.epoch, "link": str(way), "by": by})
        except OSError as error:
            _log.error("%s of %s is in force, but not written down: %s", event, way, error)


def leaves_too_few(way: DirectedLink, denied: set[DirectedLink], spines: int) -> bool:
    """Return whether more than half of a leaf's links in one direction would be denied with this one."""
    leaf = _leaf_of(way)
    up = way.sender == leaf
    others = sum(_leaf_of(each) == leaf and (each.sender == leaf) is up for each in denied)
    return 2 * (others + 1) > spines


def _leaf_of(way: DirectedLink) -> NodeId:
    return way.sender if way.sender.role is Role.LEAF else way.receiver


def _denied_link(way: DirectedLink) -> DeniedLink:
    leaf = _leaf_of(way)
    spine = way.receiver if way.sender == leaf else way.sender
    return DeniedLink(way.plane, leaf.index, spine.index, way.sender == leaf)
