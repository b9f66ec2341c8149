"""SprayCheck's data plane in the kernel: what is marked, counted by spine, where it stops, what the agent reads."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from agent.io.packet_ring import PacketRingPort, open_packet_ring
from agent.spraycheck import dataplane
from agent.spraycheck.counters import HashMap, KernelCounters
from agent.spraycheck.dataplane import FLOW, SUPERSEDED_KEY
from agent.spraycheck.errors import CountersError
from agent.wire.constants import BTH_RETRANSMISSION, SPRAYCHECK_MARK, Opcode
from agent.wire.dtypes import WRITE_FRAME, offset_of
from agent.wire.template import HostAddress, PortAddress
from testbed.kernel import bpf, qdisc
from testbed.kernel.qdisc import Direction
from testbed.kernel.rtnl import Rtnl
from testbed.model.addressing import host_address, ifindex_of, mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.ids import NodeId, PortId, Role
from tests.support.namespaces import built
from tests.support.veth_pair import End, veth_pair
from tests.support.wire_frames import DQPN, announcement, write_frames

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and eBPF"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF"),
]

FIRST_SPINE_IFINDEX = 100  # of end b of a pair
MARK_BYTE = offset_of(WRITE_FRAME, "bth", "var_res")


@pytest.fixture(scope="module")
def object_file(tmp_path_factory) -> Path:
    return bpf.build(dataplane.SOURCE, dataplane.headers(FIRST_SPINE_IFINDEX), tmp_path_factory.mktemp("bpf"))


@dataclass(frozen=True)
class Leaf:
    """Two wires from a to b: `from_host` where a's packets leave, `from_spine` where they arrive, wire = spine."""

    a: End
    b: End
    loaded: bpf.BpfObject
    counters: KernelCounters

    def flow(self) -> np.void:
        (record,) = self.counters.flows()
        return record

    def arrived(self) -> list[int]:
        return self.flow()["arrived"][:3].tolist()

    def late(self) -> list[int]:
        return self.flow()["late"][:3].tolist()


@pytest.fixture
def leaf(object_file) -> Iterator[Leaf]:
    with ExitStack() as held:
        a, b = held.enter_context(veth_pair(links=2))
        loaded = held.enter_context(bpf.load(object_file))
        for end, name, direction in (
            (a, dataplane.FROM_HOST, Direction.EGRESS),
            (b, dataplane.FROM_SPINE, Direction.INGRESS),
        ):
            with Rtnl.inside(end.name, end.path) as rtnl:
                for port in range(2):
                    qdisc.attach_program(rtnl, end.ifindex(port), direction, 1, loaded.program(name).fd, name)
        yield Leaf(a, b, loaded, held.enter_context(counters_of(loaded)))


@contextmanager
def heard(end: End, port: int = 0) -> Iterator[list[bytes]]:
    """Frames that arrive at a port inside the `with`, filled in at its end."""
    frames: list[bytes] = []
    with end.socket(port) as tap:
        tap.setblocking(False)
        yield frames
        while True:
            try:
                frames.append(tap.recv(4096))
            except BlockingIOError:
                return


def test_only_packets_of_announced_flows_are_marked_and_nothing_else_changes(leaf):
    flow = write_frames(range(5))
    other = write_frames(range(5), dqpn=0x5001)
    sack = write_frames([1], opcode=Opcode.SACK)
    short = [flow[0][:113], b"\x02" * 14]
    with heard(leaf.b) as before:
        leaf.a.send(flow)
    assert before == flow, "nothing is marked before the announcement"
    said = announcement(packets=5, start_psn=0, last_psn=4)
    with heard(leaf.b) as after:
        leaf.a.send([said, *flow, *write_frames([3], flags=BTH_RETRANSMISSION), *other, *sack, *short])
    assert after[0] == said
    marked = [
        frame[:MARK_BYTE] + bytes([frame[MARK_BYTE] | SPRAYCHECK_MARK]) + frame[MARK_BYTE + 1 :] for frame in flow
    ]
    assert after[1:6] == marked
    assert after[6][MARK_BYTE] == SPRAYCHECK_MARK, "a retransmission is a packet of the flow"
    assert after[7:] == [*other, *sack, *short]


def test_first_transmissions_are_counted_exactly_by_qp_and_spine(leaf):
    leaf.a.send([announcement(packets=600, start_psn=100, last_psn=699)])
    leaf.a.send(write_frames(range(100, 600)), port=0)
    leaf.a.send(write_frames(range(600, 700)), port=1)
    record = leaf.flow()
    assert (leaf.arrived(), leaf.late()) == ([500, 100, 0], [0, 0, 0])
    said = {name: int(record[name]) for name in ("dqpn", "epoch", "packets", "start_psn", "last_psn", "spines")}
    assert said == {"dqpn": DQPN, "epoch": 1, "packets": 600, "start_psn": 100, "last_psn": 699, "spines": 2}
    assert (record["src_leaf"], record["dst_leaf"], record["src_host"], record["dst_host"]) == (3, 4, 3, 4)
    assert record["announced_ns"] < record["stopped_ns"] < time.monotonic_ns()


def test_retransmissions_sacks_and_unmarked_packets_are_not_counted(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)])
    leaf.a.send(write_frames(range(4)))
    leaf.a.send(write_frames(range(4), flags=BTH_RETRANSMISSION))
    leaf.a.send(write_frames(range(4), opcode=Opcode.SACK))
    leaf.a.send(write_frames(range(4), dqpn=0x5001))
    assert leaf.arrived() == [4, 0, 0]


def test_counting_stops_at_the_last_psn_and_later_arrivals_are_kept_apart(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)])
    leaf.a.send(write_frames(range(7)), port=0)
    leaf.a.send(write_frames([9]), port=1)
    assert leaf.flow()["stopped_ns"] > 0
    leaf.a.send(write_frames([7, 8]), port=0)
    assert (leaf.arrived(), leaf.late()) == ([7, 1, 0], [2, 0, 0])


def test_a_retransmitted_last_psn_stops_without_being_counted(leaf):
    leaf.a.send([announcement(packets=3, start_psn=0, last_psn=2), *write_frames([0, 1])])
    assert leaf.flow()["stopped_ns"] == 0
    leaf.a.send(write_frames([2], flags=BTH_RETRANSMISSION), port=1)
    assert leaf.flow()["stopped_ns"] > 0
    assert leaf.arrived() == [2, 0, 0]


def test_psns_wrap_and_those_outside_the_flow_do_not_count(leaf):
    leaf.a.send([announcement(packets=20, start_psn=0xFFFFF6, last_psn=9)])
    leaf.a.send(write_frames([*range(0xFFFFF0, 0x1000000), *range(5)]))
    assert leaf.arrived() == [15, 0, 0]
    leaf.a.send(write_frames([10, 11, 9]))
    assert (leaf.arrived(), leaf.flow()["stopped_ns"] > 0) == ([16, 0, 0], True)


def test_an_announcement_comes_over_every_path_and_counts_once(leaf):
    said = [announcement(packets=10, start_psn=0, last_psn=9, spine=spine) for spine in range(2)]
    leaf.a.send(said[:1], port=0)
    leaf.a.send(write_frames(range(5)), port=0)
    leaf.a.send(said[1:], port=1)
    assert leaf.arrived() == [5, 0, 0]


def marked(frames):
    return [frame[:MARK_BYTE] + bytes([SPRAYCHECK_MARK]) + frame[MARK_BYTE + 1 :] for frame in frames]


def test_packets_that_overtake_their_announcement_are_counted(leaf):
    leaf.a.send(marked(write_frames(range(6))), port=1)
    assert leaf.flow()["announced_ns"] == 0
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)], port=0)
    leaf.a.send(write_frames(range(6, 10)), port=0)
    assert leaf.arrived() == [4, 6, 0]
    assert leaf.flow()["stopped_ns"] > 0


def test_stray_packets_of_an_older_flow_do_not_spoil_a_new_one(leaf):
    leaf.a.send(marked(write_frames(range(900, 906))), port=1)
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    assert leaf.arrived() == [10, 0, 0]


def test_a_new_epoch_of_a_qp_keeps_the_old_ones_counts_until_erased(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    leaf.a.send([announcement(packets=5, start_psn=10, last_psn=14, epoch=2), *write_frames(range(10, 15))])
    found = {int(each["epoch"]): int(each["arrived"][0]) for each in leaf.counters.flows()}
    assert found == {1: 10, 2: 5}
    leaf.counters.erase(DQPN, 1)
    assert leaf.flow()["epoch"] == 2
    leaf.counters.erase(DQPN, 1)
    assert leaf.flow()["epoch"] == 2
    leaf.counters.erase(DQPN, 2)
    assert len(leaf.counters.flows()) == 0


def test_marks_end_when_erased(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames([0])])
    leaf.counters.erase_marks(0)
    leaf.a.send(write_frames([1]))
    leaf.counters.erase_marks(time.monotonic_ns())
    leaf.a.send(write_frames([2]))
    assert leaf.arrived() == [2, 0, 0]


def test_flows_that_stay_below_one_leaf_are_not_measured(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9, dst_leaf=3), *write_frames([0])])
    assert len(leaf.counters.flows()) == 0


def test_hundreds_of_flows_are_read_in_batches(leaf):
    frames: list[bytes] = []
    for qpn in range(0x4000, 0x4000 + 300):
        frames += [announcement(packets=2, start_psn=0, last_psn=1, dqpn=qpn), *write_frames([0, 1], dqpn=qpn)]
    leaf.a.send(frames)
    flows = leaf.counters.flows()
    assert sorted(flows["dqpn"].tolist()) == list(range(0x4000, 0x4000 + 300))
    assert (flows["arrived"][:, 0] == 2).all()


def test_a_map_of_another_layout_or_none_is_an_error(leaf):
    with pytest.raises(CountersError, match="not a map of this version"):
        HashMap(leaf.loaded.map(dataplane.MEASURED).id, SUPERSEDED_KEY, FLOW).open()
    with pytest.raises(CountersError, match="open"):
        KernelCounters(2**31 - 1, 1, 1).__enter__()


def test_marked_on_the_first_hop_and_counted_on_the_last_of_a_real_fabric(object_file):
    """From a TX ring, whose packets have almost nothing in linear memory, through three routers of the kernel."""
    psns = range(400)
    with ExitStack() as held:
        net = held.enter_context(built(FabricSpec(planes=1, leaves=2, spines=2, hosts_per_leaf=1)))
        source, sink = NodeId.leaf(0, 0), NodeId.leaf(0, 1)
        loaded = {leaf: held.enter_context(bpf.load(object_file)) for leaf in (source, sink)}
        for port in (port for leaf in loaded for port in net.fabric.ports_of(leaf)):
            name = dataplane.FROM_HOST if port.peer.role is Role.HOST else dataplane.FROM_SPINE
            with net.rtnl(port.node) as rtnl:
                fd = loaded[port.node].program(name).fd
                qdisc.attach_program(rtnl, ifindex_of(net.fabric, port), Direction.INGRESS, 1, fd, name)
        ends = [host_of(net.fabric, number) for number in range(2)]
        frames = [announcement(packets=400, start_psn=0, last_psn=399, ends=ends)]
        frames += write_frames(psns[::2], spine=0, ends=ends) + write_frames(psns[1::2], spine=1, ends=ends)
        with closing(open_packet_ring("plane0", 0, netns=str(net.netns_path(NodeId.host(0))))) as port:
            send_all(port, frames)
        with counters_of(loaded[sink]) as counters:
            (record,) = counters.flows()
            assert record["arrived"][:3].tolist() == [200, 200, 0]
            assert record["stopped_ns"] > 0
        with counters_of(loaded[source]) as counters:
            assert len(counters.flows()) == 0


def host_of(fabric: Fabric, number: int) -> HostAddress:
    own = PortId(NodeId.host(number), NodeId.leaf(0, number), 0)
    macs = (bytes.fromhex(mac_of(fabric, each).replace(":", "")) for each in (own, PortId(own.peer, own.node, 0)))
    return HostAddress(host_address(number).packed, leaf=number, slot=0, ports=(PortAddress(*macs),))


def send_all(port: PacketRingPort, frames: list[bytes]) -> None:
    rows = port.reserve(len(frames)).frames
    for row, frame in zip(rows, frames, strict=True):
        row[: len(frame)] = np.frombuffer(frame, np.uint8)
    port.fill(np.array([len(frame) for frame in frames], np.uint32))
    assert port.send() == len(frames)


def counters_of(loaded: bpf.BpfObject) -> KernelCounters:
    ids = (loaded.map(name).id for name in (dataplane.FLOWS, dataplane.SUPERSEDED, dataplane.MEASURED))
    return KernelCounters(*ids)


def test_the_process_judges_names_the_path_and_ends_cleanly(leaf, tmp_path):
    """End to end without a fabric: counts in the kernel, the process beside it, lines in detect.jsonl."""
    log, command = process_for(leaf, tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(log, "SPRAYCHECK_START", 1)
            leaf.a.send([announcement(packets=2000, start_psn=0, last_psn=1999)])
            leaf.a.send(write_frames(range(0, 1900, 2)), port=0)
            leaf.a.send(write_frames(range(1, 2000, 2)), port=1)
            found = wait_for(log, "DETECT", 2)
            (said,) = wait_for(log, "LOCALIZE", 1)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert [(each["spine"], each["count"], each["verdict"]) for each in found] == [
        (0, 950, "failed"),
        (1, 1000, "healthy"),
    ]
    assert (said["state"], said["candidates"]) == ("ambiguous", [["p0:leaf3>spine0", "p0:spine0>leaf4"]])


def process_for(leaf: Leaf, directory: Path) -> tuple[Path, list[str]]:
    """Where the process of this leaf will write, and the command that starts it."""
    log, path = directory / "detect.jsonl", directory / "settings.json"
    maps = {f"{name}_map": leaf.loaded.map(name).id for name in ("flows", "superseded", "measured")}
    settings = {
        "lab": "test",
        "detect_log": str(log),
        "min_rate": 0.05,
        "poll_ms": 10,
        "settle_ms": 10,
        "leaves": [{"plane": 0, "leaf": 4, "spines": [0, 1]} | maps],
    }
    path.write_text(json.dumps(settings))
    return log, [sys.executable, "-m", "agent.spraycheck", str(path)]


def wait_for(log: Path, event: str, count: int) -> list[dict]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if len(found := [line for line in lines if line["event"] == event]) >= count:
            return found
        time.sleep(0.01)
    raise AssertionError(f"no {count} {event} in {log} within 60 s: {log.read_text() if log.exists() else 'absent'}")


STARTS_THE_PROCESS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, *sys.argv[1:]])
print(child.pid, flush=True)
child.wait()
"""


def test_the_process_dies_with_its_parent(leaf, tmp_path):
    log, command = process_for(leaf, tmp_path)
    starter = [sys.executable, "-c", STARTS_THE_PROCESS, *command[1:]]
    with subprocess.Popen(starter, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            wait_for(log, "SPRAYCHECK_START", 1)
        finally:
            parent.kill()
    wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited 60 s in vain"
        time.sleep(0.01)


def test_wrong_settings_end_the_process_with_a_reason(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("{}")
    done = subprocess.run([sys.executable, "-m", "agent.spraycheck", str(path)], capture_output=True, text=True)
    assert (done.returncode, "missing required field" in done.stderr) == (3, True)
