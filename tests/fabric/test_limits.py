"""What a run keeps has limits, and what had to go is told."""

from pathlib import Path

import pytest

from results.captures.reader import PcapFile
from results.files.event_log import read_records
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import own_lab

pytestmark = [pytest.mark.root, needs_root]

SCENARIO = """
version: 1
name: limited
transport: {pmtu: 256, ack_timeout_ms: 5000}
workloads:
  - {type: write, strides: [1, 2, 3], packets: 8192, message_bytes: 256KiB}
capture: ["p0:leaf0-spine0"]
events: detail
limits: {events: 64KiB, captures: 200KiB, snaplen: 100}
expect: {detection: recorded}
"""


def test_events_and_captures_end_at_their_limits_and_say_so(tmp_path: Path) -> None:
    scenario = tmp_path / "limited.yaml"
    scenario.write_text(SCENARIO)
    with own_lab(tmp_path / "runs") as lab:
        lab("up", "--planes", "1", "--leaves", "2", "--spines", "2", "--hosts-per-leaf", "2")
        run = lab.start("run", "--attach", str(scenario))
        said, errors = run.communicate(timeout=120)
        assert run.returncode in (0, 5), errors
        folder = (lab.runs / "latest").resolve()
        records = list(read_records(folder / "agent.jsonl"))
        assert sum(record["event"] == "EVENTS_CUT" for record in records) >= 1
        assert (folder / "agent.jsonl").stat().st_size < (64 << 10) * 1.5 + 60_000, "with the counters of the end"
        assert "records of agents are not in agent.jsonl, the oldest" in said
        for file in (folder / "pcap").iterdir():
            assert 100 << 9 < file.stat().st_size <= 100 << 10
            with file.open("rb") as opened:
                assert max(len(packet.data) for packet in PcapFile(opened, file)) == 100
        assert said.count(" packets of up to 100 bytes, 0 dropped by the kernel") == 2
        assert said.count("FULL") == 2
        after = lab.json("capture", "start", "p0:leaf0-spine0", "--snaplen", "80", "--most", "64KiB")
        assert [(capture["snaplen"], capture["full"]) for capture in after] == [(80, False)] * 2
        assert [capture["snaplen"] for capture in lab.json("capture", "stop")] == [80, 80]
