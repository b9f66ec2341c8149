"""A fault by eBPF that comes and goes on a switch's port under traffic takes the packets that it is to take only."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faults.inject import Injector, injector_of
from faults.kinds import By, CountedDrop
from faults.mechanisms.base import Target, target_of
from testbed.emulation.network import FabricNet
from testbed.kernel.netns import inside
from testbed.model.fabric import FabricSpec
from testbed.model.name_parsing import parse_link
from tests.support.namespaces import built, counters, needs_root, wait_until

pytestmark = [
    pytest.mark.root,
    needs_root,
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF"),
]

FRAME = b"\x02" * 12 + b"\x88\xb5" + bytes(100)  # local experimental EtherType, IEEE 802


class Stream:
    """Frames out of a port, one behind the other; what the port's other end receives is what arrived."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._ended = threading.Event()
        self.sent = 0

    def arrived(self) -> int:
        assert self._target.far_namespace is not None
        return counters(self._target.far_namespace)[self._target.far_interface][0]

    @contextmanager
    def flowing(self) -> Iterator[None]:
        thread = threading.Thread(target=self._send)
        thread.start()
        try:
            wait_until(lambda: self.sent > 1000, "the stream flows")
            yield
            self.goes_on()
        finally:
            self._ended.set()
            thread.join()

    def goes_on(self) -> None:
        now = self.sent
        wait_until(lambda: self.sent > now + 1000, "the stream still flows")

    def _send(self) -> None:
        with inside(self._target.namespace):
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        with opened:
            opened.bind((self._target.interface, 0))
            while not self._ended.is_set():
                opened.send(FRAME)
                self.sent += 1


@pytest.fixture(scope="module")
def net() -> Iterator[FabricNet]:
    with built(FabricSpec(planes=1, leaves=2, spines=1, hosts_per_leaf=1)) as up:
        yield up


@pytest.fixture
def injector(tmp_path) -> Iterator[Injector]:
    with injector_of(tmp_path) as made:
        yield made


@pytest.mark.parametrize("link", ["p0:spine0>leaf1", "p0:leaf0>spine0", "p0:leaf1>h1"])
def test_a_fault_set_and_cleared_under_traffic_costs_no_other_packet(net, injector, link):
    (way,) = parse_link(link, net.fabric)
    target = target_of(net.lab, net.fabric, way)
    stream = Stream(target)
    before = stream.arrived()
    with stream.flowing():
        injector.set(target, CountedDrop(every=100), By.EBPF)
        stream.goes_on()
        (cleared,) = injector.clear(str(way))
    assert cleared.dropped >= 10
    assert stream.sent - (stream.arrived() - before) == cleared.dropped
