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
from agent.spraycheck.errors import CountersError
from agent.spraycheck.leaf import bpf_layout
from agent.spraycheck.leaf.bpf_layout import NARROW_MOST, SELECTED, SUPERSEDED_KEY, Counting, Place, Room
from agent.spraycheck.leaf.counters import HashMap, KernelCounters
from agent.spraycheck.statistics.verdicts import Expectation
from agent.wire.array.decode import decode
from agent.wire.array.template import HostAddress, PortAddress
from agent.wire.constants import BTH_RETRANSMISSION, SPRAYCHECK_MARK, AnnounceKind, Dscp, Opcode
from agent.wire.dtypes import ANNOUNCE_FRAME, WRITE_FRAME, offset_of
from agent.wire.validate.rules import RejectReason
from testbed.kernel.bpf import programs as bpf
from testbed.kernel.bpf import tcx
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import inside
from testbed.kernel.ports import qdisc
from testbed.kernel.ports.qdisc import Direction
from testbed.model.addressing import host_address, ifindex_of, mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, PortId, Role
from tests.support.namespaces import built
from tests.support.veth_pair import End, veth_pair
from tests.support.wire_frames import DQPN, ENDS, announcement, write_frames

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and eBPF"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF"),
]

FIRST_SPINE_IFINDEX = 100  # of end b of a pair
MAPS = (
    bpf_layout.FLOWS,
    bpf_layout.SUPERSEDED,
    bpf_layout.MEASURED,
    bpf_layout.TESTS,
    bpf_layout.REFUSED,
    bpf_layout.ELSEWHERE,
)
COUNTING = Counting(2)
MARK_BYTE = offset_of(WRITE_FRAME, "bth", "var_res")


@pytest.fixture(scope="module")
def object_file(tmp_path_factory) -> Path:
    return bpf.build(
        bpf_layout.SOURCE, bpf_layout.headers(FIRST_SPINE_IFINDEX, COUNTING), tmp_path_factory.mktemp("bpf")
    )


@pytest.mark.parametrize("narrow", [False, True], ids=["32 bits", "16 bits"])
@pytest.mark.parametrize("spines", [1, 2, 3, 8, 32, 256])
def test_the_kernel_takes_the_programs_for_any_number_of_spines(spines: int, narrow: bool, tmp_path: Path) -> None:
    """Verifiers of older kernels see less of what compilers do with bounds that depend on it."""
    built_for = bpf.build(
        bpf_layout.SOURCE, bpf_layout.headers(FIRST_SPINE_IFINDEX, Counting(spines, narrow)), tmp_path
    )
    with bpf.load(built_for) as loaded:
        assert [loaded.program(name).name for name in (bpf_layout.FROM_HOST, bpf_layout.FROM_SPINE)]


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
        return self.flow()["arrived"].tolist()

    def late(self) -> list[int]:
        return self.flow()["late"].tolist()


@pytest.fixture
def leaf(object_file) -> Iterator[Leaf]:
    with leaf_of(object_file, COUNTING) as made:
        yield made


@contextmanager
def leaf_of(object_file: Path, counting: Counting) -> Iterator[Leaf]:
    with ExitStack() as held:
        a, b = held.enter_context(veth_pair(links=2))
        loaded = held.enter_context(bpf.load(object_file))
        for end, name, direction in (
            (a, bpf_layout.FROM_HOST, Direction.EGRESS),
            (b, bpf_layout.FROM_SPINE, Direction.INGRESS),
        ):
            with Rtnl.inside(end.name, end.path) as rtnl:
                for port in range(2):
                    qdisc.attach_program(rtnl, end.ifindex(port), direction, 1, loaded.program(name).fd, name)
        yield Leaf(a, b, loaded, held.enter_context(counters_of(loaded, counting)))


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


def measured(said: bytes) -> bytes:
    """An announcement as it leaves the source leaf of a measured flow."""
    at = offset_of(ANNOUNCE_FRAME, "announce", "measured")
    return said[:at] + b"\x01" + said[at + 1 :]


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
    assert after[0] == measured(said), "the leaves behind are told, and nothing else changes"
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
    assert (leaf.arrived(), leaf.late()) == ([500, 100], [0, 0])
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
    assert leaf.arrived() == [4, 0]


def test_counting_stops_at_the_last_psn_and_later_arrivals_are_kept_apart(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)])
    leaf.a.send(write_frames(range(7)), port=0)
    leaf.a.send(write_frames([9]), port=1)
    assert leaf.flow()["stopped_ns"] > 0
    leaf.a.send(write_frames([7, 8]), port=0)
    assert (leaf.arrived(), leaf.late()) == ([7, 1], [2, 0])


def test_a_retransmitted_last_psn_stops_without_being_counted(leaf):
    leaf.a.send([announcement(packets=3, start_psn=0, last_psn=2), *write_frames([0, 1])])
    assert leaf.flow()["stopped_ns"] == 0
    leaf.a.send(write_frames([2], flags=BTH_RETRANSMISSION), port=1)
    assert leaf.flow()["stopped_ns"] > 0
    assert leaf.arrived() == [2, 0]


def test_psns_wrap_and_those_outside_the_flow_do_not_count(leaf):
    leaf.a.send([announcement(packets=20, start_psn=0xFFFFF6, last_psn=9)])
    leaf.a.send(write_frames([*range(0xFFFFF0, 0x1000000), *range(5)]))
    assert leaf.arrived() == [15, 0]
    leaf.a.send(write_frames([10, 11, 9]))
    assert (leaf.arrived(), leaf.flow()["stopped_ns"] > 0) == ([16, 0], True)


@pytest.mark.parametrize("start", [0, 0xFFFFF6])
def test_a_flow_may_be_as_long_as_psns_go_round(leaf, start):
    end = (start - 1) & 0xFFFFFF
    leaf.a.send([announcement(packets=1 << 24, start_psn=start, last_psn=end)])
    leaf.a.send(write_frames([(start + offset) & 0xFFFFFF for offset in (0, 1, (1 << 23) - 1, 1 << 23, (1 << 24) - 2)]))
    assert (leaf.arrived(), leaf.flow()["stopped_ns"]) == ([5, 0], 0)
    leaf.a.send(write_frames([end]))
    assert (leaf.arrived(), leaf.flow()["stopped_ns"] > 0) == ([6, 0], True)


def test_an_announcement_comes_over_every_path_and_counts_once(leaf):
    said = [announcement(packets=10, start_psn=0, last_psn=9, spine=spine) for spine in range(2)]
    leaf.a.send(said[:1], port=0)
    leaf.a.send(write_frames(range(5)), port=0)
    leaf.a.send(said[1:], port=1)
    assert leaf.arrived() == [5, 0]


def marked(frames):
    return [frame[:MARK_BYTE] + bytes([SPRAYCHECK_MARK]) + frame[MARK_BYTE + 1 :] for frame in frames]


def test_packets_that_overtake_their_announcement_are_counted(leaf):
    leaf.a.send(marked(write_frames(range(6))), port=1)
    assert leaf.flow()["announced_ns"] == 0
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)], port=0)
    leaf.a.send(write_frames(range(6, 10)), port=0)
    assert leaf.arrived() == [4, 6]
    assert leaf.flow()["stopped_ns"] > 0


def test_stray_packets_of_an_older_flow_do_not_spoil_a_new_one(leaf):
    leaf.a.send(marked(write_frames(range(900, 906))), port=1)
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    assert leaf.arrived() == [10, 0]


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


def closes(port: int, sent=(5, 5), **fields) -> bytes:
    values = {"packets": 10, "start_psn": 0, "last_psn": 9, "spine": port} | fields
    return announcement(sent=sent, **values)


def told_of(record) -> dict[str, list[int]]:
    return {name: record[name].tolist() for name in ("sent", "barrier", "arrived", "late", "again", "trimmed")}


def test_a_sender_declares_once_and_every_paths_copy_is_its_barrier(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(0, 10, 2))], port=0)
    leaf.a.send(write_frames([1, 3, 5, 9]), port=1)
    assert leaf.flow()["closed_ns"] == 0
    leaf.a.send([closes(1)], port=1)
    first = leaf.flow()
    assert (first["closed_ns"] > first["stopped_ns"] > 0, told_of(first)["barrier"]) == (True, [0, 1])
    leaf.a.send([closes(0, sent=(77, 77))], port=0)
    assert told_of(leaf.flow()) == {
        "sent": [5, 5], "barrier": [1, 1], "arrived": [5, 4], "late": [0, 0], "again": [0, 0], "trimmed": [0, 0],
    }  # fmt: skip


def test_what_closes_a_flow_announces_it_where_all_announcements_were_lost(leaf):
    inject(leaf, [closes(0)])
    assert len(leaf.counters.flows()) == 0, "its source leaf does not measure it"
    inject(leaf, [measured(closes(0))])
    record = leaf.flow()
    assert (record["packets"], record["announced_ns"] > 0, told_of(record)["sent"]) == (10, True, [5, 5])


def test_what_closes_an_older_flow_of_a_queue_pair_finds_it(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    leaf.a.send([announcement(packets=5, start_psn=10, last_psn=14, epoch=2)])
    inject(leaf, [measured(closes(0, sent=(10, 0)))])
    found = {int(each["epoch"]): told_of(each)["sent"] for each in leaf.counters.flows()}
    assert found == {1: [10, 0], 2: [0, 0]}


def test_what_is_declared_of_another_plane_is_kept_apart_until_it_is_taken(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    elsewhere = {"plane": 1, "kind": AnnounceKind.ELSEWHERE}
    with heard(leaf.b) as after:
        leaf.a.send([closes(0, sent=(70, 0), packets=70, **elsewhere), closes(0, sent=(7, 7), **elsewhere)])
        leaf.a.send([closes(0, spines=3, sent=(1, 1, 1), dqpn=0x77, **elsewhere)])
    assert len(after) == 3
    assert (leaf.flow()["closed_ns"], told_of(leaf.flow())["barrier"]) == (0, [0, 0])
    (told,) = leaf.counters.take_elsewhere()
    names = ("dqpn", "epoch", "plane", "spines", "packets", "src_leaf", "dst_leaf", "src_host", "dst_host")
    assert [int(told[name]) for name in names] == [DQPN, 1, 1, 2, 70, 3, 4, 3, 4]
    assert told["sent"].tolist() == [70, 0], "the first copy counts"
    assert len(leaf.counters.take_elsewhere()) == 0
    assert refused(leaf) == {}, "no leaf of this plane has missed anything"


def test_a_flow_of_which_only_the_end_is_heard_was_not_measured(leaf):
    with heard(leaf.b) as after:
        leaf.a.send([*write_frames(range(10)), closes(0)])
    assert not any(frame[MARK_BYTE] & SPRAYCHECK_MARK for frame in after[:10])
    assert refused(leaf) == {DQPN: (Place.UNANNOUNCED, 1)}
    assert len(leaf.counters.flows()) == 0


def inject(leaf: Leaf, frames: list[bytes]) -> None:
    """Frames that reach the destination leaf without having met the source leaf."""
    with Rtnl.inside(leaf.a.name, leaf.a.path) as rtnl:
        qdisc.detach_program(rtnl, leaf.a.ifindex(0), Direction.EGRESS, 1)
    leaf.a.send(frames)


@pytest.mark.parametrize("shares", [(), (1,) * 300], ids=["none", "more than a leaf has spines"])
def test_shares_that_cannot_be_are_not_taken(leaf, shares):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(10))])
    leaf.a.send([closes(0, spines=len(shares), sent=shares), closes(0)[:-1]])
    assert leaf.flow()["closed_ns"] == 0


def test_retransmissions_and_trimmed_packets_are_counted_apart(leaf):
    whole = write_frames(range(10))
    trimmed = [reclassed(frame[:138], Dscp.TRIMMED if i % 2 else Dscp.TRIMMED_LASTHOP) for i, frame in enumerate(whole)]
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *whole[:4], *trimmed[4:7]])
    leaf.a.send(write_frames([2, 5], flags=BTH_RETRANSMISSION), port=1)
    leaf.a.send(whole[9:])
    leaf.a.send(trimmed[7:8])
    record = told_of(leaf.flow())
    assert (record["arrived"], record["late"]) == ([8, 0], [1, 0])
    assert (record["again"], record["trimmed"]) == ([0, 2], [4, 0])


def reclassed(frame: bytes, dscp: Dscp) -> bytes:
    """With another DSCP in the outer header, as a switch writes it."""
    word = int.from_bytes(frame[14:18], "big") & 0xF00FFFFF | dscp << 22
    return frame[:14] + word.to_bytes(4, "big") + frame[18:]


def test_packets_of_the_flow_behind_the_planes_announced_last_one_count(leaf):
    """When an EV is passed over, the plane's last packet is another than was announced."""
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=10, end_psn=12), *write_frames(range(9))])
    leaf.a.send(write_frames([11, 13]))
    assert (leaf.arrived(), leaf.flow()["stopped_ns"]) == ([10, 0], 0)


def test_the_data_plane_compares_with_the_threshold_when_the_last_psn_comes(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames(range(5))])
    leaf.counters.set_test(DQPN, 1, 9, 5)
    leaf.a.send(write_frames([6, 7, 8, 9]), port=1)
    record = leaf.flow()
    assert (leaf.arrived(), record["compared"], record["flagged"].tolist()) == ([5, 4], 1, [0b10])


@pytest.mark.parametrize("test", [(2, 9, 5), (1, 8, 5), None], ids=["other epoch", "other last PSN", "none yet"])
def test_without_its_own_threshold_nothing_is_compared(leaf, test):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9)])
    if test:
        leaf.counters.set_test(DQPN, *test)
    leaf.a.send(write_frames(range(10)))
    assert (leaf.flow()["compared"], leaf.flow()["flagged"].tolist()) == (0, [0])


def test_sixteen_bit_counters_stay_at_the_most_they_hold(tmp_path):
    """They count exactly to 65535 and do not wrap, and the neighbour in the same word is left alone."""
    counting = Counting(2, narrow=True)
    built = bpf.build(bpf_layout.SOURCE, bpf_layout.headers(FIRST_SPINE_IFINDEX, counting), tmp_path)
    with leaf_of(built, counting) as leaf:
        frames = write_frames(range(1000))
        leaf.a.send([announcement(packets=90_000, start_psn=0, last_psn=89_999), *frames[:500]])
        leaf.a.send(frames[500:700], port=1)
        assert leaf.arrived() == [500, 200]
        flows = leaf.loaded.map(bpf_layout.FLOWS)
        ((key, value),) = flows.items()
        record = np.frombuffer(value, counting.flow).copy()
        record["arrived"][0, 0] = NARROW_MOST - 3
        flows.update(key, record.tobytes())
        leaf.a.send(frames[:2])
        assert leaf.arrived() == [NARROW_MOST - 1, 200]
        leaf.a.send(frames[:100])
        assert leaf.arrived() == [NARROW_MOST, 200]
        leaf.a.send(frames[:100], port=1)
        leaf.a.send([closes(0)])
        assert leaf.arrived() == [NARROW_MOST, 300]


def test_marks_end_when_erased(leaf):
    leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9), *write_frames([0])])
    leaf.counters.erase_marks(0)
    leaf.a.send(write_frames([1]))
    leaf.counters.erase_marks(time.monotonic_ns())
    leaf.a.send(write_frames([2]))
    assert leaf.arrived() == [2, 0]


def test_the_source_leaf_counts_first_transmissions_of_each_measured_flow(leaf):
    def entered() -> dict[tuple[int, int], int]:
        qpns, marks = leaf.counters.marks()
        return {(int(qpn), int(mark["epoch"])): int(mark["entered"]) for qpn, mark in zip(qpns, marks, strict=True)}

    before, other = write_frames([90, 91]), write_frames(range(100, 104), dqpn=0x5001)
    leaf.a.send([*before, announcement(packets=10, start_psn=100, last_psn=109), *other])
    leaf.a.send(write_frames(range(100, 107)))
    leaf.a.send([announcement(packets=10, start_psn=100, last_psn=109, spine=1), *write_frames([107])], port=1)
    assert entered() == {(DQPN, 1): 8}, "another copy of the announcement does not begin anew"
    again = write_frames([108, 109], flags=BTH_RETRANSMISSION)
    leaf.a.send([*again, *write_frames([110, 99]), *write_frames([109]), *write_frames([100], opcode=Opcode.SACK)])
    assert entered() == {(DQPN, 1): 9}, "resends and PSNs of other flows do not count"
    leaf.a.send([announcement(packets=4, start_psn=110, last_psn=113, epoch=2), *write_frames(range(110, 113))])
    assert entered() == {(DQPN, 2): 3}


def choose_one(leaf: Leaf, **fields: int) -> None:
    """Have one flow at a time measured from here on."""
    record = np.zeros((), SELECTED)
    for name, value in ({"one": 1, "reset_every_ns": 10**12, "give_up_ns": 10**12} | fields).items():
        record[name] = value
    leaf.loaded.map(bpf_layout.SELECTION).update(bytes(4), record.tobytes())


def selected(leaf: Leaf) -> np.void:
    value = leaf.loaded.map(bpf_layout.SELECTION).lookup(bytes(4))
    assert value is not None
    return np.frombuffer(value, SELECTED)[0]


def leaves_of(bitmap: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little")).tolist()


class Flows:
    """Flows of ten packets to leaves, one a queue pair, on the way from a host."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.number = 0x4000

    def announce(self, dst_leaf: int, **fields) -> int:
        """Announce a new flow over both paths; its queue pair."""
        self.number += 1
        said = {"packets": 10, "start_psn": 0, "last_psn": 9, "dst_leaf": dst_leaf, "dqpn": self.number} | fields
        for port in range(2):
            self.leaf.a.send([announcement(spine=port, **said)], port=port)
        return self.number

    def send(self, dqpn: int, psns=range(10)) -> None:
        self.leaf.a.send(write_frames(psns, dqpn=dqpn))

    def measured(self) -> list[int]:
        """Queue pairs that the destination leaf has heard of."""
        return sorted(self.leaf.counters.flows()["dqpn"].tolist())


def test_one_flow_is_measured_at_a_time_and_destinations_take_turns(leaf):
    choose_one(leaf)
    flows = Flows(leaf)
    first, second, third = (flows.announce(dst) for dst in (9, 70, 5))
    assert leaves_of(selected(leaf)["available"]) == [5, 9, 70]
    assert leaves_of(selected(leaf)["history"]) == [9]
    for qpn in (first, second, third):
        flows.send(qpn)
    assert flows.measured() == [first], "the others are neither marked nor announced to the leaves behind"
    assert selected(leaf)["dqpn"] == 0, "its last PSN has left"
    assert flows.announce(70) not in flows.measured(), "5 is lower and has not had its turn"
    fourth = flows.announce(5)
    assert flows.measured() == [first, fourth]
    flows.announce(70)
    flows.send(fourth)
    fifth = flows.announce(70)
    flows.send(fifth)
    assert flows.measured() == [first, fourth, fifth]
    assert leaves_of(selected(leaf)["history"]) == [5, 9, 70]
    again = flows.announce(5)
    assert flows.measured() == [first, fourth, fifth, again], "all have had their turn: a new round begins"
    assert leaves_of(selected(leaf)["history"]) == [5]
    assert selected(leaf)["chosen"] == 4


def test_what_closes_the_measured_flow_gives_its_place_away_too(leaf):
    choose_one(leaf)
    flows = Flows(leaf)
    first = flows.announce(4)
    flows.send(first, range(5))
    leaf.a.send([closes(0, (5, 0), dqpn=first)])
    assert selected(leaf)["dqpn"] == 0
    second = flows.announce(6)
    assert flows.measured() == [first, second]


def test_the_bitmaps_are_emptied_after_their_time_and_a_dead_flow_gives_up_its_place(leaf):
    """Or a destination to which no flow comes any more would be waited for without end."""
    choose_one(leaf, give_up_ns=1)
    flows = Flows(leaf)
    flows.announce(5)
    flows.announce(7)
    assert len(flows.measured()) == 2, "the first has not ended within give_up_ns"
    assert leaves_of(selected(leaf)["available"]) == [5, 7]
    choose_one(leaf, reset_every_ns=1)
    flows.announce(7)
    flows.announce(9)
    assert (leaves_of(selected(leaf)["available"]), leaves_of(selected(leaf)["history"])) == ([9], [])


def test_a_queue_pair_whose_next_flow_is_not_chosen_is_marked_no_more(leaf):
    choose_one(leaf)
    flows = Flows(leaf)
    first = flows.announce(4)
    flows.send(first)
    other = flows.announce(6)
    flows.announce(4, dqpn=first, epoch=2, start_psn=10, last_psn=19)
    flows.send(first, range(10, 20))
    flows.send(other)
    found = {int(each["dqpn"]): int(each["arrived"].sum()) for each in leaf.counters.flows()}
    assert found == {first: 10, other: 10}


@contextmanager
def small_leaf(folder: Path, **room: int) -> Iterator[Leaf]:
    """A leaf with room for few flows."""
    headers = bpf_layout.headers(FIRST_SPINE_IFINDEX, COUNTING, Room(**room))
    with leaf_of(bpf.build(bpf_layout.SOURCE, headers, folder), COUNTING) as made:
        yield made


def refused(leaf: Leaf) -> dict[int, tuple[Place, int]]:
    """Queue pairs whose flow was refused: for want of what, and its epoch."""
    return {int(each["dqpn"]): (Place(int(each["place"])), int(each["epoch"])) for each in leaf.counters.refusals()}


def test_a_flow_that_its_source_leaf_has_no_room_for_is_neither_marked_nor_said_to_be_measured(tmp_path):
    with small_leaf(tmp_path, measured=1) as leaf:
        flows = Flows(leaf)
        first, second = flows.announce(4), flows.announce(4)
        with heard(leaf.b) as after:
            flows.send(second)
            flows.send(first)
            leaf.a.send([closes(0, dqpn=second)])
        assert [frame[MARK_BYTE] & SPRAYCHECK_MARK for frame in after[:20]] == [0] * 10 + [SPRAYCHECK_MARK] * 10
        assert after[20] == closes(0, dqpn=second), "what closes it says that it is not measured"
        assert (flows.measured(), refused(leaf)) == ([first], {second: (Place.MEASURED, 1)})
        (told,) = leaf.counters.refusals()
        ends = [int(told[name]) for name in ("plane", "src_leaf", "dst_leaf", "src_host", "dst_host")]
        assert ends == [0, 3, 4, 3, 4]
        leaf.counters.erase_marks(time.monotonic_ns())
        leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9, dqpn=second, epoch=2)])
        assert (flows.measured(), refused(leaf)) == ([first, second], {})


def test_a_flow_that_its_source_leaf_has_no_room_for_gives_its_turn_away(tmp_path):
    with small_leaf(tmp_path, measured=1) as leaf:
        choose_one(leaf)
        flows = Flows(leaf)
        flows.send(flows.announce(5))
        second = flows.announce(7)
        assert (selected(leaf)["dqpn"], refused(leaf)) == (0, {second: (Place.MEASURED, 1)})


def test_a_flow_that_its_destination_leaf_has_no_room_for_is_not_begun_in_its_middle(tmp_path):
    """Or what came before would be missing, and look lost on all paths."""
    with small_leaf(tmp_path, flows=1) as leaf:
        flows = Flows(leaf)
        first, second = flows.announce(4), flows.announce(4)
        flows.send(second, range(5))
        assert (flows.measured(), refused(leaf)) == ([first], {second: (Place.FLOWS, 1)})
        leaf.counters.erase(first, 1)
        leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9, dqpn=second, spine=1)], port=1)
        flows.send(second, range(5, 10))
        leaf.a.send([closes(0, dqpn=second)])
        assert flows.measured() == []
        leaf.a.send([announcement(packets=5, start_psn=10, last_psn=14, dqpn=second, epoch=2)])
        flows.send(second, range(10, 15))
        assert (leaf.flow()["epoch"], leaf.arrived()) == (2, [5, 0]), "its next flow is another matter"


def test_a_flow_whose_packets_found_no_room_before_it_was_announced_is_refused_too(tmp_path):
    with small_leaf(tmp_path, flows=1) as leaf:
        flows = Flows(leaf)
        first, second = flows.announce(4), 0x5001
        leaf.a.send(marked(write_frames([3], dqpn=second)), port=1)
        assert refused(leaf) == {second: (Place.UNKNOWN, 0)}
        leaf.counters.erase(first, 1)
        leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9, dqpn=second)])
        assert (flows.measured(), refused(leaf)) == ([], {second: (Place.FLOWS, 1)})


def test_a_flow_that_would_push_out_an_ended_one_waits_until_there_is_room_for_that(tmp_path):
    """The ended one may not be judged yet, and what closes it must not begin it anew."""
    with small_leaf(tmp_path, flows=2) as leaf:
        flows = Flows(leaf)
        pairs = [flows.announce(4) for _ in range(2)]
        for epoch in (2, 3):
            for qpn in pairs:
                flows.announce(4, dqpn=qpn, epoch=epoch, start_psn=10 * epoch, last_psn=10 * epoch + 9)
                flows.send(qpn, range(10 * epoch, 10 * epoch + 10))
                leaf.a.send([closes(0, dqpn=qpn, epoch=epoch - 1)])
        kept = sorted((int(each["dqpn"]), int(each["epoch"])) for each in leaf.counters.flows())
        assert kept == [(qpn, epoch) for qpn in pairs for epoch in (1, 2)]
        assert refused(leaf) == dict.fromkeys(pairs, (Place.SUPERSEDED, 3))
        second = [each for each in leaf.counters.flows() if each["epoch"] == 2]
        assert [int(each["arrived"].sum()) for each in second] == [10, 10], "and are counted as before"


def test_the_oldest_refusals_are_forgotten_when_there_are_many(tmp_path):
    with small_leaf(tmp_path, measured=1, refused=8) as leaf:
        made = range(0x4000, 0x4000 + 300)
        leaf.a.send([announcement(packets=10, start_psn=0, last_psn=9, dqpn=qpn) for qpn in made])
        assert leaf.flow()["dqpn"] == made[0], "none of the others is measured, told or not"
        assert set(refused(leaf)) < set(made[1:])


def test_marking_leaves_the_icrc_right(leaf):
    """The receiver's own check finds nothing to object to in marked packets."""
    ends = write_frames(range(20))
    with heard(leaf.b) as arrived:
        leaf.a.send([announcement(packets=20, start_psn=0, last_psn=19), *ends])
    lengths = np.array([len(frame) for frame in arrived], np.uint32)
    rows = np.zeros((len(arrived), int(lengths.max())), np.uint8)
    for row, frame in zip(rows, arrived, strict=True):
        row[: len(frame)] = np.frombuffer(frame, np.uint8)
    assert (rows[1:, MARK_BYTE] == SPRAYCHECK_MARK).all()
    decoded = decode(rows, lengths, ENDS[1].address, 0)
    assert decoded.writes is not None
    assert (len(decoded.writes), decoded.rejected) == (20, {RejectReason.ANNOUNCEMENT: 1})


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
        HashMap(leaf.loaded.map(bpf_layout.MEASURED).id, SUPERSEDED_KEY, COUNTING.flow).open()
    with pytest.raises(CountersError, match="open"):
        KernelCounters(2**31 - 1, 1, 1, 1, 1, 1).__enter__()


@pytest.mark.parametrize("place", ["tcx", "clsact"])
def test_marked_on_the_first_hop_and_counted_on_the_last_of_a_real_fabric(object_file, place):
    """From a TX ring, whose packets have almost nothing in linear memory, through three routers of the kernel."""
    psns = range(400)
    with ExitStack() as held:
        net = held.enter_context(built(FabricSpec(planes=1, leaves=2, spines=2, hosts_per_leaf=1)))
        source, sink = NodeId.leaf(0, 0), NodeId.leaf(0, 1)
        loaded = {leaf: held.enter_context(bpf.load(object_file)) for leaf in (source, sink)}
        for port in (port for leaf in loaded for port in net.fabric.ports_of(leaf)):
            name = bpf_layout.FROM_HOST if port.peer.role is Role.HOST else bpf_layout.FROM_SPINE
            fd, ifindex = loaded[port.node].program(name).fd, ifindex_of(net.fabric, port)
            with inside(net.netns_path(port.node)), Rtnl.here(str(port.node)) as rtnl:
                if place == "clsact":
                    qdisc.attach_program(rtnl, ifindex, Direction.INGRESS, 1, fd, name)
                elif not tcx.attach(str(port.node), ifindex, fd):
                    pytest.skip("this kernel has no TCX (Linux 6.6)")
        ends = [host_of(net.fabric, number) for number in range(2)]
        frames = [announcement(packets=400, start_psn=0, last_psn=399, ends=ends)]
        frames += write_frames(psns[::2], spine=0, ends=ends) + write_frames(psns[1::2], spine=1, ends=ends)
        with closing(open_packet_ring("plane0", 0, netns=str(net.netns_path(NodeId.host(0))))) as port:
            send_all(port, frames)
        with counters_of(loaded[sink], COUNTING) as counters:
            wait_until(lambda: bool(counters.flows()["stopped_ns"].any()))
            (record,) = counters.flows()
            assert record["arrived"].tolist() == [200, 200]
            assert record["stopped_ns"] > 0
        with counters_of(loaded[source], COUNTING) as counters:
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


def counters_of(loaded: bpf.BpfObject, counting: Counting | None = None) -> KernelCounters:
    return KernelCounters(*(loaded.map(name).id for name in MAPS), counting)


def test_the_process_judges_names_the_path_and_ends_cleanly(leaf, tmp_path):
    """End to end without a fabric: counts in the kernel, the process beside it, lines in detect.jsonl."""
    log, command = process_for(leaf, tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(log, "SPRAYCHECK_START", 1)
            leaf.a.send([announcement(packets=2000, start_psn=0, last_psn=1999)])
            leaf.a.send(write_frames(range(0, 1900, 2)), port=0)
            leaf.a.send(write_frames(range(1, 2000, 2)), port=1)
            for port in range(2):
                leaf.a.send([closes(port, (1000, 1000), packets=2000, last_psn=1999)], port=port)
            found = wait_for(log, "DETECT", 4)
            said = wait_for(log, "LOCALIZE", 2)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    for expectation in Expectation:
        mine = [each for each in found if each["expectation"] == expectation]
        assert [(each["spine"], each["lambda"], each["count"], each["verdict"]) for each in mine] == [
            (0, 1000, 950, "failed"),
            (1, 1000, 1000, "healthy"),
        ]
    assert {each["expectation"] for each in said} == set(Expectation)
    for each in said:
        assert (each["state"], each["candidates"]) == ("ambiguous", [["p0:leaf3>spine0", "p0:spine0>leaf4"]])


def test_the_process_tells_of_flows_that_the_leaf_has_no_room_for(tmp_path):
    with small_leaf(tmp_path, flows=1) as leaf:
        log, command = process_for(leaf, tmp_path)
        flows = Flows(leaf)
        with subprocess.Popen(command) as process:
            try:
                wait_for(log, "SPRAYCHECK_START", 1)
                first, second, third = (flows.announce(4) for _ in range(3))
                told = wait_for(log, "UNMEASURED", 2)
                leaf.a.send(write_frames(range(10), dqpn=second))
                for qpn in (third, second, first):
                    leaf.a.send([closes(0, (10, 0), dqpn=qpn)])
                wait_for(log, "DETECT", 4)
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert sorted((each["node"], each["qpn"], each["src_leaf"], each["epoch"]) for each in told) == [
            ("p0-leaf4", second, 3, 1), ("p0-leaf4", third, 3, 1),
        ]  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [each["event"] for each in lines].count("UNMEASURED") == 2, "each is told once"
        assert {each["qpn"] for each in lines if each["event"] == "DETECT"} == {first}


def process_for(leaf: Leaf, directory: Path) -> tuple[Path, list[str]]:
    """Where the process of this leaf will write, and the command that starts it."""
    log, path = directory / "detect.jsonl", directory / "settings.json"
    maps = {f"{name}_map": leaf.loaded.map(name).id for name in MAPS}
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
