"""The controller's denylist: links that no queue pair may use, by hand or because SprayCheck named them.

Owns the list; the engine workers know which entropy values cross a link. Every change is written beside the verdicts.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent.host.requests import DeniedLink, LinkProbesAsked, Request, SetDenied
from results.files.event_log import EventLog, Fields, Tail, timestamp
from scenarios.errors import ScenariosError, UsageError, WorkerFailedError
from scenarios.lab.client import Worker
from scenarios.lab.deploy import worker_name
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.link_trials import Trials
from scenarios.lab.processes import stopped_text
from scenarios.lab.protocol import RUNNING, STOPPED, ChildStatus, DenialState
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, NodeId, Role, parse_link

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05
"""How often SprayCheck's records are read while it may deny (our choice)."""

WORKERS_WITHIN_S = 10.0
"""All workers together answer within this, or the request fails: everybody else waits for the owner meanwhile. Half of
what its other clients wait (`QUICK_TIMEOUT_S`); one that is stopped is not asked at all."""

AGAIN_S = 1.0
"""Between two tries to tell a worker what it may not have heard (our choice)."""

BY_DETECTOR = "spraycheck"
BY_PROBES = "probes"


@dataclass(frozen=True)
class Acting:
    """Whose accusations deny links."""

    epoch: int
    """The run that asked for it; what other runs said is not acted on."""
    expectation: str
    lift_after: int = 0
    """Probes in a row, all answered, after which a link that SprayCheck named is allowed again; 0: never by itself."""


class Denials:
    """Links denied now."""

    def __init__(self, labdir: LabDir, fabric: Fabric, workers: int, status_of: Callable[[str], ChildStatus]) -> None:
        """`status_of` tells by name how a process of the lab is."""
        self._labdir = labdir
        self._fabric = fabric
        self._workers = range(workers)
        self._status_of = status_of
        self._unsure = set[int]()
        """Workers that may have another list: one did not answer, and the change was taken back."""
        self._again_s = 0.0
        self._denied: dict[DirectedLink, DenialState] = {}
        self._acting: Acting | None = None
        self._records = Tail(labdir.detect, labdir.older_detect)
        self._trials = Trials()
        self._lifted: set[str] = set()
        """In this epoch: what is said of them there rests on what was before."""
        self.epoch = 0
        """Of the latest run; changes are recorded under it."""

    def states(self) -> tuple[DenialState, ...]:
        """All that is denied."""
        return tuple(self._denied.values())

    def act_on(self, acting: Acting | None) -> None:
        """Deny what SprayCheck accuses from here on, or leave that be."""
        self._records.skip()
        self._acting = acting
        self._lifted.clear()
        if self._denied:
            self._put(self._denied)

    def deny(self, target: str, by: str) -> tuple[DenialState, ...]:
        """Deny every direction that `target` selects; all that is denied then.

        Raises `UnknownNameError`, `UsageError` for links to hosts, `WorkerFailedError`.
        """
        ways = parse_link(target, self._fabric)
        for way in ways:
            if Role.HOST in (way.sender.role, way.receiver.role):
                raise UsageError(f"{way} is a host's own link: take its port down instead (fault set {way} --down)")
        fresh = [way for way in ways if way not in self._denied]
        now = timestamp(time.time_ns())
        self._put(self._denied | {way: DenialState(str(way), by, now) for way in fresh})
        for way in fresh:
            self._note("DENY", way, by)
        return self.states()

    def allow(self, target: str | None, by: str) -> tuple[DenialState, ...]:
        """Allow what `target` selects again, or (None) everything; what is still denied then. Raises as `deny`."""
        ways = list(self._denied) if target is None else parse_link(target, self._fabric)
        gone = [way for way in ways if way in self._denied]
        self._put({way: state for way, state in self._denied.items() if way not in gone})
        for way in gone:
            self._note("ALLOW", way, by)
        return self.states()

    def due_in_s(self) -> float | None:
        """Seconds until `run` has something to do; None when nothing is planned."""
        if self._acting is not None:
            return LOOK_EVERY_S
        return AGAIN_S if self._unsure else None

    def run(self) -> None:
        """Deny what has been accused since, allow what has proved itself; failures are logged, none is raised."""
        self._assure()
        if self._acting is None:
            return
        for record in self._records.fresh():
            if record.get("event") == "LOCALIZE" and _is_meant(record, self._acting):
                for link in record["links"]:
                    self._follow(link)
        if self._acting.lift_after and self._probed():
            self._try(self._acting.lift_after)

    def _try(self, lift_after: int) -> None:
        """Allow links again over which enough probes in a row were answered."""
        if any(self._status(index).state != RUNNING for index in self._workers):
            return
        try:
            told = [row for reply in self._ask(self._workers, LinkProbesAsked()) for row in reply["links"]]
            for link in self._trials.passed(told, lift_after):
                way = next(way for way in self._denied if _denied_link(way) == link)
                self._lifted.add(str(way))
                self.allow(str(way), BY_PROBES)
        except ScenariosError as error:
            _log.error("probes of denied links: %s", error)

    def _follow(self, link: str) -> None:
        """Deny an accused link unless that would cost its leaf more than half of its links in that direction."""
        try:
            (way,) = parse_link(link, self._fabric)
            if way in self._denied or link in self._lifted:
                return
            if leaves_too_few(way, set(self._denied), self._fabric.spec.spines):
                self._note("DENY_REFUSED", way, BY_DETECTOR)
                return
            self.deny(link, BY_DETECTOR)
        except (ScenariosError, ValueError) as error:
            _log.error("deny %s: %s", link, error)

    def _put(self, wanted: dict[DirectedLink, DenialState]) -> None:
        """Tell all workers, then believe it; a worker that fails ends its runs by itself.

        Raises `WorkerFailedError`; then what was denied before holds, and those that have heard otherwise hear that.
        """
        for index in self._workers:
            _require_running(self._status(index))
        before, self._denied = self._denied, wanted
        try:
            probed = self._probed()
            self._trials.keep(probed)
            self._ask(self._workers, self._order(probed))
        except ScenariosError:
            self._denied, self._unsure = before, {*self._workers}
            raise
        self._unsure.clear()

    def _assure(self) -> None:
        """Tell workers that may have another list what is denied, as soon as they run."""
        if not self._unsure or time.monotonic() < self._again_s:
            return
        self._again_s = time.monotonic() + AGAIN_S
        for index in sorted(self._unsure):
            if self._status(index).state == RUNNING:
                with suppress(ScenariosError):
                    self._ask((index,), self._order(self._probed()))
                    self._unsure.discard(index)

    def _status(self, index: int) -> ChildStatus:
        return self._status_of(worker_name(index))

    def _order(self, probed: tuple[DeniedLink, ...]) -> SetDenied:
        return SetDenied(tuple(map(_denied_link, self._denied)), probed)

    def _probed(self) -> tuple[DeniedLink, ...]:
        """Denied links over which probes are sent: what hands have denied, hands allow again."""
        if self._acting is None or not self._acting.lift_after:
            return ()
        return tuple(_denied_link(way) for way, state in self._denied.items() if state.by == BY_DETECTOR)

    def _ask(self, indexes: Iterable[int], request: Request) -> list[dict[str, Any]]:
        """The workers' replies, which come soon or not at all. Raises `WorkerFailedError`."""
        until, replies = time.monotonic() + WORKERS_WITHIN_S, list[dict[str, Any]]()
        for index in indexes:
            left_s = max(0.1, until - time.monotonic())
            with Worker(self._labdir.worker_socket(index), left_s, lambda of: self._status_of(of).state) as worker:
                replies.append(worker.ask(request))
        return replies

    def _note(self, event: str, way: DirectedLink, by: str) -> None:
        with EventLog(self._labdir.detect) as log:
            log.write(event, "controller", {"epoch": self.epoch, "link": str(way), "by": by})


def _require_running(worker: ChildStatus) -> None:
    if worker.state == STOPPED:
        raise WorkerFailedError(stopped_text(worker.name, worker.process))
    if worker.state != RUNNING:
        raise WorkerFailedError(f"{worker.name} has ended: {worker.state}")


def leaves_too_few(way: DirectedLink, denied: set[DirectedLink], spines: int) -> bool:
    """Whether more than half of a leaf's links in one direction would be denied with this one."""
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


def _is_meant(record: Fields, acting: Acting) -> bool:
    return bool(record["epoch"] == acting.epoch and record["expectation"] == acting.expectation)
