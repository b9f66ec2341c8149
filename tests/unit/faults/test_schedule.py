"""Timelines: every edge at its time, in order, once; events start and end them."""

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.kinds import Down, Flap, Reboot
from faults.schedule import Due, Next, Schedule, edges_of
from faults.timing import ALWAYS, Act, Edge, Event, Timing

S = 10**9


def edges(fault, timing=ALWAYS, seed=1, count=20):
    return [(edge.after_ns, edge.act.value) for edge in islice(edges_of(fault, timing, seed), count)]


def test_windows():
    assert edges(Down()) == [(0, "set")]
    assert edges(Down(), Timing(at_ns=3, for_ns=2)) == [(3, "set"), (5, "clear")]
    assert edges(Down(), Timing(1, 2, 10, 2)) == [(1, "set"), (3, "clear"), (11, "set"), (13, "clear")]
    assert len(edges(Down(), Timing(1, 2, 10))) == 20


def test_a_reboot_ends_by_itself():
    assert edges(Reboot(5)) == [(0, "set"), (5, "clear")]
    assert edges(Reboot(5), Timing(at_ns=2, for_ns=1)) == [(2, "set"), (3, "clear")]


def test_a_flap_is_down_for_its_duty_and_ends_with_its_count_or_window():
    assert edges(Flap(10, Fraction(3, 10), 2)) == [(0, "set"), (3, "clear"), (10, "set"), (13, "clear")]
    assert edges(Flap(10, Fraction(1, 2)), Timing(for_ns=12)) == [(0, "set"), (5, "clear"), (10, "set"), (12, "clear")]


@given(st.integers(0, 2**32), st.integers(1, 99), st.integers(100, S))
def test_jitter_keeps_edges_in_order_and_near(seed, percent, period):
    duty = Fraction(percent, 100)
    jitter = int(period * min(duty, 1 - duty) / 2) - 1
    flap = Flap(period, duty, 10, max(jitter, 0))
    found = edges(flap, seed=seed)
    assert found == edges(flap, seed=seed)
    assert [act for _, act in found] == ["set", "clear"] * 10
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    for turn in range(10):
        assert abs(found[2 * turn][0] - turn * period) <= max(jitter, 0)
        assert abs(found[2 * turn + 1][0] - (turn * period + int(period * duty))) <= max(jitter, 0)


def test_what_begins_with_an_event_is_set_right_before_it_and_counts_from_it():
    schedule = Schedule()
    schedule.add("at once", Down(), Timing(at_ns=0, for_ns=10, on=Event.TRAFFIC), 0, now_ns=100)
    schedule.add("for good", Down(), Timing(at_ns=0, on=Event.TRAFFIC), 0, now_ns=100)
    schedule.add("later", Down(), Timing(at_ns=5, for_ns=10, on=Event.TRAFFIC), 0, now_ns=100)
    assert schedule.ahead(Event.DETECTED, 200) == ()
    assert schedule.ahead(Event.TRAFFIC, 200) == (
        Due("at once", Act.SET, 200, False),
        Due("for good", Act.SET, 200, True),
    )
    assert schedule.ahead(Event.TRAFFIC, 201) == (), "said once"
    assert schedule.due(10**9) == (), "no clock runs yet"
    assert schedule.next_of("at once") == Next(Act.CLEAR, None, Event.TRAFFIC)
    assert schedule.happened(Event.TRAFFIC, 500) == ()
    assert [(due.name, due.act, due.at_ns) for due in schedule.due(600)] == [
        ("later", Act.SET, 505),
        ("at once", Act.CLEAR, 510),
        ("later", Act.CLEAR, 515),
    ]


def test_what_is_due_is_said_once_never_early_and_in_order():
    schedule = Schedule()
    schedule.add("a", Down(), Timing(at_ns=5, for_ns=10), 0, now_ns=100)
    schedule.add("b", Down(), Timing(at_ns=6), 0, now_ns=100)
    assert schedule.next_ns() == 105
    assert schedule.due(104) == ()
    assert schedule.due(120) == (
        Due("a", Act.SET, 105, False),
        Due("b", Act.SET, 106, True),
        Due("a", Act.CLEAR, 115, True),
    )
    assert schedule.due(10**6) == ()
    assert schedule.next_ns() is None


def test_an_event_starts_what_waits_for_it():
    schedule = Schedule()
    schedule.add("a", Down(), Timing(at_ns=5, on=Event.TRAFFIC), 0, now_ns=0)
    assert (schedule.next_ns(), schedule.next_of("a")) == (None, Next(Act.SET, None, Event.TRAFFIC))
    assert schedule.waits_for(Event.TRAFFIC)
    assert schedule.happened(Event.DETECTED, 50) == ()
    schedule.happened(Event.TRAFFIC, 100)
    assert not schedule.waits_for(Event.TRAFFIC)
    assert schedule.next_of("a") == Next(Act.SET, 105, None)
    assert [due.at_ns for due in schedule.due(200)] == [105]


def test_until_detected_ends_only_what_is_named_and_in_force():
    schedule = Schedule()
    for name in ("a", "b", "c"):
        at = 1000 if name == "c" else None
        schedule.add(name, Down(), Timing(at_ns=at, until=Event.DETECTED), 0, now_ns=0)
    assert [due.name for due in schedule.due(1)] == ["a", "b"]
    assert schedule.happened(Event.DETECTED, 5, frozenset({"a", "c"})) == (Due("a", Act.CLEAR, 5, True),)
    assert schedule.happened(Event.DETECTED, 6, frozenset({"a"})) == ()
    assert schedule.waits_for(Event.DETECTED)
    assert schedule.next_of("b") == Next(Act.CLEAR, None, Event.DETECTED)
    assert schedule.next_of("c") == Next(Act.SET, 1000, None)
    schedule.drop("b")
    schedule.drop("c")
    assert not schedule.waits_for(Event.DETECTED)


def test_what_comes_first_is_told_with_both():
    schedule = Schedule()
    schedule.add("a", Down(), Timing(for_ns=50, until=Event.DETECTED), 0, now_ns=0)
    assert schedule.next_of("a") == Next(Act.SET, 0, None)
    schedule.due(1)
    assert schedule.next_of("a") == Next(Act.CLEAR, 50, Event.DETECTED)
    assert schedule.next_of("nobody") is None


@pytest.mark.parametrize("timing", [Timing(), Timing(for_ns=7), Timing(2, 3, 9, 4)])
def test_a_due_list_holds_all_edges(timing):
    schedule = Schedule()
    schedule.add("x", Down(), timing, 0, now_ns=0)
    due = [due for now_ns in range(100) for due in schedule.due(now_ns)]
    assert [Edge(each.at_ns, each.act) for each in due] == list(edges_of(Down(), timing, 0))
    assert not any(each.skipped for each in due)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.integers(1, 40), st.integers(1, 9))
def test_who_looks_late_is_told_the_present_state_in_two_edges_at_most(naps, times, length):
    timing = Timing(at_ns=3, for_ns=length, every_ns=length + 4, times=times)
    schedule, now, state, told = Schedule(), 0, Act.CLEAR, 0
    schedule.add("x", Down(), timing, 0, now_ns=0)
    for nap in naps:
        now += nap
        due = schedule.due(now)
        assert len(due) <= 2
        for each in due:
            assert each.act is not state, "set and clear take turns, also over what was left out"
            assert each.skipped % 2 == 0
            state, told = each.act, told + 1 + each.skipped
        passed = [edge for edge in edges_of(Down(), timing, 0) if edge.after_ns <= now]
        assert told == len(passed)
        assert state is (passed[-1].act if passed else Act.CLEAR)
