"""What was recorded and expected to pass or fail, with reasons."""

from dataclasses import replace

import msgspec
import pytest

from faults.uncounted_moments import Outage
from results.summary import Check, FlowResult, Injected, LabChange
from scenarios.file.model import Expectation
from scenarios.run.judge.checks import (
    MachineCounts,
    _data_check,
    as_planned_check,
    checks_of,
    collective_check,
    load_of,
    missed_times,
)
from scenarios.run.judge.detection import Accused, Conclusion, detected_of
from scenarios.run.lab_changes import links_of
from tests.unit.results.test_perf_rows import row

LINK = "p0:leaf3>spine5"
OTHER = "p0:spine5>leaf4"
FLOW = FlowResult("h3", "h4", 0x4001, "RTS", 25_600, 25_600, 10_000, 100, 0, 1.0, 204_800.0, 25_600, 0)
DROP = Injected(LINK, "random-drop", 0.01, 0.01, "ebpf", "scenario", 10_200, 103, 100)
CALM = MachineCounts(0, 0, 0, 10**9, 10**7)
JUMPY = MachineCounts(0, 0, 0, 10**9, 10**7, wait_worst=0.6)
"""It waited little in all, and long in one second."""


def concluded(
    *links: str, state: str = "named", candidates: tuple[tuple[str, ...], ...] = (), **verdicts: int
) -> Conclusion:
    accused = tuple(Accused(link, ("p0-leaf4", "p0-leaf6"), 2.0) for link in links)
    links = verdicts or {"failed": 1, "healthy": 15}
    return Conclusion(state, accused, candidates, {"failed": 2, "healthy": 14}, 16, links=links, links_wanted=16)


def failed(conclusion: Conclusion, wanted: set[str], flow: FlowResult = FLOW, **expected: object) -> dict[str, str]:
    checks = checks_of(Expectation.model_validate(expected), wanted, detected_of(conclusion, {LINK}), (flow,), (DROP,))
    return {check.name: check.detail for check in checks if not check.ok}


def test_the_right_link_named_is_a_pass() -> None:
    assert failed(concluded(LINK), {LINK}) == {}


def test_a_missed_link_fails() -> None:
    assert failed(concluded(state="none"), {LINK}) == {"the right links are named": f"{LINK} is not named"}


def test_a_false_accusation_fails() -> None:
    assert failed(concluded(LINK, OTHER), {LINK}) == {"the right links are named": f"{OTHER} is accused"}


def test_an_undecided_accusation_fails_even_when_the_truth_is_in_it() -> None:
    told = failed(concluded(state="ambiguous", candidates=((LINK,), (OTHER,))), {LINK})
    assert f"one of {LINK} is accused, undecided" in told["the right links are named"]


def test_a_link_among_suspects_is_neither_missed_nor_held_against_recall() -> None:
    open_ended = replace(concluded(state="ambiguous", candidates=((LINK, OTHER),)), fewest=(1,))
    found = detected_of(open_ended, {LINK})
    assert (found.missed, found.suspected, found.recall) == ((), (LINK,), None)
    with_another = detected_of(open_ended, {LINK, "p1:leaf0>spine0"})
    assert (with_another.missed, with_another.recall) == (("p1:leaf0>spine0",), 0.0)


def test_how_many_of_many_suspects_have_failed_is_told() -> None:
    many = tuple(f"p0:leaf{leaf}>spine1" for leaf in range(8))
    said = replace(concluded(state="ambiguous", candidates=(many,)), fewest=(4,))
    assert f"at least 4 of {', '.join(many)} is accused, undecided" in failed(said, {LINK})["the right links are named"]


CAUSE, UPLINK = "p1:leaf2>spine*", "p1:leaf2>spine0"
BELOW = {CAUSE: (UPLINK, "p1:leaf2>spine1")}


def test_a_common_cause_names_all_its_links() -> None:
    said = replace(concluded(state="none"), common=(Accused(CAUSE, ("p1-leaf3",), 1.0),))
    found = detected_of(said, {*BELOW[CAUSE]}, right_causes=(CAUSE,), spelt_out=lambda name: BELOW.get(name, (name,)))
    assert (found.missed, found.precision, found.recall) == ((), 1.0, 1.0)
    checks = checks_of(Expectation(), {*BELOW[CAUSE]}, found, (FLOW,), (DROP,), by_cause=BELOW[CAUSE])
    assert checks[0].ok
    assert not checks_of(Expectation(), {*BELOW[CAUSE], LINK}, found, (FLOW,), (DROP,), by_cause=BELOW[CAUSE])[0].ok


def test_links_without_a_conclusion_fail_and_are_told_with_the_reason() -> None:
    some = replace(concluded(LINK, failed=1, healthy=13, undecided=2), undecided={OTHER: "12 packets", UPLINK: "why"})
    told = failed(some, {LINK})["every link is judged"]
    assert told == f"14 of 16 links (1 failed, 13 healthy); {OTHER}: 12 packets; {UPLINK}: why"
    many = replace(some, undecided={f"p0:leaf{leaf}>spine0": "why" for leaf in range(5)})
    assert failed(many, {LINK})["every link is judged"].endswith("; 2 more, see `undecided` in summary.json")
    assert "every link is judged" not in failed(concluded(LINK), {LINK})


def test_paths_that_say_too_little_fail_no_run_whose_links_are_judged() -> None:
    said = replace(concluded(LINK), verdicts={"failed": 1, "insufficient": 15})
    assert failed(said, {LINK}) == {}


def test_flows_that_leaves_had_no_room_for_are_told_and_fail_only_what_nobody_else_judges() -> None:
    said = replace(concluded(LINK), unmeasured={"h3>h4 at p0-leaf3: no room": 1})
    checks = checks_of(Expectation(), {LINK}, detected_of(said, {LINK}), (FLOW,), (DROP,))
    assert checks[1].ok
    assert checks[1].detail.endswith("; 1 flow not measured (UNMEASURED in detect.jsonl states why)")


def test_links_over_which_nothing_was_sent_owe_no_conclusion_unless_there_are_no_others() -> None:
    said = replace(concluded(LINK, failed=1, healthy=13), links_wanted=14, idle=2)
    checks = checks_of(Expectation(), {LINK}, detected_of(said, {LINK}), (FLOW,), (DROP,))
    assert checks[1].ok
    assert checks[1].detail == "14 of 14 links (1 failed, 13 healthy); nothing was sent over 2 other links"
    assert "every link is judged" in failed(replace(said, links={}, links_wanted=0), {LINK})


def test_losses_that_a_common_cause_explains_fail_no_check() -> None:
    said = replace(concluded(state="none", healthy=12), common=(Accused(CAUSE, ("p1-leaf3",), 1.0),), explained=4)
    found = detected_of(said, {UPLINK}, right_causes=(CAUSE,), spelt_out=lambda name: BELOW.get(name, (name,)))
    check = checks_of(Expectation(), {UPLINK}, found, (FLOW,), (DROP,), by_cause=BELOW[CAUSE])[1]
    assert check.ok
    assert check.detail == f"16 of 16 links (12 healthy), 4 of them undecided behind {CAUSE}"


@pytest.mark.parametrize(
    "change",
    [{"bytes_wrong": 1}, {"bytes_verified": 25_599}, {"acked_bytes": 0}, {"seconds": None}],
    ids=lambda change: next(iter(change)),
)
def test_wrong_or_missing_data_fails(change: dict[str, int | None]) -> None:
    assert set(failed(concluded(LINK), {LINK}, msgspec.structs.replace(FLOW, **change))) == {"all data is right"}


def test_a_write_that_did_not_complete_is_told_so() -> None:
    late = msgspec.structs.replace(FLOW, seconds=None, state="ERROR")
    assert (
        "0 wrong at the receiver, not completed (ERROR)" in failed(concluded(LINK), {LINK}, late)["all data is right"]
    )


def test_named_too_late_fails() -> None:
    assert failed(concluded(LINK), {LINK}, within_s=1.5) == {"named in time": f"{LINK} not within 1.5 s"}
    assert failed(concluded(LINK), {LINK}, within_s=2.5) == {}


@pytest.mark.parametrize(("resent", "ok"), [(95, True), (105, True), (94, False), (106, False)])
def test_retransmissions_are_held_against_the_injectors_count(resent: int, ok: bool) -> None:
    told = failed(concluded(LINK), {LINK}, msgspec.structs.replace(FLOW, retransmissions=resent))
    assert (told == {}) is ok


def test_where_detection_is_only_recorded_it_decides_nothing() -> None:
    assert failed(concluded(OTHER, failed=1), {LINK}, detection="recorded") == {}
    wrong = msgspec.structs.replace(FLOW, bytes_wrong=1)
    assert set(failed(concluded(), {LINK}, wrong, detection="recorded")) == {"all data is right"}


def test_precision_and_recall() -> None:
    right = detected_of(concluded(LINK), {LINK})
    assert (right.precision, right.recall, right.missed) == (1.0, 1.0, ())
    half = detected_of(concluded(OTHER), {LINK})
    assert (half.precision, half.recall, half.missed) == (0.0, 0.0, (LINK,))
    silent = detected_of(concluded(state="none"), set())
    assert (silent.precision, silent.recall) == (None, None)


def test_a_machine_that_kept_up_is_not_overloaded() -> None:
    load = load_of(CALM, Expectation(), (FLOW,), (DROP,))
    assert not load.overloaded
    assert load.sched_wait_share == pytest.approx(0.0099, abs=1e-4)


BUSY = MachineCounts(0, 0, 0, 10**9, 10**9)
TIMES = (Check("named in time", False, ""), Check("every flow keeps its goodput", False, ""), Check("x", False, ""))


def test_a_long_wait_for_a_core_is_a_warning_and_overload_where_a_time_is_missed() -> None:
    load = load_of(BUSY, Expectation(), (FLOW,), (DROP,))
    assert (load.overloaded, load.warnings) == (
        False,
        ("engines waited 50% of their time for a core: times are unreliable, counts are right",),
    )
    assert not load_of(BUSY, Expectation(within_s=2), (FLOW,), (DROP,)).overloaded, "in time on a slow machine"
    missed = load_of(BUSY, Expectation(), (FLOW,), (DROP,), missed=missed_times(TIMES))
    assert missed.overloaded
    assert missed.reasons[0].endswith("and this fails: named in time, every flow keeps its goodput")
    assert not load_of(CALM, Expectation(), (FLOW,), (DROP,), missed=missed_times(TIMES)).overloaded
    assert load_of(CALM, Expectation(within_s=2), (FLOW,), (DROP,)).warnings == ()


FLAP = Injected("p1:h0>leaf0", "flap", 1.0, 1.0, "link", "scenario", 0, 9, None)
DELAY = Injected(OTHER, "delay", None, None, "netem", "hand", 500, 0, None)
NETEM_CORRUPT = Injected(OTHER, "corrupt", None, None, "netem", "hand", 500, 0, None)


@pytest.mark.parametrize("fault", [FLAP, DELAY, NETEM_CORRUPT])
def test_retransmissions_are_not_held_against_a_fault_that_costs_more_than_is_counted(fault: Injected) -> None:
    flow = msgspec.structs.replace(FLOW, retransmissions=400, timeouts=30)
    load = load_of(JUMPY, Expectation(), (flow,), (DROP, fault))
    assert not load.overloaded
    assert f"30 packets timed out; {fault.link} {fault.kind}" in load.warnings[0]
    assert load.unexplained_losses > load.unexplained_limit
    checks = checks_of(Expectation(), {LINK}, detected_of(concluded(LINK), {LINK}), (flow,), (DROP, fault))
    (check,) = [check for check in checks if check.name == "retransmissions match the drops"]
    assert check.ok
    assert "not held against each other" in check.detail
    by_ebpf = msgspec.structs.replace(NETEM_CORRUPT, mechanism="ebpf")
    assert load_of(JUMPY, Expectation(), (flow,), (DROP, by_ebpf)).overloaded


def test_to_name_what_may_have_dropped_is_right_and_not_to_name_it_is_no_miss() -> None:
    possible = frozenset({OTHER, "p0:spine5>leaf3"})
    detected = detected_of(concluded(LINK, OTHER), {LINK}, None, possible)
    assert (detected.precision, detected.recall, detected.missed) == (1.0, 1.0, ())
    assert all(named.right for named in detected.named)
    checks = checks_of(Expectation(), {LINK}, detected, (FLOW,), (DROP,), possible)
    assert all(check.ok for check in checks)
    without = checks_of(Expectation(), {LINK}, detected, (FLOW,), (DROP,))
    assert not all(check.ok for check in without)


PACED = msgspec.structs.replace(FLOW, asked_bps=409_600.0)
"""Asked for twice what it sent."""


def test_a_rate_that_was_not_kept_is_overload_unless_something_else_may_have_held_it_back() -> None:
    load = load_of(CALM, Expectation(), (PACED,), (DROP,))
    assert load.reasons == ("1 flow did not keep the rate asked for: h3>h4 sent 0.2 of 0.4 Mb/s",)
    assert load_of(CALM, Expectation(), (PACED,), (DROP,), steered=True).warnings == load.reasons
    assert load_of(CALM, Expectation(), (PACED,), (DROP, DELAY)).warnings == load.reasons
    kept = msgspec.structs.replace(PACED, asked_bps=FLOW.goodput_bps)
    assert load_of(CALM, Expectation(), (kept,), (DROP,)).reasons == ()


def test_records_that_had_to_go_are_a_warning() -> None:
    load = load_of(replace(CALM, events_cut=1200), Expectation(), (FLOW,), (DROP,))
    assert (load.events_cut, load.overloaded) == (1200, False)
    assert "1,200 records of agents are not in agent.jsonl" in load.warnings[0]


def test_packets_lost_by_the_machine_are_overload() -> None:
    load = load_of(MachineCounts(1, 1, 0, 1, 0), Expectation(), (FLOW,), (DROP,))
    assert load.overloaded
    assert "lost 2 packets" in load.reasons[0]


@pytest.mark.parametrize(
    ("resent", "injected", "overloaded"),
    [(105, (DROP,), False), (106, (DROP,), True), (3, (), False), (4, (), True)],
)
def test_retransmissions_that_nobody_caused_are_overload_where_the_machine_shows_it(
    resent: int, injected: tuple[Injected, ...], overloaded: bool
) -> None:
    flow = msgspec.structs.replace(FLOW, retransmissions=resent)
    assert load_of(JUMPY, Expectation(), (flow,), injected).overloaded is overloaded
    calm = load_of(CALM, Expectation(), (flow,), injected)
    assert not calm.overloaded
    assert any("this machine shows no sign" in each for each in calm.warnings) is overloaded
    checks = checks_of(Expectation(), {LINK}, detected_of(concluded(LINK), {LINK}), (flow,), injected)
    (check,) = [check for check in checks if check.name == "retransmissions match the drops"]
    assert check.ok is not overloaded


MTU = LabChange(
    "p0-spine5", "leaf3", "mtu", "9000", "1500", "has MTU 1500, planned 9000",
    ("p0:spine5>leaf3", "p0:leaf3>spine5"), "after",
)  # fmt: skip


def test_what_somebody_else_changed_is_neither_right_nor_wrong_and_no_overload() -> None:
    said = detected_of(concluded(LINK), set(), changed=links_of([MTU]))
    (named,) = said.named
    assert (named.right, named.changed) == (False, True)
    assert (said.precision, said.recall, said.missed) == (None, None, ())
    flow = msgspec.structs.replace(FLOW, retransmissions=400)
    checks = {each.name: each for each in checks_of(Expectation(), set(), said, (flow,), (), changes=(MTU,))}
    assert checks["the right links are named"].ok
    assert f"but for {LINK}, which somebody else changed" in checks["the right links are named"].detail
    assert checks["retransmissions match the drops"].ok
    assert "p0-spine5 port leaf3 has MTU 1500" in checks["retransmissions match the drops"].detail
    undecided = replace(concluded(), candidates=((LINK, OTHER),))
    assert "the right links are named" in failed(undecided, set())
    either = checks_of(Expectation(), set(), detected_of(undecided, set()), (FLOW,), (), changes=(MTU,))
    assert next(each for each in either if each.name == "the right links are named").ok
    load = load_of(JUMPY, Expectation(), (flow,), (), changes=(MTU,))
    assert not load.overloaded
    assert "somebody else changed the lab: p0-spine5 port leaf3 has MTU 1500, planned 9000" in load.warnings[0]
    plan = as_planned_check((MTU,), 40)
    assert (plan.ok, as_planned_check((), 40).ok) == (False, True)
    assert "p0-spine5 port leaf3 has MTU 1500" in plan.detail


def test_a_link_that_did_drop_is_right_whoever_else_changed_it_and_another_is_wrong_still() -> None:
    said = detected_of(concluded(LINK), {LINK}, changed=links_of([MTU]))
    assert (said.named[0].right, said.named[0].changed, said.precision) == (True, False, 1.0)
    other = detected_of(concluded(OTHER), set(), changed=links_of([MTU]))
    assert (other.named[0].changed, other.precision) == (False, 0.0)


def test_without_faults_a_long_run_may_send_a_few_again() -> None:
    flow = msgspec.structs.replace(FLOW, packets=1_000_000, retransmissions=100)
    assert load_of(CALM, Expectation(), (flow,), ()).unexplained_limit == 100


def test_a_mechanism_that_cannot_tell_writes_counts_all_drops() -> None:
    netem = msgspec.structs.replace(DROP, dropped_writes=None)
    checks = checks_of(Expectation(), {LINK}, detected_of(concluded(LINK), {LINK}), (FLOW,), (netem,))
    assert checks[-1].detail.startswith("100 resent, 103 packets dropped")


def test_what_a_collective_sent_is_not_compared_byte_for_byte() -> None:
    part = msgspec.structs.replace(FLOW, bytes_verified=0, workload="all-reduce")
    assert failed(concluded(LINK), {LINK}, part) == {}
    assert "all data is right" in failed(concluded(LINK), {LINK}, msgspec.structs.replace(part, acked_bytes=100))
    assert "all data is right" in failed(concluded(LINK), {LINK}, msgspec.structs.replace(part, workload="write"))


def test_one_wrong_number_or_a_program_that_stopped_fails() -> None:
    assert collective_check([row(1024, 5.0, 0)], ()).ok
    assert collective_check([row(1024, 5.0, 0), row(1024, 5.0, 3)], ()).detail == "all-reduce: 3 of 1,024 numbers"
    assert collective_check([], ("h3: queue pair 0x3001 has failed",)).detail == "h3: queue pair 0x3001 has failed"


def test_one_flow_is_one_flow() -> None:
    checks = checks_of(Expectation(), {LINK}, detected_of(concluded(LINK), {LINK}), (FLOW,), (DROP,))
    (data,) = (check for check in checks if check.name == "all data is right")
    assert data.detail == "1 flow arrived complete, compared byte for byte"


def test_what_collectives_carried_is_said_to_be_compared_by_its_numbers() -> None:
    rounds = msgspec.structs.replace(FLOW, bytes_verified=0, workload="all-reduce")
    barrier = msgspec.structs.replace(rounds, payload_bytes=5, acked_bytes=5, is_barrier=True)
    told = [_data_check(flows).detail for flows in ((rounds, barrier), (rounds, FLOW))]
    assert told == [
        "1 flow and 1 queue pair of barriers arrived complete, compared by the numbers of one round of each collective",
        "2 flows arrived complete, compared byte for byte (1) or by the numbers of one round of each collective (1)",
    ]


def test_packets_resent_although_the_first_copy_arrived_are_no_losses() -> None:
    hasty = msgspec.structs.replace(FLOW, retransmissions=400, duplicates=300)
    load = load_of(JUMPY, Expectation(), (hasty,), (DROP,))
    assert (load.overloaded, load.unexplained_losses) == (False, 0)
    (told,) = load.warnings
    assert "300 packets sent again although the first copy arrived" in told
    detected = detected_of(concluded(LINK), {LINK})
    checks = {each.name: each for each in checks_of(Expectation(), {LINK}, detected, (hasty,), (DROP,))}
    check = checks["retransmissions match the drops"]
    assert check.ok
    assert "400 resent, 100 data packets dropped by the injector, 300 resent although the first copy" in check.detail
    copied = msgspec.structs.replace(FLOW, duplicates=5000)
    assert load_of(JUMPY, Expectation(), (copied,), (DROP,)).unexplained_losses == 0


OUTAGE = Outage("p0:h3>leaf3", "drop 1%", "ebpf", True, 1)


def test_what_a_port_out_of_service_loses_is_a_warning_and_no_overload() -> None:
    more = msgspec.structs.replace(FLOW, retransmissions=342)
    assert load_of(JUMPY, Expectation(), (more,), (DROP,)).overloaded
    load = load_of(JUMPY, Expectation(), (more,), (DROP,), outages=(OUTAGE, OUTAGE))
    assert not load.overloaded
    (told,) = load.warnings
    assert "242 retransmissions not explained by injected drops" in told
    assert "p0:h3>leaf3 drop 1% by ebpf was set under traffic (and 1 more), which takes the port out of service" in told


@pytest.mark.parametrize(("resent", "ok"), [(95, True), (342, True), (94, False)])
def test_a_port_out_of_service_excuses_more_retransmissions_but_not_fewer(resent: int, ok: bool) -> None:
    flow = msgspec.structs.replace(FLOW, retransmissions=resent)
    said = detected_of(concluded(LINK), {LINK})
    checks = {each.name: each for each in checks_of(Expectation(), {LINK}, said, (flow,), (DROP,), outages=(OUTAGE,))}
    check = checks["retransmissions match the drops"]
    assert check.ok is ok
    assert ("more is no fault here" in check.detail) is (resent > 105)
