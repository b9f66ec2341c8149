"""AF_PACKET transmit and receive rings (TPACKET_V2) of one interface as numpy views.

One socket and one mapping hold both rings.  Knows frames as bytes only.
Sources: Documentation/networking/packet_mmap.rst, linux/if_packet.h.
Ring words are read without barriers: right on x86-64, whose loads and stores are ordered.
"""

import contextlib
import math
import mmap
import socket
import struct
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agent.base.system_calls import inside
from agent.io.port import REFUSALS, FrameBlock, FrameSpace, PortCounters, PortOpenError, has_carrier, newly_dropped
from agent.wire.array.icrc import Runs

_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_VERSION = 5, 10
_PACKET_TX_RING, _PACKET_IGNORE_OUTGOING = 13, 23
_SO_SNDBUFFORCE = 32
_TPACKET_V2 = 1
_ETH_P_ALL = 3
# The tap must sit before clsact ingress, where frames of a host with an IP stack are dropped, and before
# ipv6_rcv; only taps for all protocols do.

_STATUS_KERNEL = 0
_KERNEL_WORD = np.array(_STATUS_KERNEL, np.uint32)
_STATUS_USER = 1
_USER_BIT = np.array(_STATUS_USER, np.uint32)
_STATUS_SEND_REQUEST = 1
_STATUS_SENDING = 2

_OFFSET_STATUS, _OFFSET_LENGTH, _OFFSET_SNAPLEN, _OFFSET_SECONDS = 0, 4, 8, 16  # struct tpacket2_hdr
TX_DATA = 32  # sizeof(struct tpacket2_hdr), aligned to 16
RX_DATA = 66  # align16(32 + sizeof(struct sockaddr_ll) + 16) - ETH_HLEN

LONGEST_FRAME = 4242
"""Bytes of a write of 4096 with its headers, with some room."""

_SLOT_ALIGN = 64  # our choice: a cache line, so that small slots do not share one
_BLOCK_LIMIT = 1 << 21  # our choice: one order-9 allocation of the kernel at most
_FIRST_LOOK = 16  # our choice: status words lie a slot apart, so reading a thousand costs a thousand cache misses
_SEND_ATTEMPTS = 4  # our choice: a queue that refuses this often in a row is full
_SEND_BUFFER_BYTES = 64 << 20  # our choice: a whole ring may wait in a queueing discipline


@dataclass(frozen=True, slots=True)
class RingGeometry:
    """Slots laid out without a gap: a block is a whole number of slots and of pages."""

    slot_bytes: int
    slots: int
    block_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return the bytes to map."""
        return self.slot_bytes * self.slots

    def request(self) -> bytes:
        """Return the `struct tpacket_req` that requests this ring."""
        return struct.pack("IIII", self.block_bytes, self.total_bytes // self.block_bytes, self.slot_bytes, self.slots)

    @classmethod
    def holding(cls, slots: int, frame_bytes: int, data_offset: int) -> "RingGeometry":
        """Compute the smallest ring with at least `slots` slots for frames of `frame_bytes`."""
        slot_bytes = _up(frame_bytes + data_offset, _SLOT_ALIGN)
        unit = math.lcm(slot_bytes, mmap.PAGESIZE)
        block_bytes = unit * max(1, min(_BLOCK_LIMIT, _up(slots * slot_bytes, unit)) // unit)
        return cls(slot_bytes, _up(slots * slot_bytes, block_bytes) // slot_bytes, block_bytes)


def rings_bytes(rx_slots: int, tx_slots: int, frame_bytes: int = LONGEST_FRAME) -> int:
    """Compute the bytes of memory of a port's two rings."""
    rx = RingGeometry.holding(rx_slots, frame_bytes, RX_DATA)
    return rx.total_bytes + RingGeometry.holding(tx_slots, frame_bytes, TX_DATA).total_bytes


def _run_of_ours(status: NDArray[np.uint32]) -> int:
    """Count the slots that belong to us, from the first on, by looking at growing numbers of them."""
    count, look = 0, _FIRST_LOOK
    while count < len(status):
        mine = status[count : count + look] & _USER_BIT
        first = int(mine.argmin())
        if not mine[first]:
            return count + first
        count, look = count + len(mine), 4 * look
    return count


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


class _Ring:
    """Views of one ring: a status and a length word per slot, and the frames."""

    def __init__(self, raw: NDArray[np.uint8], geometry: RingGeometry, data: int, length_word: int) -> None:
        slots = raw.reshape(geometry.slots, geometry.slot_bytes)
        words = slots.view(np.uint32)
        self.slots = geometry.slots
        self.frames = slots[:, data:]
        self.status = words[:, _OFFSET_STATUS // 4]
        self.length = words[:, length_word // 4]
        self.seconds = words[:, _OFFSET_SECONDS // 4]
        self.nanoseconds = words[:, _OFFSET_SECONDS // 4 + 1]
        self.head = 0
        self._runs = RowRuns(raw.data, geometry.slot_bytes, data, geometry.slots)

    def runs(self, count: int) -> Runs:
        """Return readers of the `count` rows from `head` on."""
        return partial(self._runs.of, self.head, self.head + count)


class PacketRingPort:
    """A `FramePort` over AF_PACKET rings. Open with `open_packet_ring`."""

    def __init__(self, sock: socket.socket, plane: int, rx: RingGeometry, tx: RingGeometry) -> None:
        mapping = mmap.mmap(sock.fileno(), rx.total_bytes + tx.total_bytes)
        raw = np.frombuffer(mapping, np.uint8)
        self._plane = plane
        self._socket = sock
        self._name = str(sock.getsockname()[0])
        self._rx = _Ring(raw[: rx.total_bytes], rx, RX_DATA, _OFFSET_SNAPLEN)
        self._tx = _Ring(raw[rx.total_bytes :], tx, TX_DATA, _OFFSET_LENGTH)
        # Reading one word of an idle ring through a memoryview costs a third of reading it with numpy.
        self._rx_words = memoryview(mapping)[: rx.total_bytes].cast("I")
        self._rx_words_per_slot = rx.slot_bytes // 4
        self._tx_tail = 0  # oldest slot the kernel may still hold
        self._tx_filled = 0  # slots before head that wait for send()
        self._rx_frames = self._rx_drops = self._tx_frames = self._tx_errors = 0

    @property
    def plane(self) -> int:
        """Return the plane of this port."""
        return self._plane

    def fileno(self) -> int:
        """Return the socket's descriptor, which is readable when frames wait."""
        return self._socket.fileno()

    def take_error(self) -> int:
        """Return and clear the socket's pending errno, 0 if none; until then the socket counts as readable.

        ENETDOWN means that the port went down or is gone.
        """
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def receive(self, limit: int) -> FrameBlock | None:
        """Return waiting frames, up to `limit` and up to the end of the ring; views until `release`."""
        ring, head = self._rx, self._rx.head
        if not self._rx_words[head * self._rx_words_per_slot] & _STATUS_USER:
            return None
        count = _run_of_ours(ring.status[head : head + limit])
        return FrameBlock(ring.frames[head : head + count], ring.length[head : head + count], ring.runs(count))

    def arrived_ns(self, count: int) -> NDArray[np.int64]:
        """Return when the `count` oldest waiting frames arrived, `(count,)` ns since 1970, by the kernel.

        Before `release`.

        `count` must not exceed what the last `receive` returned.
        """
        ring, rows = self._rx, slice(self._rx.head, self._rx.head + count)
        return ring.seconds[rows].astype(np.int64) * 1_000_000_000 + ring.nanoseconds[rows]

    def release(self, count: int) -> None:
        """Return the `count` oldest slots to the kernel."""
        ring = self._rx
        ring.status[ring.head : ring.head + count] = _STATUS_KERNEL
        ring.head = (ring.head + count) % ring.slots
        self._rx_frames += count

    def room(self) -> int:
        """Count the free transmit slots; one slot stays empty so that head never meets tail."""
        ring = self._tx
        return (self._tx_tail - ring.head - 1) % ring.slots

    def reserve(self, count: int) -> FrameSpace:
        """Return rows for up to `count` frames; fewer at the end of the ring, where the caller calls again."""
        ring = self._tx
        count = min(count, self.room(), ring.slots - ring.head)
        return FrameSpace(ring.frames[ring.head : ring.head + count], ring.runs(count))

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Mark the reserved rows ready to send with these lengths in bytes."""
        ring, count = self._tx, len(lengths)
        ring.length[ring.head : ring.head + count] = lengths
        ring.status[ring.head : ring.head + count] = _STATUS_SEND_REQUEST
        ring.head = (ring.head + count) % ring.slots
        self._tx_filled += count

    def send(self) -> int:
        """Send all filled rows with one system call; frames that the kernel keeps refusing are counted and dropped."""
        filled, self._tx_filled = self._tx_filled, 0
        if not filled:
            return 0
        refused = 0 if self._push() else self._withdraw(filled)
        self._reclaim()
        self._tx_frames += filled - refused
        self._tx_errors += refused
        return filled - refused

    def _push(self) -> bool:
        for _ in range(_SEND_ATTEMPTS):
            try:
                # Do not wait: a queueing discipline may hold frames for long, their slots just stay taken.
                self._socket.send(b"", socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno not in REFUSALS:
                    raise
            else:
                return True
        return False

    def _withdraw(self, filled: int) -> int:
        """Take back the frames that the kernel did not accept, so that its position in the ring equals ours again."""
        ring = self._tx
        places = (ring.head - filled + np.arange(filled)) % ring.slots
        status = ring.status[places]
        refused = places[(status != _STATUS_KERNEL) & (status != _STATUS_SENDING)]
        ring.status[refused] = _STATUS_KERNEL
        ring.head = (ring.head - len(refused)) % ring.slots
        return len(refused)

    def _reclaim(self) -> None:
        ring, tail = self._tx, self._tx_tail
        end = ring.head if ring.head >= tail else ring.slots
        held = ring.status[tail:end] != _KERNEL_WORD
        first = int(held.argmax()) if end > tail else 0
        done = first if end > tail and held[first] else end - tail
        self._tx_tail = (tail + done) % ring.slots
        if end == ring.slots and done == end - tail and ring.head:
            self._reclaim()  # the other half, after the end of the ring

    def carrier(self) -> bool:
        """Report whether the interface is up and running, read from the kernel in the interface's own namespace."""
        return has_carrier(self._socket, self._name)

    def counters(self) -> PortCounters:
        """Return the counters, with the kernel's own count of frames that found the ring full."""
        if self._socket.fileno() >= 0:
            self._rx_drops += newly_dropped(self._socket)
        return PortCounters(self._rx_frames, self._rx_drops, self._tx_frames, self._tx_errors)

    def close(self) -> None:
        """Close the socket and drop the views: the mapping lives until its last view is deleted."""
        if self._socket.fileno() >= 0:
            self.counters()
            self._socket.close()
            del self._rx, self._tx, self._rx_words


def open_packet_ring(
    interface: str,
    plane: int,
    *,
    netns: str | None = None,
    frame_bytes: int = LONGEST_FRAME,
    rx_slots: int = 2048,
    tx_slots: int = 1024,
) -> PacketRingPort:
    """Open the rings of `interface` in the network namespace at path `netns` (None: the present one).

    `frame_bytes` is the longest frame to carry, Ethernet header included; a longer one is truncated on arrival. Raises
    PortOpenError. Needs CAP_NET_RAW (and CAP_SYS_ADMIN to enter `netns`).
    """
    rx = RingGeometry.holding(rx_slots, frame_bytes, RX_DATA)
    tx = RingGeometry.holding(tx_slots, frame_bytes, TX_DATA)
    with contextlib.ExitStack() as undo:
        try:
            with inside(netns):
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                undo.callback(sock.close)
                _configure(sock, rx, tx)
                sock.bind((interface, _ETH_P_ALL))
            port = PacketRingPort(sock, plane, rx, tx)
        except OSError as error:
            raise PortOpenError(interface, netns, error.strerror or str(error)) from error
        undo.pop_all()
    return port


def _configure(sock: socket.socket, rx: RingGeometry, tx: RingGeometry) -> None:
    sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(_SOL_PACKET, _PACKET_RX_RING, rx.request())
    sock.setsockopt(_SOL_PACKET, _PACKET_TX_RING, tx.request())
    with contextlib.suppress(PermissionError):  # without CAP_NET_ADMIN the default is enough but for a slow queue
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)


_LENGTHS_KEPT = 4
"""Number of lengths whose runs are cached. Our choice: full packets, SACKs, transport ACKs and one more."""

_Columns = tuple[int, int]


class RowRuns:
    """Cuts the same columns of many rows, as views of the memory, cached once that pays.

    Making a view costs more than the CRC of its bytes (measured). Rows are reused again and again, and most frames have
    one of few lengths.
    """

    def __init__(self, memory: memoryview, stride: int, first_byte: int, rows: int) -> None:
        """Create a cache for rows of the flat `memory`: row i starts at byte `first_byte + i * stride`."""
        self._memory = memory
        self._stride = stride
        self._first_byte = first_byte
        self._rows = rows
        self._kept: dict[_Columns, list[memoryview]] = {}
        self._asked: dict[_Columns, int] = {}

    def of(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        """Return bytes start .. end - 1 of the rows first .. stop - 1."""
        kept = self._kept.get((start, end))
        if kept is not None:
            return kept[first:stop]
        asked = self._asked.get((start, end), 0) + stop - first
        if asked < self._rows:
            self._asked[start, end] = asked
            return self._cut(first, stop, start, end)
        # By now as many were cut as there are rows: at most twice the work is done in any case.
        while len(self._kept) >= _LENGTHS_KEPT:
            del self._kept[next(iter(self._kept))]
        self._asked.clear()
        self._kept[start, end] = self._cut(0, self._rows, start, end)
        return self._kept[start, end][first:stop]

    def _cut(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        base, length = self._first_byte + start, end - start
        places = range(base + first * self._stride, base + stop * self._stride, self._stride)
        return [self._memory[place : place + length] for place in places]
