import pytest

from agent.core.timeouts import OutstandingProbe, OutstandingProbes, RetryTimer

MS = 1_000_000


def asked(row, at_ms, where=0, tag=0):
    return OutstandingProbe(row, at_ms * MS, tag, where)


def test_an_answer_in_time_is_told_with_its_question():
    probes = OutstandingProbes(10 * MS)
    probes.sent(7, asked(3, 0, tag=99))
    assert probes.deadline_ns == 10 * MS
    assert probes.answered(7, 4 * MS) == (asked(3, 0, tag=99), True)
    assert probes.deadline_ns is None
    assert probes.answered(7, 5 * MS) is None, "once"


def test_what_waits_too_long_is_given_up_once():
    probes = OutstandingProbes(10 * MS)
    probes.sent(7, asked(3, 0))
    assert probes.overdue(10 * MS - 1) == []
    assert probes.overdue(10 * MS) == [asked(3, 0)]
    assert probes.overdue(11 * MS) == []


def test_a_late_answer_makes_the_next_be_waited_for_twice_as_long_there_and_nowhere_else():
    probes = OutstandingProbes(10 * MS)
    probes.sent(1, asked(3, 0, where=3))
    probes.overdue(10 * MS)
    assert probes.answered(1, 15 * MS) == (asked(3, 0, where=3), False)
    probes.sent(2, asked(3, 20, where=3))
    probes.sent(3, asked(4, 20, where=4))
    assert probes.overdue(30 * MS) == [asked(4, 20, where=4)]
    assert probes.overdue(50 * MS - 1) == []
    assert probes.overdue(50 * MS) == [asked(3, 20, where=3)]


def test_patience_fades_when_answers_come_sooner():
    probes = OutstandingProbes(10 * MS)
    for number in range(40):
        sent_ms = 100 * number
        probes.sent(number, asked(0, sent_ms))
        probes.answered(number, (sent_ms + (9 if number == 0 else 1)) * MS)
    probes.sent(99, asked(0, 5000))
    assert probes.deadline_ns == 5010 * MS


def test_no_patience_is_without_end_and_what_was_given_up_is_forgotten():
    probes = OutstandingProbes(10 * MS)
    probes.sent(1, asked(0, 0))
    probes.overdue(10 * MS)
    assert probes.answered(1, 5000 * MS) is not None
    probes.sent(2, asked(0, 6000))
    assert probes.deadline_ns == 6160 * MS
    probes.overdue(6160 * MS)
    probes.sent(3, asked(0, 7000))
    probes.overdue(7160 * MS)
    assert probes.answered(2, 7161 * MS) is None


def waits(timer, count):
    """Intervals until the timer is exhausted, at most `count`."""
    now, seen = 0, []
    timer.arm(now)
    while len(seen) < count and not timer.exhausted:
        seen.append(timer.deadline_ns - now)
        now = timer.deadline_ns
        timer.on_timeout(now)
    return seen


def test_fixed_intervals_then_doubling_then_exhaustion():
    assert waits(RetryTimer(10, 3, 3), 99) == [10, 10, 10, 10, 20, 40, 80]


def test_twenty_five_doublings_mean_never():
    assert waits(RetryTimer(10, 0, 25), 40) == [10, 20, 40, 80, 160, 320, 640, *[1280] * 33]


@pytest.mark.parametrize("exp", [7, 8, 24])
def test_each_doubling_is_made_however_many_there_are(exp):
    assert waits(RetryTimer(10, 0, exp), 99) == [10 << doublings for doublings in range(exp + 1)]


@pytest.mark.parametrize(("linear", "exp"), [(0, 0), (7, 24), (1, 0)])
def test_all_retries_are_used(linear, exp):
    assert len(waits(RetryTimer(10, linear, exp), 99)) == linear + exp + 1


def test_progress_gives_the_retries_back():
    timer = RetryTimer(10, 1, 1)
    waits(timer, 2)
    timer.on_progress()
    assert timer.retries == 0
    assert timer.interval_ns == 10


def test_a_packet_just_sent_is_not_late_before_the_default_interval_is_over():
    timer = RetryTimer(10, 0, 8)
    waits(timer, 5)
    assert timer.interval_ns == 320
    timer.arm(1000)
    assert timer.deadline_ns <= 1010


def test_what_waited_half_an_interval_is_doubted():
    timer = RetryTimer(10, 3, 3)
    timer.on_timeout(100)
    assert timer.doubt_ns == 95
    timer.disarm()
    assert (timer.doubt_ns, timer.deadline_ns) == (None, None)


def test_timeouts_are_a_default_interval_apart():
    timer = RetryTimer(10, 3, 3)
    timer.on_timeout(100)
    timer.look_at(103)
    assert timer.deadline_ns == 110
    timer.look_at(130)
    assert timer.deadline_ns == 130


def test_packets_that_time_out_as_often_use_one_retry_together():
    timer = RetryTimer(10, 3, 3)
    for now_ns, in_a_row in ((10, 1), (20, 1), (30, 2), (40, 1), (50, 2)):
        timer.on_timeout(now_ns, in_a_row)
    assert timer.retries == 2
