"""What the journal tells of a lab whose owner died."""

from faults.records import Journal, JournalLine, outstanding


def line(act, link="p0:leaf3>spine5", requested="drop 1%", name="drop"):
    return JournalLine(
        ts="2026-01-01T00:00:00.000000Z",
        act=act,
        link=link,
        kind="random-drop",
        name=name,
        requested=requested,
        mechanism="ebpf",
        namespace="spraylab-lab-p0-leaf3",
        interface="spine5",
    )


def test_what_was_not_cleared_may_be_in_force(tmp_path):
    journal = Journal(tmp_path / "faults.jsonl")
    for each in (
        line("applying"),
        line("in-force"),
        line("applying", "p0:leaf1>spine1"),
        line("cleared"),
        line("applying", "p1:leaf2>spine2"),
        line("in-force", "p1:leaf2>spine2"),
    ):
        journal.write(each)
    assert [(each.link, each.act) for each in outstanding(journal.path)] == [
        ("p0:leaf1>spine1", "applying"),
        ("p1:leaf2>spine2", "in-force"),
    ]


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path):
    journal = Journal(tmp_path / "faults.jsonl")
    journal.write(line("in-force"))
    journal.path.write_bytes(journal.path.read_bytes() + b'{"ts":"2026-01')
    assert [each.act for each in outstanding(journal.path)] == ["in-force"]


def test_no_journal_no_faults(tmp_path):
    assert outstanding(tmp_path / "absent") == ()


def test_faults_of_one_link_are_told_apart_by_name(tmp_path):
    journal = Journal(tmp_path / "faults.jsonl")
    for each in (line("in-force"), line("in-force", name="delay"), line("cleared")):
        journal.write(each)
    assert [each.name for each in outstanding(journal.path)] == ["delay"]
