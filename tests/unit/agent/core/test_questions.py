from agent.core.questions import Question, Questions

MS = 1_000_000


def asked(row, at_ms, where=0, tag=0):
    return Question(row, at_ms * MS, tag, where)


def test_an_answer_in_time_is_told_with_its_question():
    questions = Questions(10 * MS)
    questions.ask(7, asked(3, 0, tag=99))
    assert questions.deadline_ns == 10 * MS
    assert questions.answered(7, 4 * MS) == (asked(3, 0, tag=99), True)
    assert questions.deadline_ns is None
    assert questions.answered(7, 5 * MS) is None, "once"


def test_what_waits_too_long_is_given_up_once():
    questions = Questions(10 * MS)
    questions.ask(7, asked(3, 0))
    assert questions.overdue(10 * MS - 1) == []
    assert questions.overdue(10 * MS) == [asked(3, 0)]
    assert questions.overdue(11 * MS) == []


def test_a_late_answer_makes_the_next_be_waited_for_twice_as_long_there_and_nowhere_else():
    questions = Questions(10 * MS)
    questions.ask(1, asked(3, 0, where=3))
    questions.overdue(10 * MS)
    assert questions.answered(1, 15 * MS) == (asked(3, 0, where=3), False)
    questions.ask(2, asked(3, 20, where=3))
    questions.ask(3, asked(4, 20, where=4))
    assert questions.overdue(30 * MS) == [asked(4, 20, where=4)]
    assert questions.overdue(50 * MS - 1) == []
    assert questions.overdue(50 * MS) == [asked(3, 20, where=3)]


def test_patience_fades_when_answers_come_sooner():
    questions = Questions(10 * MS)
    for number in range(40):
        sent_ms = 100 * number
        questions.ask(number, asked(0, sent_ms))
        questions.answered(number, (sent_ms + (9 if number == 0 else 1)) * MS)
    questions.ask(99, asked(0, 5000))
    assert questions.deadline_ns == 5010 * MS


def test_no_patience_is_without_end_and_what_was_given_up_is_forgotten():
    questions = Questions(10 * MS)
    questions.ask(1, asked(0, 0))
    questions.overdue(10 * MS)
    assert questions.answered(1, 5000 * MS) is not None
    questions.ask(2, asked(0, 6000))
    assert questions.deadline_ns == 6160 * MS
    questions.overdue(6160 * MS)
    questions.ask(3, asked(0, 7000))
    questions.overdue(7160 * MS)
    assert questions.answered(2, 7161 * MS) is None
