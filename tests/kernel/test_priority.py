"""Two queues in one rate, with real packets: what has the mark overtakes all that waits without it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from agent.spraycheck.leaf import bpf_layout
from agent.spraycheck.leaf.bpf_layout import SELECTED
from agent.wire.dtypes import ANNOUNCE_FRAME, WRITE_FRAME, offset_of
from testbed.kernel.bpf import programs as bpf
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.ports import priority, qdisc
from testbed.kernel.ports.qdisc import Direction
from tests.support.veth_pair import End, veth_pair
from tests.support.wire_frames import DQPN, announcement, write_frames

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and eBPF"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF"),
]

WRITE_DQPN = offset_of(WRITE_FRAME, "bth", "dqp_word") + 1
FLOOD = 200
RATE = 20_000  # bytes a second: some 108 frames of the flood leave at once, the rest waits for most of a second


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    with veth_pair() as pair:
        yield pair


def test_what_is_set_is_read_back_and_gone_when_removed(ends):
    a, _ = ends
    before = a.kernel_state()
    with Rtnl.inside(a.name, a.path) as rtnl:
        first, rest = priority.set_priority(rtnl, a.ifindex(), RATE)
        assert (first.bytes_per_s, rest.bytes_per_s) == (RATE, RATE)
        assert first.prio < rest.prio
        fast = priority.set_priority(rtnl, a.ifindex(), 10 * 10**9)[0]
        assert fast.bytes_per_s == 10 * 10**9, "set anew, and beyond 32 bits"
        priority.remove_priority(rtnl, a.ifindex())
        priority.remove_priority(rtnl, a.ifindex())
    assert a.kernel_state() == before


@pytest.mark.parametrize("first_class", [True, False], ids=["with", "without"])
def test_packets_of_the_measured_flow_overtake_what_waits(ends, first_class, tmp_path):
    a, b = ends
    flood, marked = write_frames(range(FLOOD), dqpn=0x5001), write_frames(range(10))
    with ExitStack() as held:
        built = bpf.build(bpf_layout.SOURCE, bpf_layout.headers(100, bpf_layout.Counting(2)), Path(tmp_path))
        loaded = held.enter_context(bpf.load(built))
        record = np.zeros((), SELECTED)
        record["priority"] = priority.FIRST_CLASS if first_class else 0
        loaded.map(bpf_layout.SELECTION).update(bytes(4), record.tobytes())
        rtnl = held.enter_context(Rtnl.inside(a.name, a.path))
        fd = loaded.program(bpf_layout.FROM_HOST).fd
        qdisc.attach_program(rtnl, a.ifindex(), Direction.EGRESS, 1, fd, bpf_layout.FROM_HOST)
        tap = held.enter_context(b.socket())
        a.send([announcement(packets=10, start_psn=0, last_psn=9)])
        priority.set_priority(rtnl, a.ifindex(), RATE)
        a.send([*flood, *marked])
        arrived = [tap.recv(4096) for _ in range(FLOOD + 11)]
        first, rest = priority.read_priority(rtnl, a.ifindex())
    places = [place for place, frame in enumerate(arrived) if is_of(frame, DQPN)]
    assert len(places) == 11, "the announcement, before there was a queue, and the flow"
    assert (first.packets, rest.packets) == ((10, FLOOD) if first_class else (0, FLOOD + 10))
    assert (first.drops, rest.drops) == (0, 0)
    assert (max(places) < 180) is first_class


def is_of(frame: bytes, dqpn: int) -> bool:
    """Whether it is the flow's: its announcement, or a write to its queue pair."""
    return frame[WRITE_DQPN : WRITE_DQPN + 3] == dqpn.to_bytes(3, "big") or len(frame) == ANNOUNCE_FRAME.itemsize
