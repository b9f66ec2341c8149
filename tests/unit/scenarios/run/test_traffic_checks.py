"""What became of paths, told from counters and records, and held against what was expected."""

from msgspec.structs import replace

from results.summary import Check, FlowResult
from scenarios.file.model import Expectation
from scenarios.file.plan import Flow
from scenarios.run.judge.traffic_checks import PathOutcome, goodput_check, outcomes_of, path_checks
from scenarios.workload.traffic import FlowEnd, OpenFlow, WorkerCounts
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link
from testbed.model.node_names import DirectedLink

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


S = 10**9
FIRST_NS = 50 * S
ALL = 10_000_000
FLOW = FlowResult("h0", "h1", 1, "RTS", ALL, ALL, 1, 0, 0, 1.0, 1.0, ALL, 0)
OTHER = replace(FLOW, source="h2")


def progress(*rates: float, seconds: float = 4.0) -> list[dict[str, object]]:
    """Four records a second, flow n acknowledging `rates[n]` bytes a second, the other events between them."""
    steps = range(int(seconds * 4) + 1)
    told = [
        {
            "event": "PROGRESS",
            "mono_ns": FIRST_NS + n * S // 4,
            "acked_bytes": [min(ALL, int(rate * n / 4)) for rate in rates],
        }
        for n in steps
    ]
    return [{"event": "LOAD", "mono_ns": FIRST_NS}, *told]


def check(
    *rates: float, least: str = "7Mbit", after_s: float = 1, flows: tuple[FlowResult, ...] = (FLOW, OTHER)
) -> Check:
    return goodput_check(Expectation(goodput=least, goodput_after_s=after_s), progress(*rates), flows, FIRST_NS)


def test_all_flows_as_fast_as_wanted() -> None:
    told = check(1_000_000, 2_000_000)
    assert (told.ok, told.detail) == (True, "at least 8.0 Mb/s per flow, 7Mbit wanted")


def test_the_slow_one_is_named_with_its_rate() -> None:
    told = check(2_000_000, 500_000)
    assert (told.ok, told.detail) == (False, "4.0 Mb/s (h2>h1), 7Mbit wanted")


def test_the_time_after_all_is_sent_does_not_count() -> None:
    told = check(5_000_000, 5_000_000, least="39Mbit", after_s=0)
    assert (told.ok, told.detail) == (True, "at least 40.0 Mb/s per flow, 39Mbit wanted")


def test_what_came_before_does_not_count() -> None:
    records = [*progress(2_000_000, seconds=1)]
    records += [each | {"mono_ns": each["mono_ns"] + S} for each in progress(0, seconds=2)]  # type: ignore[operator]
    slow = goodput_check(Expectation(goodput="7Mbit", goodput_after_s=1), records, (FLOW,), FIRST_NS)
    assert not slow.ok


def test_a_flow_too_short_to_be_measured_does_not_pass() -> None:
    told = check(9_000_000, 2_000_000)
    assert (told.ok, told.detail) == (False, "h0>h1 ended before it could be measured, 7Mbit wanted")
    assert not goodput_check(Expectation(goodput="8kbit"), [], (FLOW,), None).ok


def test_barriers_of_collectives_have_no_rate_to_keep() -> None:
    barrier = replace(OTHER, payload_bytes=5, acked_bytes=5, is_barrier=True)
    told = check(1_000_000, 2_000_000, flows=(FLOW, barrier))
    assert (told.ok, told.detail) == (True, "at least 8.0 Mb/s per flow, 7Mbit wanted")
