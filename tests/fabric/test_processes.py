"""A process for every host and every leaf, inside its namespace, concludes what shared ones do, and is missed."""

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from results.files.event_log import read_records
from testbed.kernel.netns import namespace_path
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

SCENARIO = """version: 1
name: processes
seed: 7
topology: {planes: 2, leaves: 3, spines: 2}
transport: {pmtu: 256, window_pkts: 256, ack_timeout_ms: 5000}
workloads: [{type: write, strides: [1, 2], packets: PACKETS, message_bytes: 64KiBPACE}]
faults: [{link: 'p0:leaf2>spine1', drop: 5%}]
detector: {min_rate: 5%, processes: PROCESSES}
"""
LEAVES = [f"p{plane}-leaf{leaf}" for plane in range(2) for leaf in range(3)]
ENGINES = {f"worker{host}": f"h{host}" for host in range(3)}


def test_a_process_a_host_and_a_leaf(tmp_path: Path) -> None:
    with own_lab(tmp_path) as lab:
        lab("up", "--planes", "2", "--leaves", "3", "--spines", "2", "--workers", "per-host")
        assert inside(lab) == ENGINES | {"spraycheck": ""}
        shared = concluded(lab, scenario(tmp_path, "shared"))
        assert concluded(lab, scenario(tmp_path, "per-leaf")) == shared
        assert shared["named"] == {"p0:leaf2>spine1"}
        assert len(shared["verdicts"]) == 6 * 2 * 2 * 2, "6 flows, 2 planes, 2 spines, 2 expectations"
        assert inside(lab) == ENGINES | {f"spraycheck-{leaf}": leaf for leaf in LEAVES} | {"spraycheck": ""}
        long = scenario(tmp_path, "per-leaf", packets=32768, pace=", rate: 4Mbit")
        a_leafs_process_that_stops_or_dies_is_named(lab, long)
        lab("down")
        assert lab.left() == []


def scenario(folder: Path, processes: str, packets: int = 4096, pace: str = "") -> str:
    file = folder / f"{processes}-{packets}.yaml"
    parts = {"PROCESSES": processes, "PACKETS": str(packets), "PACE": pace}
    file.write_text(re.sub("|".join(parts), lambda part: parts[part[0]], SCENARIO))
    return str(file)


def inside(lab: Lab) -> dict[str, str]:
    """By process of the lab, whose namespace it runs in: as `inspect` shows it, held against the kernel."""
    children = lab.json("inspect")["children"]
    for each in children:
        path = Path("/proc/self/ns/net") if not each["node"] else namespace_path(f"spraylab-{lab.name}-{each['node']}")
        assert os.path.samestat(path.stat(), os.stat(f"/proc/{each['process']['pid']}/ns/net")), each
    return {each["name"]: each["node"] for each in children}


def concluded(lab: Lab, file: str) -> dict[str, Any]:
    """What a run's detector says of each path and which links it names; every verdict and no other was expected."""
    summary = trusted(lab, "run", "--attach", file)
    records = list(read_records(Path(summary["folder"]) / "detect.jsonl"))
    keys = ("plane", "src_leaf", "dst_leaf", "spine", "src_host", "dst_host", "expectation")
    return {
        "verdicts": {
            tuple(each[key] for key in keys): each["verdict"] for each in records if each["event"] == "DETECT"
        },
        "named": {link for each in records if each["event"] == "LOCALIZE" for link in each["links"]},
        "owed": {each["expectation"]: each["pending"] for each in records if each["event"] == "LOCALIZE"},
    }


def a_leafs_process_that_stops_or_dies_is_named(lab: Lab, long: str) -> None:
    """By the run that needs it, within seconds, and by `detect`."""
    children = {each["name"]: each["process"]["pid"] for each in lab.json("inspect")["children"]}
    name = "spraycheck-p1-leaf1"
    pid = children[name]
    said = signalled(lab, long, pid, signal.SIGSTOP)
    assert f"{name} (process {pid}) is stopped" in said
    os.kill(pid, signal.SIGCONT)
    said = signalled(lab, long, pid, signal.SIGKILL)
    assert re.search(rf"{name} was killed by SIGKILL", said), said
    assert f"{name} killed by SIGKILL" in lab("detect", "--follow", code=4).stderr
    log = (lab.labdir.path / "spraycheck.log").read_text()
    assert f"SprayCheck on p1-leaf1 (process {pid}) has gone" in log


def signalled(lab: Lab, file: str, pid: int, number: signal.Signals) -> str:
    """What a run says that ends because a process got a signal while it went on."""
    run: subprocess.Popen[str] = lab.start("run", "--attach", file)
    assert run.stderr is not None
    assert any(line.startswith("traffic:") for line in run.stderr)
    os.kill(pid, number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 4, said
    return said
