"""Packets that agents do not believe: each reason has its words, what passes by is none of them, many are summed up."""

from agent.host.records.process_counters import _counted
from agent.wire.validate.rules import RejectReason
from results.records.rejected import PASSES_BY, REASONS, SHOWN_ROWS, Rejected, rejected_lines, rejected_since
from tests.unit.agent.host.test_commands import Worker


def test_each_reason_has_its_words() -> None:
    worker = Worker()
    worker.write(0, 1, 1000)
    of_host = set(_counted(worker.commands.engine.hosts[0]))
    of_wire = {reason.name for reason in RejectReason} - {"ACCEPTED"}
    assert set(REASONS) == (of_wire | of_host) - {PASSES_BY}


def test_what_passes_by_and_what_was_there_before_is_left_out() -> None:
    before = {(1, "BAD_ICRC"): 4, (2, "BAD_ICRC"): 1, (3, "UNKNOWN_QP"): 9}
    after = {(10, "NOT_MRC"): 2, (2, "BAD_ICRC"): 1, (1, "BAD_ICRC"): 6, (1, PASSES_BY): 80, (3, "UNKNOWN_QP"): 0}
    assert rejected_since(before, after) == (Rejected("h1", "BAD_ICRC", 2), Rejected("h10", "NOT_MRC", 2))


def test_few_rows_have_a_line_each_and_many_a_line_a_reason() -> None:
    rows = [Rejected(f"h{host}", "BAD_ICRC", 1000) for host in range(SHOWN_ROWS)]
    assert len([*rejected_lines(rows)]) == SHOWN_ROWS
    more = [*rows, Rejected("h0", "UNKNOWN_QP", 1)]
    assert [*rejected_lines(more)] == [
        "8 hosts: 8,000 packets with a wrong ICRC (BAD_ICRC)",
        "1 host: 1 packet for a queue pair that does not exist (UNKNOWN_QP)",
    ]
