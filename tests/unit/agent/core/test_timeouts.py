from agent.core.outstanding_probes import OutstandingProbe, OutstandingProbes

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
