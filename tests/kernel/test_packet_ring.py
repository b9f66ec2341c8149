"""AF_PACKET rings over a veth pair between two throwaway network namespaces: what the kernel really does."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.base.system_calls import inside
from agent.io.packet_ring import PacketRingPort, open_packet_ring
from agent.io.port import PortOpenError
from tests.support.backlog import until_delivered

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and AF_PACKET"),
]

NAMES = (f"spraylab-ring-{os.getpid()}-a", f"spraylab-ring-{os.getpid()}-b")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """Paths of two namespaces joined by one veth, called `wire` on both ends, IPv6 off."""
    with contextlib.ExitStack() as undo:
        for name in NAMES:
            ip("netns", "add", name)
            undo.callback(ip, "netns", "del", name)
            with inside(f"/run/netns/{name}"):
                Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        ends = [["name", "wire", "mtu", "9000", "netns", name] for name in NAMES]
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for name in NAMES:
            ip("-n", name, "link", "set", "wire", "up")
        yield f"/run/netns/{NAMES[0]}", f"/run/netns/{NAMES[1]}"


@contextlib.contextmanager
def ports(pair: tuple[str, str], **options: int) -> Iterator[tuple[PacketRingPort, PacketRingPort]]:
    with contextlib.ExitStack() as undo:
        opened = []
        for netns in pair:
            opened.append(open_packet_ring("wire", 3, netns=netns, **options))
            undo.callback(opened[-1].close)
        yield opened[0], opened[1]


def numbered(rows: np.ndarray, first: int, length: int) -> np.ndarray:
    """Fill frames of `length` bytes whose every byte depends on the frame's number."""
    numbers = np.arange(first, first + len(rows))
    rows[:, :length] = (numbers[:, None] * 7 + np.arange(length)) & 0xFF
    rows[:, 12:14] = (0x86, 0xDD)
    rows[:, 14:18] = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
    return rows[:, :length].copy()


def send(port: PacketRingPort, count: int, first: int, length: int) -> np.ndarray:
    """Send `count` numbered frames, across the end of the ring if need be."""
    sent = []
    while count:
        rows = port.reserve(count).frames
        sent.append(numbered(rows, first, length))
        port.fill(np.full(len(rows), length, np.uint32))
        first, count = first + len(rows), count - len(rows)
    port.send()
    until_delivered()
    return np.concatenate(sent)


def drain(port: PacketRingPort, limit: int = 4096) -> list[bytes]:
    frames = []
    while block := port.receive(limit):
        frames += [row[:length].tobytes() for row, length in zip(block.frames, block.lengths, strict=True)]
        port.release(len(block.frames))
    return frames


@pytest.mark.parametrize("length", [60, 166, 1414, 4094])
def test_frames_cross_unchanged_and_in_order_many_times_round_both_rings(pair, length):
    with ports(pair, rx_slots=96, tx_slots=80) as (a, b):
        for turn in range(40):
            sent = send(a, 70, turn * 70, length)
            assert drain(b) == [row.tobytes() for row in sent]
        assert b.counters().rx_frames == a.counters().tx_frames == 2800
        assert b.counters().rx_drops == 0
        assert a.receive(10) is None, "own frames must not come back"


def test_a_full_receive_ring_is_counted_by_the_kernel(pair):
    with ports(pair, rx_slots=64, tx_slots=2048, frame_bytes=400) as (a, b):
        slots = b._rx.slots
        send(a, slots + 100, 0, 166)
        assert b.counters().rx_drops == 100
        assert len(drain(b)) == slots
        assert b.counters().rx_drops == 100, "reading must not reset what was read"


def test_receive_gives_at_most_the_limit_and_keeps_the_rest(pair):
    with ports(pair) as (a, b):
        sent = send(a, 50, 0, 166)
        block = b.receive(20)
        assert block is not None
        assert len(block.frames) == 20
        b.release(20)
        assert drain(b) == [row.tobytes() for row in sent[20:]]


def test_a_frame_longer_than_a_slot_arrives_cut_short(pair):
    with contextlib.closing(open_packet_ring("wire", 0, netns=pair[0])) as a:
        b = open_packet_ring("wire", 0, netns=pair[1], frame_bytes=254)
        send(a, 1, 0, 1000)
        block = b.receive(1)
        assert block is not None
        assert block.lengths[0] == b._rx.frames.shape[1] < 1000
        b.close()


def test_a_port_that_is_down_counts_errors_and_works_again_when_up(pair):
    with ports(pair) as (a, b):
        send(a, 10, 0, 166)
        ip("-n", NAMES[0], "link", "set", "wire", "down")
        send(a, 30, 10, 166)
        assert (a.counters().tx_frames, a.counters().tx_errors) == (10, 30)
        assert a.room() == a._tx.slots - 1
        ip("-n", NAMES[0], "link", "set", "wire", "up")
        drain(b)
        sent = send(a, 5, 40, 166)
        assert drain(b) == [row.tobytes() for row in sent]


def test_frames_held_by_a_queueing_discipline_keep_their_slots(pair):
    limits = ["rate", "8mbit", "burst", "2000", "limit", "1000000"]
    tc = ["tc", "-n", NAMES[0], "qdisc", "add", "dev", "wire", "root", "tbf", *limits]
    if subprocess.run(tc, capture_output=True, check=False).returncode:
        pytest.skip("kernel has no TBF queueing discipline (CONFIG_NET_SCH_TBF)")
    with ports(pair) as (a, _):
        send(a, 40, 0, 1000)
        assert a.room() < a._tx.slots - 1
        assert a.counters().tx_errors == 0


def test_opening_what_does_not_exist_says_where(pair):
    with pytest.raises(PortOpenError, match=rf"nosuch in {pair[0]}: No such device"):
        open_packet_ring("nosuch", 0, netns=pair[0])
    with pytest.raises(PortOpenError, match="/run/netns/spraylab-nowhere: No such file"):
        open_packet_ring("wire", 0, netns="/run/netns/spraylab-nowhere")


def test_opening_and_closing_returns_descriptors_and_namespace(pair):
    here = os.readlink("/proc/self/ns/net")
    before = len(os.listdir("/proc/self/fd"))
    with ports(pair) as (a, _):
        pass
    a.close()
    assert os.readlink("/proc/self/ns/net") == here
    assert len(os.listdir("/proc/self/fd")) == before
    taps = subprocess.run(["ip", "netns", "exec", NAMES[0], "cat", "/proc/net/packet"], capture_output=True, check=True)
    assert len(taps.stdout.splitlines()) == 1, "the tap must be gone with the port"
