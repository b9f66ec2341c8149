"""The controller's denylist: what it tells the workers and writes down, and what it will not deny by itself."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from agent.host.control.requests import DeniedLink, LinkProbesAsked, Request, SetDenied
from results.files.event_log import EventLog, read_records
from scenarios.errors import UsageError, WorkerFailedError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner import worker_requests
from scenarios.lab.owner.denials import Acting, Denials, Trials, leaves_too_few
from scenarios.lab.owner.worker_requests import Pending
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import RUNNING, STOPPED, ChildStatus
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link
from tests.support.run_schemas import problems_in

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=4, spines=4))


R = TypeVar("R")


class Workers:
    """In place of the lab's engine workers: hears what each is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, SetDenied]] = []
        self.counts: dict[DeniedLink, tuple[int, int]] = {}
        """Probes answered and lost, as every worker tells."""
        self.states = dict.fromkeys(("worker0", "worker1"), RUNNING)
        self.deaf = ""
        """Which one hangs."""

    def status(self, name: str) -> ChildStatus:
        return ChildStatus(name, ProcessId(123, 1), self.states[name])

    def __call__(self, path: Path, line: bytes) -> AbstractContextManager[Any]:
        answers = iter((self._answer(path, msgspec.json.decode(line, type=Request)),))
        return nullcontext(SimpleNamespace(reply=lambda: next(answers, None)))

    def _answer(self, path: Path, request: Request) -> bytes | None:
        if isinstance(request, LinkProbesAsked):
            told = self.counts.items()
            rows = [{**asdict(link), "answered": each[0], "lost": each[1]} for link, each in told]
            return msgspec.json.encode({"ok": True, "links": rows})
        if path.stem == self.deaf:
            return None
        assert isinstance(request, SetDenied)
        self.told.append((path.name, request))
        return b'{"ok": true, "evs": 1}'


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    made = Workers()
    monkeypatch.setattr(worker_requests, "Exchange", made)
    monkeypatch.setattr(worker_requests, "WORKERS_WITHIN_S", 0.05)
    return made


@pytest.fixture
def denylist(tmp_path: Path, workers: Workers) -> Denials:
    labdir = LabDir("x", tmp_path)
    labdir.path.mkdir()
    return Denials(labdir, FABRIC, 2, workers.status)


def over(denylist: Denials, work: Pending[R]) -> R:
    """What came of work that is gone on with."""
    until = time.monotonic() + 5
    while not work.is_over:
        assert time.monotonic() < until
        denylist.run()
    return work.result()


def noted(denylist: Denials) -> list[tuple[str, str, str]]:
    found = read_records(denylist._labdir.detect)
    mine = [each for each in found if each["event"] != "LOCALIZE"]
    assert problems_in("detect.jsonl", mine) == []
    return [(each["event"], each["link"], each["by"]) for each in mine]


def test_every_worker_hears_the_whole_list_and_changes_are_written_down(denylist: Denials, workers: Workers) -> None:
    over(denylist, denylist.deny("p0:leaf2-spine1", "hand"))
    both = {DeniedLink(0, 2, 1, True), DeniedLink(0, 2, 1, False)}
    assert [(name, set(request.links)) for name, request in workers.told] == [
        ("worker0.sock", both),
        ("worker1.sock", both),
    ]
    left = over(denylist, denylist.allow("p0:spine1>leaf2", "hand"))
    assert [each.link for each in left] == ["p0:leaf2>spine1"]
    assert set(workers.told[-1][1].links) == {DeniedLink(0, 2, 1, True)}
    assert over(denylist, denylist.allow(None, "hand")) == ()
    assert [event for event, *_ in noted(denylist)] == ["DENY", "DENY", "ALLOW", "ALLOW"]


def test_a_worker_that_is_stopped_is_named_and_nobody_is_asked(denylist: Denials, workers: Workers) -> None:
    workers.states["worker1"] = STOPPED
    with pytest.raises(WorkerFailedError, match=r"^worker1 \(process 123\) is stopped and does not answer"):
        over(denylist, denylist.deny("p0:leaf2>spine1", "hand"))
    workers.states["worker1"] = "killed by SIGKILL"
    with pytest.raises(WorkerFailedError, match=r"^worker1 has ended: killed by SIGKILL$"):
        over(denylist, denylist.deny("p0:leaf2>spine1", "hand"))
    assert (workers.told, denylist.states(), denylist.due_in_s()) == ([], (), None)


def test_a_change_that_one_worker_did_not_hear_is_taken_back_at_all(denylist: Denials, workers: Workers) -> None:
    workers.deaf = "worker1"
    with pytest.raises(
        WorkerFailedError, match=r"^worker1 \(process 123\) has not answered for 0 s; it runs, but may hang$"
    ):
        over(denylist, denylist.deny("p0:leaf2>spine1", "hand"))
    assert denylist.states() == ()
    assert denylist.due_in_s() is not None
    workers.states["worker1"] = STOPPED
    denylist.run()
    assert [(name, len(request.links)) for name, request in workers.told] == [("worker0.sock", 1), ("worker0.sock", 0)]
    workers.states["worker1"], workers.deaf, denylist._again_s = RUNNING, "", 0.0
    denylist.run()
    assert [name for name, _ in workers.told[2:]] == ["worker1.sock"], "the other one has heard"
    assert denylist.due_in_s() is None


def test_a_hosts_link_is_refused(denylist: Denials, workers: Workers) -> None:
    with pytest.raises(UsageError, match="host's own link"):
        over(denylist, denylist.deny("p0:h1>leaf1", "hand"))
    assert workers.told == []


def accuse(denylist: Denials, *links: str, epoch: int = 3, expectation: str = "uniform") -> None:
    with EventLog(denylist._labdir.detect) as log:
        told = {"state": "named", "candidates": [], "pending": 0}
        log.write("LOCALIZE", "monitor", {"epoch": epoch, "expectation": expectation, "links": list(links), **told})


def test_what_is_named_is_denied_only_when_asked_for_and_only_by_the_run_that_asks(
    denylist: Denials, workers: Workers
) -> None:
    accuse(denylist, "p0:leaf1>spine0")
    denylist.run()
    assert (denylist.due_in_s(), workers.told) == (None, [])
    denylist.act_on(Acting(3, "uniform"))
    accuse(denylist, "p0:leaf1>spine1", epoch=2)
    accuse(denylist, "p0:leaf1>spine2", expectation="declared")
    denylist.run()
    assert workers.told == []
    accuse(denylist, "p0:leaf1>spine3")
    accuse(denylist, "p0:leaf1>spine3")
    denylist.run()
    assert [(each.link, each.by) for each in denylist.states()] == [("p0:leaf1>spine3", "spraycheck")]
    assert len(workers.told) == 2


def test_it_does_not_deny_more_than_half_of_a_leafs_links_by_itself(denylist: Denials, workers: Workers) -> None:
    denylist.act_on(Acting(3, "uniform"))
    accuse(denylist, *(f"p0:leaf1>spine{spine}" for spine in range(3)), "p1:leaf1>spine0", "p0:spine0>leaf1")
    denylist.run()
    assert [each.link for each in denylist.states()] == [
        "p0:leaf1>spine0", "p0:leaf1>spine1", "p1:leaf1>spine0", "p0:spine0>leaf1",
    ]  # fmt: skip
    assert ("DENY_REFUSED", "p0:leaf1>spine2", "spraycheck") in noted(denylist)
    (way,) = parse_link("p0:leaf1>spine3", FABRIC)
    assert leaves_too_few(way, set(denylist._denied), 4)


NAMED = DeniedLink(0, 1, 3, up=True)


def test_a_link_that_was_named_is_allowed_again_after_so_many_clean_probes(denylist: Denials, workers: Workers) -> None:
    denylist.act_on(Acting(3, "uniform", lift_after=100))
    over(denylist, denylist.deny("p1:leaf2>spine2", "hand"))
    accuse(denylist, "p0:leaf1>spine3")
    denylist.run()
    assert workers.told[-1][1].probed == (NAMED,), "what a hand has denied a hand allows"
    for counts, still in (((40, 0), 2), ((49, 1), 2), ((98, 1), 2), ((99, 1), 1)):
        workers.counts = {NAMED: counts}
        denylist.run()
        assert len(denylist.states()) == still, counts
    assert noted(denylist)[-1] == ("ALLOW", "p0:leaf1>spine3", "probes")
    assert workers.told[-1][1].probed == ()
    accuse(denylist, "p0:leaf1>spine3")
    denylist.run()
    assert [each.link for each in denylist.states()] == ["p1:leaf2>spine2"], "the same epoch's word is old"
    denylist.act_on(Acting(4, "uniform", lift_after=100))
    accuse(denylist, "p0:leaf1>spine3", epoch=4)
    denylist.run()
    assert len(denylist.states()) == 2


def test_without_the_setting_nothing_is_probed_or_lifted(denylist: Denials, workers: Workers) -> None:
    denylist.act_on(Acting(3, "uniform"))
    accuse(denylist, "p0:leaf1>spine3")
    workers.counts = {NAMED: (10**6, 0)}
    for _ in range(3):
        denylist.run()
    assert workers.told[-1][1].probed == ()
    assert len(denylist.states()) == 1


LINK, OTHER = DeniedLink(0, 3, 5, up=True), DeniedLink(0, 3, 5, up=False)


def row(link: DeniedLink, answered: int, lost: int) -> dict[str, Any]:
    return {"plane": 0, "leaf": 3, "spine": 5, "up": link.up, "answered": answered, "lost": lost}


looks = st.lists(st.lists(st.booleans(), max_size=12), max_size=20)
"""By look the outcomes of its probes, in order."""


@given(looks, looks, st.integers(1, 30))
def test_a_link_passes_only_after_so_many_answers_without_a_loss_between(
    first: list[list[bool]], second: list[list[bool]], enough: int
) -> None:
    trials, counts = Trials(), [[0, 0], [0, 0]]
    history: list[bool] = []
    for parts in zip(first, second, strict=False):
        for at, outcomes in enumerate(parts):
            counts[at][0] += sum(outcomes)
            counts[at][1] += len(outcomes) - sum(outcomes)
            history += outcomes
        passed = trials.passed([row(LINK, *each) for each in counts], enough)
        if passed:
            assert len(history) >= enough
            assert all(history[-enough:])


def test_all_workers_answers_count_together_and_links_apart() -> None:
    trials = Trials()
    rows = [row(LINK, 6, 0), row(LINK, 5, 0), row(OTHER, 10, 0)]
    assert trials.passed(rows, 11) == [LINK]
    assert trials.passed([row(LINK, 6, 0), row(LINK, 5, 1), row(OTHER, 11, 0)], 11) == [OTHER]


def test_a_link_that_is_denied_again_begins_anew() -> None:
    trials = Trials()
    assert trials.passed([row(LINK, 10, 0)], 10) == [LINK]
    trials.keep(())
    assert trials.passed([row(LINK, 9, 0)], 10) == []
