"""A run's folder as a gray-link run leaves it, written by the program's own writers, without a run."""

from pathlib import Path
from typing import Any

import msgspec

from results.files.event_log import timestamp, write_records
from results.files.run_dir import RunDir
from results.metrics import totals_of
from results.records.manifest import Manifest, Repeating, manifest, topology_document
from results.records.perf_rows import CollectiveRow, Cost, Times
from results.records.witnesses import MRC, UNIFORM, Witness, WitnessedLink
from results.summary import (
    Accusation,
    Check,
    Detected,
    FlowResult,
    Injected,
    Load,
    Reordering,
    StageTime,
    Summary,
    summary_json,
    summary_text,
)
from scenarios.isolated import own_code
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(2, 8, 8, 1))
LINK = "p0:leaf3>spine5"
ZERO_NS = 5_000_000_000_000
"""The first packet."""
SECOND = 1_000_000_000
PATH_PACKETS = 4096

Record = dict[str, Any]


def record(event: str, node: str, after_s: float, **fields: Any) -> Record:
    """One record so many seconds after the first packet."""
    mono_ns = ZERO_NS + int(after_s * SECOND)
    head = {"ts": timestamp(1_700_000_000_000_000_000 + mono_ns), "mono_ns": mono_ns, "v": 1}
    return head | {"event": event, "node": node} | fields


def detect_records(fabric: Fabric = FABRIC, short: str | None = LINK) -> list[Record]:
    """Verdicts on the flows of strides 1 and 3, those over `p0:leaf3>spine5` failed if that link is `short`."""
    spec = fabric.spec
    found = []
    for plane in range(spec.planes):
        for src in range(spec.leaves):
            for dst in ((src + stride) % spec.leaves for stride in (1, 3)):
                for spine in range(spec.spines):
                    failed = short is not None and (plane, src, spine) == (0, 3, 5)
                    told = {"epoch": 1, "plane": plane, "spine": spine, "src_leaf": src, "dst_leaf": dst}
                    told |= {"src_host": src, "dst_host": dst, "qpn": dst << 12 | 1, "N": 8 * PATH_PACKETS, "k": 8}
                    told |= {"lambda": float(PATH_PACKETS), "count": PATH_PACKETS - 40 * failed, "late": 0}
                    told |= {"threshold": 4089.6, "s": 0.1, "snr": 0.64, "p_value": 0.5, "miss": 1e-9, "reason": None}
                    told |= {"expectation": "uniform", "trimmed": 0, "again": 0, "flagged": failed}
                    told["verdict"] = "failed" if failed else "healthy"
                    found.append(record("DETECT", f"p{plane}-leaf{dst}", 5.9, **told))
    found += _conclusions(fabric, short)
    links = [short] if short else []
    said = {"epoch": 1, "state": "named" if links else "none", "links": links, "candidates": [], "evidence": []}
    said |= {"expectation": "uniform", "estimates": [], "deciding": [], "common": [], "common_candidates": []}
    found.append(record("LOCALIZE", "monitor", 5.95, **said, pending=0, insufficient=0, first_named_ns=None))
    return found


def _conclusions(fabric: Fabric, short: str | None) -> list[Record]:
    """What is concluded of all paths and links of these flows."""
    spec, found = fabric.spec, list[Record]()
    head = {"epoch": 1, "expectation": "uniform", "p_value": 0.5, "reason": None}
    ends = [(leaf, (leaf + stride) % spec.leaves) for leaf in range(spec.leaves) for stride in (1, 3)]
    for plane in range(spec.planes):
        for spine in range(spec.spines):
            for src, dst in ends:
                failed = short is not None and (plane, src, spine) == (0, 3, 5)
                told = {"plane": plane, "src_leaf": src, "spine": spine, "dst_leaf": dst, "by": "flow", "flows": 1}
                told |= {"lambda": float(PATH_PACKETS), "count": PATH_PACKETS - 40 * failed}
                found.append(record("PATH", "monitor", 5.9, **head, **told, verdict="failed" if failed else "healthy"))
    ways = (str(way) for link in fabric.links() for way in link.directions if "spine" in str(way))
    for name in ways:
        verdict = "failed" if name == short else "healthy"
        found.append(record("LINK", "monitor", 5.9, **head, link=name, verdict=verdict, flows=2, miss=1e-9))
    return found


def truth_records() -> list[Record]:
    """One drop of 1 % from before the first packet to the end."""
    told = {"link": LINK, "interface": "spine5", "kind": "random-drop", "fault": "drop 1%", "mechanism": "ebpf"}
    counts = {"seen": 8194, "dropped": 80, "dropped_writes": 80, "hit": 80, "passed": 8194, "overlimits": 0}
    set_ = {"fault_in_force": "drop 1.0000000009%", "only": "", "requested": 0.01, "in_force": 0.01, "by": "scenario"}
    set_["fault_seed"] = 7
    return [
        record("FAULT_SET", "p0-leaf3", -1.0, **told, **set_),
        record("FAULT_CLEAR", "p0-leaf3", 6.2, **told, **counts, dropped_reverse=None, by="scenario", set_mono_ns=0),
    ]


def agent_records(losses: int = 80) -> list[Record]:
    """Losses over the failed link, seen by its senders, and a change of state of one entropy value."""
    found = [
        record("LOSS", "h3", 6.0 * at / losses, qpn=0x3001, packets=1, evs={"0xc0001005": 1}) for at in range(losses)
    ]
    change = {"qpn": 0x3001, "state": "ASSUMED_BAD", "signal": "LOST", "evs": ["0xc0001005"], "sent": [70]}
    return [
        *found,
        record("EV_STATE", "h3", 2.0, **change),
        record("PORT", "h3", 3.0, qpn=0x3001, side="local", up=[], down=[1]),
    ]


OPENED = record("QP_STATE", "h3", -0.5, qpn=0x3001, old="RESET", new="INIT")
"""What agents tell of every run."""

_COUNTED = ("packets_sent", "softnet_drops", "ring_drops", "tx_errors", "overlimits", "faults_dropped")


def counter_records(flows: int = 16, every_s: float = 0.25) -> list[Record]:
    """Progress and load of six seconds."""
    found = []
    for at in range(int(6 / every_s) + 1):
        share = at * every_s / 6
        acked = [int(share * (16 << 20))] * flows
        found.append(record("PROGRESS", "runner", at * every_s, acked_bytes=acked, resent=[int(80 * share)] * flows))
    for at in range(1, 7):
        told = {"packets_per_s": 170_000.0, "cpu_busy_share": 0.97, "sched_wait_share": 0.06, "outstanding_bytes": 1}
        told |= dict.fromkeys(_COUNTED, 0)
        found.append(record("LOAD", "runner", at, **told))
    return found


def summary_of(name: str, outcome: str = "pass", link: str | None = LINK) -> Summary:
    """A summary that fits the records; `link` None for a healthy run."""
    flows = tuple(
        FlowResult(
            f"h{src}", f"h{(src + stride) % 8}", src << 12 | stride, "RTS", 16 << 20, 16 << 20, 65536,
            40 if src == 3 else 0, 0, 6.0, 22e6, 16 << 20, 0, Reordering(32768, (0, 20, 300, 32448), 15),
        )
        for stride in (1, 3) for src in range(8)
    )  # fmt: skip
    injected = Injected(LINK, "random-drop", 0.01, 0.01, "ebpf", "scenario", 8194, 80, 80, 80, "1%", "1%")
    named = Accusation(LINK, "spraycheck", ("p0-leaf4", "p0-leaf6"), 5.95, True)
    verdicts = {"healthy": 254, "failed": 2} if link else {"healthy": 256}
    overloaded = outcome == "overloaded"
    return Summary(
        v=1, run=name, scenario="gray-link", seed=1, outcome=outcome, fabric="8x8x2, 1 host a leaf", folder=name,
        totals=totals_of(flows, 6 * SECOND), flows=flows, injected=(injected,) if link else (),
        detected=Detected("named" if link else "none", (named,) if link else (), (), (), verdicts, 256, 1.0, 1.0),
        checks=(Check("the right links are named", outcome == "pass", f"{link or 'no link'} and no other"),),
        load=Load(overloaded, ("ring drops",) if overloaded else (), 7 if overloaded else 0, 0, 0, 0, 4, 0.06),
        captures=(), stages=(StageTime("plan", 0.1),), first_packet_mono_ns=ZERO_NS, witnesses=witnesses(link),
    )  # fmt: skip


ROUNDS = CollectiveRow(
    "all-reduce", None, (("h0", "h1", "h2", "h3"),), 1, 8 << 20, 2 << 20, "float", "sum", -1, 10, 688_877.6,
    12_177_209.0, 18_265_814.0, 0, 8 << 20,
    Times(650_000.0, 690_123.4, 689_000.0, 731_000.0, 731_000.0), Cost(540_702, 0, 0),
)  # fmt: skip
BARRIER_BYTES = 5


def collective_flows() -> tuple[FlowResult, ...]:
    """Around a ring of four, and two queue pairs of barriers for each that carries data."""
    data = 132 << 20
    ways = [(host, (host + 1) % 4, data, False) for host in range(4)]
    ways += [(0, host, BARRIER_BYTES, True) for host in (2, 3)] + [(host, 0, BARRIER_BYTES, True) for host in (1, 2)]
    ways += [(0, 3, BARRIER_BYTES, True)] * 4
    return tuple(
        FlowResult(
            f"h{src}", f"h{dst}", dst << 12 | src, "RTS", size, size, size // 1024 + 5 * barrier, 0, 0, 6.0,
            size * 8 / 6, 0, 0, Reordering(1, (1,), 1), "all-reduce", is_barrier=barrier,
        )
        for src, dst, size, barrier in ways
    )  # fmt: skip


def write_collective_run(path: Path, rounds: CollectiveRow | None = ROUNDS) -> RunDir:
    """The folder of a healthy all-reduce; without `rounds` of one that did not end."""
    run = write_run(path, link=None)
    flows = collective_flows()
    summary = msgspec.structs.replace(
        summary_of(path.name, link=None),
        scenario="all-reduce",
        flows=flows,
        totals=totals_of(flows, 6 * SECOND),
        collectives=() if rounds is None else (rounds,),
    )
    run.summary.write_bytes(summary_json(summary))
    run.counters.write_bytes(b"")
    done = [[each.acked_bytes * at // 24 for each in flows] for at in range(25)]
    told = (record("PROGRESS", "runner", at / 4, acked_bytes=acked, resent=[0] * 12) for at, acked in enumerate(done))
    write_records(run.counters, list(told), path.name, 1)
    return run


def witnesses(link: str | None) -> tuple[Witness, ...]:
    """MRC without events, and SprayCheck that named the link."""
    found = 1.0 if link else None
    named = (WitnessedLink(link, True, 5.95, 2 * PATH_PACKETS, 2),) if link else ()
    mute = "no events (loss policy off)"
    state, told = ("named", (5.95, 2 * PATH_PACKETS)) if link else ("none", (None, None))
    return (
        Witness(
            MRC, False, "silent", (), (), (link,) if link else (), 0, None, 0.0 if link else None, None, None, mute
        ),
        Witness(UNIFORM, True, state, named, (), (), 0, found, found, *told),
    )


def environment() -> Manifest:
    repeating = Repeating(("payload bytes",), ("timing",))
    return manifest(
        "2026-03-04T05:06:07.000000Z", ("spraylab", "run", "gray-link"), "gray-link", 1, repeating, code=own_code()
    )


SCENARIO = "version: 1\nname: gray-link\ndescription: One link drops 1 % in one direction.\nseed: 1\n"


def write_run(path: Path, outcome: str = "pass", link: str | None = LINK) -> RunDir:
    """The folder of a gray-link run, or of a healthy one."""
    path.mkdir(parents=True)
    run = RunDir(path)
    run.scenario.write_text(SCENARIO)
    run.environment.write_bytes(msgspec.json.encode(environment()))
    run.topology.write_bytes(msgspec.json.encode(topology_document(FABRIC, "lab")))
    summary = summary_of(path.name, outcome, link)
    run.summary.write_bytes(summary_json(summary))
    run.summary_text.write_text(summary_text(summary))
    for file, records in (
        (run.truth, truth_records() if link else []),
        (run.detect, detect_records(short=link)),
        (run.agent, [OPENED, *(agent_records() if link else [])]),
        (run.counters, counter_records()),
    ):
        write_records(file, records, path.name, 1)
        file.touch()
    return run
