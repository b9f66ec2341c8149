"""What a run notes of its flows' progress while it waits."""

from results.event_log import read_records
from scenarios.samples import PROGRESS_EVERY_S, Samples
from scenarios.traffic import FlowProgress


def flow(acked: int) -> FlowProgress:
    return FlowProgress(0, 1, "RTS", 100, acked, 9, acked // 10, 0, 0, 1, None)


def test_progress_is_noted_now_and_then_and_at_the_end(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("scenarios.samples.time.monotonic", lambda: now[0])
    samples = Samples(tmp_path / "counters.jsonl")
    for passed, acked in ((0, 0), (0.1, 10), (PROGRESS_EVERY_S, 20), (0.01, 30), (0.01, 100)):
        now[0] += passed
        samples.note_progress([flow(acked), flow(100)])
    records = list(read_records(tmp_path / "counters.jsonl"))
    assert [record["event"] for record in records] == ["PROGRESS"] * 3
    assert [record["acked_bytes"] for record in records] == [[0, 100], [20, 100], [100, 100]]
    assert records[-1]["resent"] == [10, 10]
