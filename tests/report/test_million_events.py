"""A run with a million events is reported in seconds and little memory."""

import json
import subprocess
import sys

import msgspec

from tests.support.run_folder import agent_records, record, write_run

EVENTS = 1_000_000
MOST_CPU_S = 10.0
MOST_MIB = 500

SCRIPT = """
import json, resource, sys
from pathlib import Path
from results.report.page import write_report
from results.files.run_dir import RunDir
data = write_report(RunDir(Path(sys.argv[1])))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, sum(data.agents.events.values())]))
"""


def test_a_million_events(tmp_path):
    run = write_run(tmp_path / "long")
    lines = [msgspec.json.encode(one) + b"\n" for one in agent_records(1000)[:1000]]
    change = {"qpn": 1, "state": "GOOD", "signal": "probe", "evs": ["0xc0001005"]}
    lines += [msgspec.json.encode(record("EV_STATE", "h3", 5.0, **change)) + b"\n"] * 1000
    with run.agent.open("wb") as file:
        for _ in range(EVENTS // len(lines)):
            file.writelines(lines)
    done = subprocess.run((sys.executable, "-c", SCRIPT, str(run.path)), check=True, capture_output=True, text=True)
    cpu_s, mib, events = json.loads(done.stdout)
    assert events == EVENTS
    assert cpu_s < MOST_CPU_S, f"{cpu_s:.1f} s of CPU time"
    assert mib < MOST_MIB, f"{mib:.0f} MiB"
    assert "995,000 changes" in run.report.read_text().replace("the first 5,000 changes", "995,000 changes")
