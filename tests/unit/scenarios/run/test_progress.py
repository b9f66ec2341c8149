"""Samples of a run: shares and rates are since the one before, every line is a record of the run."""

from pathlib import Path

from results.files.event_log import read_records
from scenarios.run.progress import PROGRESS_EVERY_S, Samples, softnet_drops, waits, waits_text
from scenarios.workload.traffic import FlowProgress, PortCounts, RejectedCount, WorkerCounts
from tests.support.run_schemas import problems_in


def flow(sent: int, timeouts: int = 0) -> FlowProgress:
    return FlowProgress(0, 1, "RTS", 1000, 400, sent, 1, 0, timeouts, None, None)


def acked(count: int) -> FlowProgress:
    return FlowProgress(0, 1, "RTS", 100, count, 9, count // 10, 0, 0, 1, 2 if count == 100 else None)


def worker(ran: int, waited: int) -> WorkerCounts:
    rejected = RejectedCount(2, "BAD_ICRC", 5), RejectedCount(2, "ANNOUNCEMENT", 70)
    return WorkerCounts((PortCounts(0, 0, 2, 3),), ran, waited, (), rejected=rejected)


def test_shares_are_of_the_time_between_two_samples() -> None:
    first, second = [(1000, 9000), (0, 0)], [(1300, 9100), (100, 100)]
    assert waits([], first) == {"sched_wait_share": None, "sched_wait_worst": None}
    assert waits(first, second) == {"sched_wait_share": round(200 / 600, 4), "sched_wait_worst": 0.5}
    assert waits(second, second) == {"sched_wait_share": 0.0, "sched_wait_worst": 0.0}


def test_a_sample_is_a_record_of_its_run(tmp_path: Path) -> None:
    samples = Samples(tmp_path / "counters.jsonl", "20260304T050607Z-x-7", 7)
    assert samples.due()
    samples.take([flow(100)], [worker(10, 10)], ())
    assert not samples.due()
    assert not samples.due(ended=True), "too soon to say anything"
    samples.take([flow(300, timeouts=2)], [worker(20, 40)], ())
    first, second = read_records(samples.path)
    assert problems_in("counters.jsonl", [first, second]) == []
    assert (first["run"], first["seed"], first["event"]) == ("20260304T050607Z-x-7", 7, "LOAD")
    assert (first["packets_per_s"], first["cpu_busy_share"], first["sched_wait_share"]) == (None, None, None)
    assert (second["packets_sent"], second["timeouts"], second["ring_drops"], second["tx_errors"]) == (301, 2, 2, 3)
    assert second["packets_per_s"] > 0
    assert second["rejected"] == [{"host": "h2", "reason": "BAD_ICRC", "packets": 5}]
    assert (second["sched_wait_share"], second["sched_wait_worst"]) == (0.75, 0.75)


def test_progress_is_noted_now_and_then_and_at_the_end(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("scenarios.run.progress.time.monotonic", lambda: now[0])
    samples = Samples(tmp_path / "counters.jsonl", "x-7", 7)
    for passed, done in ((0, 0), (0.1, 10), (PROGRESS_EVERY_S, 20), (0.01, 30), (0.01, 100)):
        now[0] += passed
        samples.note_progress([acked(done), acked(100)], ended=done == 100)
    records = list(read_records(tmp_path / "counters.jsonl"))
    assert problems_in("counters.jsonl", records) == []
    assert [record["event"] for record in records] == ["PROGRESS"] * 3
    assert [record["acked_bytes"] for record in records] == [[0, 100], [20, 100], [100, 100]]
    assert (records[-1]["resent"], records[-1]["run"]) == ([10, 10], "x-7")


def waiting_flow(in_flight: int = 0, *, ended: bool = False, silent: tuple[int, ...] = ()) -> FlowProgress:
    done = 9 if ended else None
    return FlowProgress(0, 1, "RTS", 99, 9, 9, 0, 0, 0, 1, done, in_flight_pkts=in_flight, silent_evs=silent)


def test_it_names_the_flows_the_packets_and_the_silent_paths() -> None:
    progress = [waiting_flow(ended=True), waiting_flow(16, silent=(0xC0001006,)), waiting_flow(1)]
    assert waits_text(["h0>h1", "h2>h3", "h4>h5"], progress, 3.4) == (
        "nothing acknowledged for 3 s; h2>h3, h4>h5 wait for 17 packets; nothing comes back over plane 0 spine 6"
    )


def test_one_flow_whose_data_has_arrived_waits_for_its_ack() -> None:
    told = waits_text(["h0>h1"], [waiting_flow()], 1)
    assert told == "nothing acknowledged for 1 s; h0>h1 waits for the ACK of what has arrived"


def test_many_flows_are_counted_and_those_that_have_not_begun_are_not() -> None:
    progress = [waiting_flow(1)] * 6 + [FlowProgress(0, 1, "RTS", 0, 0, 0, 0, 0, 0, None, None)]
    told = waits_text([f"h{n}>h9" for n in range(7)], progress, 2)
    assert told == "nothing acknowledged for 2 s; h0>h9, h1>h9, h2>h9 and 3 more flows wait for 6 packets"
    assert waits_text(["h6>h9"], progress[6:], 2) == ""


def test_softnet_drops_can_be_read_here() -> None:
    assert softnet_drops() >= 0
