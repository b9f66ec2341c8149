"""What a worker does when it is told: two hosts of one worker write to each other over the fabric in memory."""

import gc
import json
import weakref
from dataclasses import replace

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from agent.core.config import EvConfig, LossPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.errors import CoreError
from agent.host.control import requests as rq
from agent.host.control.commands import Commands, packets_of
from agent.host.control.requests import DeniedLink
from agent.host.errors import RequestError
from agent.host.memory import map_shared
from agent.host.queue_pairs.construction import Wiring
from agent.host.queue_pairs.flow_announcements import CLOSING_COPIES
from agent.host.records.event_log import EventLog
from agent.host.settings import FabricSettings
from agent.io.daemon import Ending
from agent.io.engine import Engine
from agent.io.host_runtime import HostRuntime
from agent.io.memory_fabric import MemoryFabric, PathRule
from agent.wire.array.template import HostAddress, PortAddress
from agent.wire.constants import AnnounceKind, Opcode
from agent.wire.dtypes import ANNOUNCE_FRAME
from agent.wire.ev import EvCodec
from agent.wire.layers import BTH, METH, Announce
from tests.support.queue_pairs import qp_settings

PORT = PortAddress(bytes(6), bytes(6))
ADDRESSES = {
    host: HostAddress(bytes.fromhex("fd5f") + bytes(13) + bytes([host]), host // 2, host % 2, (PORT, PORT))
    for host in range(4)
}


class Worker:
    """Commands over hosts 0 to 3, two below each leaf, two planes of four spines, and the time they run in."""

    def __init__(self, *rules: PathRule) -> None:
        self.fabric = MemoryFabric(np.random.default_rng(3), rules)
        runtimes = [
            HostRuntime(host, address, [self.fabric.open_port(host, plane, address.address) for plane in range(2)])
            for host, address in ADDRESSES.items()
        ]
        wiring = Wiring(FabricSettings(2, 2, 4, 2), ADDRESSES, seed=5, udp_port=4791)
        wiring.introduce(runtimes)
        self.commands = Commands(Engine(runtimes), wiring, Ending(), lambda: self.fabric.now_ns)
        self.ask = self.commands.serve

    def connect(self, source: int, target: int, **config) -> tuple[dict, dict]:
        ends = [
            {"host": host, **self.ask(rq.CreateQp(host, peer, qp_settings(pmtu=256, **config)))}
            for host, peer in ((source, target), (target, source))
        ]
        for end, other in (ends, ends[::-1]):
            self.ask(rq.ConnectQp(end["host"], end["qpn"], rq.PeerEnd(**other)))
        return ends[0], ends[1]

    def write(self, source: int, target: int, size: int, *, epoch: int | None = None, **config) -> dict:
        end, other = self.connect(source, target, **config)
        sent = self.ask(rq.RegisterRegion(source, size, 11, "source"))
        received = self.ask(rq.RegisterRegion(target, size, 11, "target"))
        request = rq.PostWrite(source, end["qpn"], sent["rkey"], 0, size, received["va"], received["rkey"], 4096, epoch)
        return {**received, **self.ask(request), "qpn": end["qpn"], "peer_qpn": other["qpn"], "host": target}

    def run(self, turns: int = 400) -> None:
        for _ in range(turns):
            self.commands.engine.step(self.fabric.now_ns)
            self.fabric.advance(self.fabric.now_ns + 10_000)


@pytest.mark.parametrize("target", [1, 2], ids=["below the same leaf", "across"])
def test_a_write_arrives_and_is_verified(target):
    worker = Worker()
    write = worker.write(0, target, 100_000)
    assert (write["messages"], write["packets"]) == (25, 24 * 16 + 7)
    verify = rq.Verify(target, write["rkey"], 11)
    assert worker.ask(verify) == {"bytes": 100_000, "wrong": 100_000, "first_wrong": 0}
    worker.run()
    assert worker.ask(verify) == {"bytes": 100_000, "wrong": 0, "first_wrong": None}
    progress = {qp["host"]: qp for qp in worker.ask(rq.Progress())["qps"]}
    assert progress[0]["acked_bytes"] == progress[0]["posted_bytes"] == progress[target]["received_bytes"] == 100_000
    assert progress[0]["completed_messages"] == 25
    assert progress[0]["finished_ns"] > progress[0]["started_ns"] is not None


def test_a_write_has_not_finished_before_its_transport_ack():
    """SACKs acknowledge every byte; what completes the write is lost for a while, and then repeated."""
    worker = Worker(PathRule(target=0, opcodes=(Opcode.ACKNOWLEDGE,), loss=1.0, end_ns=20_000_000))
    worker.write(0, 2, 100_000)
    worker.run()
    waits = next(qp for qp in worker.ask(rq.Progress())["qps"] if qp["host"] == 0)
    assert waits["acked_bytes"] == waits["posted_bytes"] == 100_000
    assert (waits["completed_messages"], waits["finished_ns"]) == (0, None)
    worker.run(10_000)
    done = next(qp for qp in worker.ask(rq.Progress())["qps"] if qp["host"] == 0)
    assert done["completed_messages"] == done["posted_messages"] == 25
    assert done["finished_ns"] > 20_000_000


def test_counters_add_up():
    worker = Worker(PathRule(plane=1, spine=3, source=0, loss=0.1))
    write = worker.write(0, 2, 200_000)
    worker.run(6000)
    counters = worker.ask(rq.Counters())
    assert worker.ask(rq.Verify(2, write["rkey"], 11))["wrong"] == 0
    rows = [row for row in counters["evs"] if row["host"] == 0]
    assert {(row["plane"], row["spine"]) for row in rows} == {
        (plane, spine) for plane in range(2) for spine in range(4)
    }
    assert sum(row["tx_first"] for row in rows) == write["packets"]
    lost = {(row["plane"], row["spine"]) for row in rows if row["lost"] + row["timed_out"]}
    assert lost == {(1, 3)}
    sent = sum(port["tx_frames"] for port in counters["ports"] if port["host"] == 0)
    assert sent == sum(row["tx_first"] + row["tx_rtx"] for row in rows)
    assert counters["rejected"] == []


def test_a_flow_with_an_epoch_is_announced_on_every_path_before_its_data():
    seen = []
    worker = Worker(PathRule(source=0, alter=lambda frames, lengths: seen.extend(frames[:, :146].copy())))
    write = worker.write(0, 3, 500 * 256, epoch=9, policy="random", start_psn=(1 << 24) - 100)
    worker.run(1)
    frames = np.array(seen).view(ANNOUNCE_FRAME)[:, 0]
    is_announcement = frames["udp"]["dport"] == 54791
    announced = frames["announce"][is_announcement]
    per_plane = {int(a["plane"]): (int(a["packets"]), int(a["last_psn"])) for a in announced}
    assert len(announced) == 8
    assert sum(packets for packets, _ in per_plane.values()) == write["packets"] == 500
    assert (1 << 24) - 100 + 499 - (1 << 24) in [last for _, last in per_plane.values()]
    assert set(announced["dqpn"]) == {write["peer_qpn"]}
    assert (set(announced["epoch"]), set(announced["spines"]), set(announced["policy"])) == ({9}, {4}, {1})
    for plane in range(2):
        leaves = (frames["outer"]["dst"][:, 4] & 0xF) == plane
        assert is_announcement[leaves][:4].all()
        assert not is_announcement[leaves][4:].any()
    worker.run()
    assert worker.ask(rq.Counters())["rejected"] == [{"host": 3, "reason": "ANNOUNCEMENT", "packets": 8}]


@pytest.mark.parametrize(
    ("config", "loss"),
    [
        ({}, 0.0),
        ({"policy": "random", "copies": 3}, 0.0),
        ({"ev": EvConfig(LossPolicy.PAPER), "window_pkts": 1024}, 0.05),
    ],
)
def test_a_flow_is_closed_on_every_path_after_its_last_first_transmission(config, loss):
    """The closing announcement tells what left by each spine, whatever happened to EVs meanwhile."""
    seen = {plane: [] for plane in range(2)}

    def watch(plane):
        return lambda frames, lengths: seen[plane].extend(bytes(f[:n]) for f, n in zip(frames, lengths, strict=True))

    worker = Worker(
        *(PathRule(source=0, plane=plane, alter=watch(plane)) for plane in range(2)),
        PathRule(source=0, plane=1, spine=2, loss=loss),
    )
    worker.write(0, 2, 3000 * 256, epoch=9, **config)
    for _ in range(200):
        worker.run(50)
        worker.commands.wiring.announcements.turn()
    for plane, frames in seen.items():
        sent, closed, last_data = np.zeros(4, int), [], 0
        for place, frame in enumerate(frames):
            packet = Ether(frame)
            spine = int(EvCodec().spine_of(np.array([packet[UDP].sport << 16 | packet[1].fl & 0xFFFF]))[0])
            if Announce in packet and packet[Announce].kind == AnnounceKind.CLOSE:
                closed.append((place, spine, packet[Announce].shares))
            elif METH in packet and not packet[BTH].rtx:
                sent[spine] += 1
                last_data = place
        assert sorted(spine for _, spine, _ in closed) == sorted([0, 1, 2, 3] * CLOSING_COPIES)
        assert closed[0][0] > last_data
        assert all(shares == sent.tolist() for _, _, shares in closed)
        assert sent.sum() > 1000
        if loss and plane == 1:
            assert sent[2] < 0.5 * sent[1], "the policy took the lossy value out, so an equal share would be wrong"


def test_a_flow_that_fails_is_closed_with_what_had_left():
    closes = []

    def watch(frames, lengths):
        closes.extend(bytes(f[:n]) for f, n in zip(frames, lengths, strict=True) if n not in (146, 404))

    worker = Worker(PathRule(source=0, alter=watch))
    write = worker.write(0, 2, 100_000, epoch=9)
    worker.run(1)
    worker.commands.engine.hosts[0].channels[write["qpn"]].qp.fail(worker.fabric.now_ns)
    worker.commands.wiring.announcements.turn()
    worker.run(1)
    found = [Ether(frame)[Announce] for frame in closes if Announce in Ether(frame)]
    told = [sum(each.shares) for each in found if each.kind == AnnounceKind.CLOSE]
    elsewhere = [sum(each.shares) for each in found if each.kind == AnnounceKind.ELSEWHERE]
    progress = {qp["host"]: qp for qp in worker.ask(rq.Progress())["qps"]}
    assert len(told) == 8
    assert sum(told) / 4 == progress[0]["packets_tx"]
    assert sum(elsewhere) == progress[0]["packets_tx"]


def test_what_was_sent_in_a_plane_is_told_in_the_others():
    """Plane 1 of host 0 is dead, and with it all that is said there."""
    seen = {plane: [] for plane in range(2)}

    def watch(plane):
        return lambda frames, lengths: seen[plane].extend(bytes(f[:n]) for f, n in zip(frames, lengths, strict=True))

    worker = Worker(*(PathRule(source=0, plane=plane, alter=watch(plane)) for plane in range(2)))
    worker.write(0, 2, 3000 * 256, epoch=9)
    for _ in range(40):
        worker.run(50)
        worker.commands.wiring.announcements.turn()
    said = {
        plane: [Ether(frame) for frame in frames if Announce in Ether(frame) and Ether(frame)[Announce].kind]
        for plane, frames in seen.items()
    }
    for plane, frames in said.items():
        own = [each[Announce].shares for each in frames if each[Announce].kind == AnnounceKind.CLOSE]
        elsewhere = [each for each in said[1 - plane] if each[Announce].kind == AnnounceKind.ELSEWHERE]
        assert [each[Announce].plane for each in elsewhere] == [plane] * CLOSING_COPIES
        assert all(each[Announce].shares == own[0] for each in elsewhere)
        paths = {each[UDP].sport << 16 | each[1].fl & 0xFFFF for each in said[0] if each[Announce].plane == 1}
    assert len(paths) == CLOSING_COPIES, "each over another path"


def test_evs_of_denied_links_are_denied_to_all_queue_pairs_and_to_those_to_come():
    """Hosts 0, 1 on leaf 0; 2, 3 on leaf 1. Up from leaf 0 over spine 2 of plane 1, and down to leaf 0 over spine 3."""
    up, down = DeniedLink(1, 0, 2, True), DeniedLink(0, 0, 3, False)
    worker = Worker()
    first, back = worker.connect(0, 2, copies=2)
    assert worker.ask(rq.SetDenied((up, down))) == {"evs": 4}
    later, _ = worker.connect(1, 3)
    local, _ = worker.connect(0, 1)

    def denied(end: dict) -> list[tuple]:
        rows = worker.ask(rq.Counters())["evs"]
        mine = (row for row in rows if row["qpn"] == end["qpn"] and row["state"] == "DENIED")
        return [(row["plane"], row["spine"]) for row in mine]

    assert (denied(first), denied(back), denied(later), denied(local)) == ([(1, 2)] * 2, [(0, 3)] * 2, [(1, 2)], [])
    assert worker.ask(rq.SetDenied((down,))) == {"evs": 3}
    assert (denied(first), denied(back)) == ([], [(0, 3)] * 2)
    assert worker.ask(rq.SetDenied(())) == {"evs": 0}
    assert denied(back) == []


def test_a_pair_below_one_leaf_is_not_announced():
    worker = Worker()
    worker.write(0, 1, 10_000, epoch=9)
    worker.run()
    assert worker.ask(rq.Counters())["rejected"] == []


def test_queue_pair_numbers_and_keys_are_unique():
    worker = Worker()
    ends = [worker.connect(*pair) for pair in ((0, 1), (0, 2), (2, 3))]
    numbers = [end["qpn"] for pair in ends for end in pair]
    assert len(set(numbers)) == 6
    assert all(end["qpn"] >> 12 == end["host"] for pair in ends for end in pair)
    first, second = (worker.ask(rq.RegisterRegion(0, 3 << 20, 1, "source")) for _ in range(2))
    assert second["va"] >= first["va"] + (3 << 20)
    assert first["rkey"] != second["rkey"]


def test_what_is_destroyed_is_gone():
    worker = Worker()
    write = worker.write(0, 2, 1000)
    worker.ask(rq.Destroy((rq.QpName(0, write["qpn"]),), (rq.RegionName(2, write["rkey"]),)))
    with pytest.raises(RequestError, match="no queue pair"):
        worker.ask(rq.Destroy((rq.QpName(0, write["qpn"]),)))
    with pytest.raises(CoreError, match="not registered"):
        worker.ask(rq.Verify(2, write["rkey"], 11))


@pytest.mark.parametrize("turns", [0, 5, 200], ids=["before it begins", "in mid-flow", "at its end"])
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"policy": "random", "copies": 2, "trimming": True},
        {"nscc": NsccConfig(), "ev": EvConfig(loss_policy=LossPolicy.THRESHOLD)},
        {"packet_interval_ns": 1000, "loss_rule": "both"},
    ],
    ids=["plain", "random", "congestion control", "paced"],
)
def test_what_is_destroyed_leaves_the_garbage_collector_nothing_to_do(config, turns):
    worker = Worker(PathRule(plane=1, spine=3, source=0, loss=0.1))
    gc.collect()
    gc.disable()
    try:
        write = worker.write(0, 2, 100_000, epoch=3, **config)
        worker.run(turns)
        hosts = worker.commands.engine.hosts
        worker.commands.wiring.turn(hosts.values())
        names = tuple(rq.RegionName(host, region.rkey) for host in hosts for region in hosts[host].regions)
        kept = [weakref.ref(region.data) for host in hosts.values() for region in host.regions]
        kept += [weakref.ref(channel.qp) for host in hosts.values() for channel in host.channels.values()]
        kept += [
            weakref.ref(channel.template.write_prefix) for host in hosts.values() for channel in host.channels.values()
        ]
        worker.ask(rq.Destroy((rq.QpName(0, write["qpn"]), rq.QpName(2, write["peer_qpn"])), names))
        worker.commands.wiring.turn(hosts.values())
        assert [ref() is None for ref in kept] == [True] * 6
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (rq.CreateQp(7, 0), "h7 is not driven by this worker"),
        (rq.CreateQp(0, 7), "h7 is not a host of this lab"),
        (rq.CreateQp(0, 0), "h0 cannot be its own peer"),
        (rq.CreateQp(0, 1, qp_settings(copies=0)), "copies is 0"),
        (rq.RegisterRegion(0, 0, 1, "source"), "region of 0 bytes"),
        (rq.ConnectQp(0, 5, rq.PeerEnd(1, 1, 1)), "h0 has no queue pair 0x5"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_what_cannot_be_done_is_said(request_, reason):
    with pytest.raises((RequestError, CoreError), match=reason):
        Worker().ask(request_)


def test_a_queue_pair_must_be_connected_to_the_host_it_was_made_for():
    worker = Worker()
    qpn = worker.ask(rq.CreateQp(0, 1))["qpn"]
    with pytest.raises(RequestError, match="was made for h1, not for h2"):
        worker.ask(rq.ConnectQp(0, qpn, rq.PeerEnd(2, 1, 1)))


def test_shutdown_sets_stop():
    worker = Worker()
    assert worker.ask(rq.Shutdown()) == {}
    assert worker.commands.stop.is_set()


@pytest.mark.parametrize(
    ("size", "message", "pmtu", "packets"), [(1, 1, 1, 1), (10, 4, 3, 5), (8, 4, 4, 2), (9, 100, 4, 3)]
)
def test_packets_of(size, message, pmtu, packets):
    assert packets_of(size, message, pmtu) == packets


def test_the_order_of_arrival_is_counted_by_receiving_queue_pair():
    worker = Worker(PathRule(plane=0, spine=2, source=0, delay_ns=200_000))
    write = worker.write(0, 2, 500 * 256)
    worker.run()
    told = {row["qpn"]: row for row in worker.ask(rq.Counters())["reordering"]}
    mine = told[write["peer_qpn"]]
    assert mine["in_order"] + sum(mine["late"]) == 500
    assert sum(mine["late"]) >= 500 // 8
    assert mine["most"].bit_length() == len(mine["late"])
    nothing = {"in_order": 0, "late": (), "most": 0, "duplicates": 0}
    assert told[write["qpn"]] == {"host": 0, "qpn": write["qpn"]} | nothing


def test_reverse_evs_are_told_one_a_plane():
    worker = Worker()
    worker.write(0, 2, 1000)
    rows = [row for row in worker.ask(rq.Counters())["evs"] if row["host"] == 2 and row["reverse"]]
    assert [row["plane"] for row in rows] == [0, 1]


def test_events_need_a_log(tmp_path):
    worker = Worker()
    with pytest.raises(RequestError, match="no event log"):
        worker.ask(rq.SetEvents("detail"))
    with EventLog(tmp_path / "log") as log:
        worker.commands = replace(worker.commands, log=log)
        worker.ask = worker.commands.serve
        worker.ask(rq.SetEvents("detail"))
        write = worker.write(0, 2, 100_000)
        worker.run()
        worker.ask(rq.Destroy((rq.QpName(0, write["qpn"]),)))
    written = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert {"MESSAGE_COMPLETE", "SACK_RX", "WRITE_TX"} <= {*written}


def test_a_shared_region_is_written_to_from_outside_and_closed():
    worker = Worker()
    end, other = worker.connect(0, 2)
    shared = [worker.ask(rq.ShareRegion(host, 3000)) for host in (0, 2)]
    sent, received = (map_shared(told["pid"], told["fd"], 3000) for told in shared)
    sent[:] = 5
    where = shared[1]["va"] + 1000, shared[1]["rkey"]
    reply = worker.ask(rq.PostWrite(0, end["qpn"], shared[0]["rkey"], 0, 2000, *where, 500))
    assert (reply["first_wr_id"], reply["messages"]) == (0, 4)
    worker.run()
    assert received.tolist() == [0] * 1000 + [5] * 2000
    worker.ask(rq.Destroy(regions=(rq.RegionName(2, shared[1]["rkey"]),)))
    with pytest.raises(OSError, match="No such file"):
        map_shared(shared[1]["pid"], shared[1]["fd"], 3000)
    assert worker.ask(rq.Completions(0, end["qpn"])) == {"completions": []}
    assert other["qpn"] != end["qpn"]


@pytest.mark.parametrize("size", [0, 1 << 62])
def test_memory_that_cannot_be_had_is_said(size):
    worker = Worker()
    for request in (rq.ShareRegion(0, size), rq.RegisterRegion(0, size, 1, "source")):
        with pytest.raises(RequestError, match="bytes"):
            worker.ask(request)


def test_denied_links_are_probed_when_asked_for_and_tell_what_came_of_it():
    worker, link = Worker(), DeniedLink(0, 0, 3, up=True)
    worker.write(0, 2, 4096)
    worker.run()
    assert worker.ask(rq.LinkProbesAsked()) == {"links": []}
    worker.ask(rq.SetDenied((link,), (link,)))
    for _ in range(20):
        worker.commands.wiring.turn(worker.commands.engine.hosts.values())
        worker.run(20)
    (told,) = worker.ask(rq.LinkProbesAsked())["links"]
    assert told == {"plane": 0, "leaf": 0, "spine": 3, "up": True, "answered": 19, "lost": 0}
    assert json.loads(json.dumps(told)) == told
    worker.ask(rq.SetDenied((link,)))
    assert worker.ask(rq.LinkProbesAsked()) == {"links": []}


def test_packets_that_a_queue_pair_refused_are_told_when_it_is_gone_too() -> None:
    worker = Worker()
    write = worker.write(0, 1, 1000)
    worker.run(100)
    worker.commands.engine.hosts[0].channels[write["qpn"]].qp._requester.counters.acks_rejected = 3
    rows = worker.ask(rq.Counters())["rejected"]
    assert {"host": 0, "reason": "ACK_NOT_OUTSTANDING", "packets": 3} in rows
    assert all(row["packets"] for row in rows)
    worker.ask(rq.Destroy((rq.QpName(0, write["qpn"]),), ()))
    assert worker.ask(rq.Counters())["rejected"] == rows
