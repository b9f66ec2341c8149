"""What became of paths, told from counters and records, and held against what was expected."""

from scenarios.file.model import Expectation
from scenarios.file.plan import Flow
from scenarios.run.judge.path_outcomes import PathOutcome, outcomes_of, path_checks
from scenarios.workload.traffic import FlowEnd, OpenFlow, WorkerCounts
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.ids import DirectedLink
from testbed.model.names import parse_link

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, hosts_per_leaf=2))
UP, DOWN = "p1:leaf0>spine1", "p1:spine1>leaf1"


def flow(source: int, destination: int) -> OpenFlow:
    ends = [FlowEnd(host, host << 12 | 1, 0, 1, 0) for host in (source, destination)]
    return OpenFlow(Flow(source, destination, 100, 100), 1, *ends)


def row(
    host: int, ev: int, plane: int, spine: int | None, lost: int = 0, timed_out: int = 0, sent: int = 9
) -> dict[str, object]:
    ends = {"host": host, "qpn": host << 12 | 1, "ev": ev, "plane": plane, "spine": spine}
    return ends | {"lost": lost, "timed_out": timed_out, "tx_first": sent, "tx_rtx": 0}


def went(state: str, *evs: int, node: str = "h0", qpn: int = 1) -> dict[str, object]:
    return {"event": "EV_STATE", "node": node, "qpn": qpn, "state": state, "evs": [f"{ev:#010x}" for ev in evs]}


def outcomes(rows: list[dict[str, object]], records: list[dict[str, object]]) -> tuple[PathOutcome, ...]:
    workers = [WorkerCounts(ports=(), cpu_ns=0, sched_wait_ns=0, evs=tuple(rows))]
    return outcomes_of([flow(0, 2), flow(0 + 1, 0)], workers, records, FABRIC)


def ways(*texts: str) -> list[DirectedLink]:
    return [way for text in texts for way in parse_link(text, FABRIC)]


def test_a_path_is_told_by_its_links_and_what_it_lost() -> None:
    found = outcomes(
        [row(0, 7, 1, 1, lost=3, timed_out=2), row(1, 8, 0, None), row(2, 7, 1, 1, lost=9)],
        [went("ASSUMED_BAD", 7), went("GOOD", 7), went("GOOD", 8, node="h1", qpn=4097), {"event": "LOSS"}],
    )
    assert found == (PathOutcome("h0>h2", (UP, DOWN), 5, True), PathOutcome("h1>h0", (), 0, False))


def test_the_right_values_are_retired() -> None:
    found = outcomes([row(0, 7, 1, 1), row(0, 6, 1, 0)], [went("ASSUMED_BAD", 7)])
    (check,) = path_checks(Expectation(), ways(UP), found)
    assert (check.ok, check.detail) == (True, f"1 over {UP}, no others")
    (anywhere,) = path_checks(Expectation(), ways("p1:leaf*>spine1"), found)
    assert anywhere.ok, "links that no path uses are not asked about"


def test_a_path_on_which_nothing_was_sent_need_not_be_retired() -> None:
    found = outcomes([row(0, 7, 1, 1), row(0, 6, 1, 0, sent=0)], [went("ASSUMED_BAD", 7)])
    (check,) = path_checks(Expectation(), ways(UP, "p1:leaf0>spine0"), found)
    assert (check.ok, check.detail) == (True, f"1 over {UP}, no others; nothing was sent over p1:leaf0>spine0")


def test_none_or_another_retired_is_wrong() -> None:
    found = outcomes([row(0, 7, 1, 1), row(0, 6, 1, 0)], [went("ASSUMED_BAD", 6)])
    (check,) = path_checks(Expectation(), ways(UP), found)
    assert not check.ok
    assert check.detail == (
        f"no entropy value over {UP} was retired; one over p1:leaf0>spine0 and p1:spine0>leaf1 was (h0>h2)"
    )
    (nothing,) = path_checks(Expectation(), [], found)
    assert not nothing.ok


def test_losses_are_counted_path_by_path() -> None:
    found = outcomes([row(0, 7, 1, 1, lost=3, timed_out=2), row(0, 6, 1, 0, lost=4)], [])
    assert path_checks(Expectation(), None, found) == ()
    (most,) = path_checks(Expectation(lost_per_path=5), None, found)
    assert (most.ok, most.detail) == (True, "at most 5 of 5")
    (less,) = path_checks(Expectation(lost_per_path=4), None, found)
    assert (less.ok, less.detail) == (False, f"5 over {UP} and {DOWN} (h0>h2)")
