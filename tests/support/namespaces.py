"""Throwaway labs, taps and interface counters for tests that run as root."""

import itertools
import mmap
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.emulation.network import FabricNet
from testbed.kernel.netns import delete_all_namespaces, inside
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import namespace_prefix

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and veth")

ETH_P_ALL, ETH_P_IPV6 = 0x0003, 0x86DD
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, TPACKET_V2 = 263, 5, 10, 1  # linux/if_packet.h
PACKET_OUTGOING, TP_STATUS_USER = 4, 1
SLL_OFFSET = 32
"""Where a frame of the ring holds its sockaddr_ll: behind `struct tpacket2_hdr`."""

_numbers = itertools.count()


def fresh_lab() -> str:
    """A lab name nobody else uses: `t`, the process, a number; at most ten characters."""
    return f"t{os.getpid() % 10**6}x{next(_numbers)}"


@contextmanager
def removed_lab() -> Iterator[str]:
    """A fresh lab name; whatever the body leaves under it is removed."""
    lab = fresh_lab()
    try:
        yield lab
    finally:
        delete_all_namespaces(namespace_prefix(lab))


@contextmanager
def built(spec: FabricSpec) -> Iterator[FabricNet]:
    """A running lab of this size, always taken down."""
    with removed_lab() as lab, FabricNet.of(Fabric.of(spec), lab) as net:
        yield net


@dataclass(frozen=True)
class Seen:
    """A packet at a tap. `outgoing` as the tapped interface sees it."""

    ifindex: int
    outgoing: bool
    frame: bytes

    @property
    def outer_destination(self) -> bytes:
        """16 bytes of the outermost IPv6 destination address."""
        return self.frame[38:54]


class Tap:
    """A packet socket inside a namespace, on one interface or on all of them.

    It reads from a ring (TPACKET_V2, packet(7)), into which the kernel copies a packet when it passes. A plain receive
    copies later and shows the address as the next shift has already left it; see "Reading a capture" in
    docs/address-plan.md.
    """

    _FRAME_BYTES, _FRAMES, _HEADER = 2048, 256, struct.Struct("=IIIHH")

    def __init__(self, opened: socket.socket, ring: mmap.mmap) -> None:
        self._socket, self._ring = opened, ring
        self._next = 0

    @classmethod
    @contextmanager
    def open(cls, namespace: Path, interface: str | None = None, protocol: int = ETH_P_ALL) -> Iterator["Tap"]:
        """Without `interface` the tap sees every interface of the namespace, those made later too."""
        with ExitStack() as stack:
            with inside(namespace):
                listening = 0 if interface else socket.htons(protocol)
                opened = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, listening))
                if interface:
                    opened.bind((interface, protocol))
            request = struct.pack("=IIII", 4096, cls._FRAMES // 2, cls._FRAME_BYTES, cls._FRAMES)
            opened.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
            opened.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
            yield cls(opened, stack.enter_context(mmap.mmap(opened.fileno(), cls._FRAMES * cls._FRAME_BYTES)))

    def send(self, frame: bytes, interface: str) -> None:
        """Send from an interface of the namespace; the tap itself does not see that."""
        self._socket.sendto(frame, (interface, ETH_P_IPV6))

    def drain(self) -> list[Seen]:
        """All packets seen since the last call."""
        seen = []
        while True:
            at = self._next % self._FRAMES * self._FRAME_BYTES
            status, _, length, start, _ = self._HEADER.unpack_from(self._ring, at)
            if not status & TP_STATUS_USER:
                return seen
            ifindex, _, kind = struct.unpack_from("=iHB", self._ring, at + SLL_OFFSET + 4)
            seen.append(Seen(ifindex, kind == PACKET_OUTGOING, self._ring[at + start : at + start + length]))
            self._ring[at : at + 4] = bytes(4)
            self._next += 1


def counters(namespace: Path) -> dict[str, tuple[int, int]]:
    """Received and sent packets of each interface of a namespace."""
    with inside(namespace):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    rows = (line.replace(":", " ").split() for line in lines)
    return {row[0]: (int(row[2]), int(row[10])) for row in rows}


def wait_until(holds: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    """Poll until the condition holds; fails the test at the deadline."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s} s: {what}")
        time.sleep(0.005)
