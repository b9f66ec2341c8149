"""Interface of a leaf's eBPF programs and the control plane: names of programs and maps, and layouts of their records.

The C side includes headers generated from this. Loads and attaches nothing: the fabric's builder does that.
"""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from agent.wire.c_headers import c_struct, wire_headers

SOURCE = Path(__file__).parent / "bpf" / "leaf.bpf.c"

FROM_HOST = "from_host"
"""Program for the ingress of every host port: chooses announced flows, marks and counts their packets (F1 to F3)."""
FROM_SPINE = "from_spine"
"""Program for the ingress of every spine port: keeps announcements, counts and compares (SprayCheck D1, D3)."""

MEASURED = "measured"
"""Map, source leaf: destination QP (u4) to the MARK of a flow whose packets are marked."""
SELECTION = "selection"
"""Map, source leaf, one entry: SELECTED, which flow is measured and which destinations have had their turn (F1, F2)."""
FLOWS = "flows"
"""Map, destination leaf: destination QP (u4) to the flow record now counted."""
SUPERSEDED = "superseded"
"""Map, destination leaf: SUPERSEDED_KEY to a flow record that a newer announcement of the same QP ended."""
TESTS = "tests"
"""Map, destination leaf: destination QP (u4) to the TEST that the control plane wrote back (D2)."""
ELSEWHERE = "elsewhere"
"""Map, destination leaf: ELSEWHERE_KEY to the declaration of a flow in another plane (Counting.elsewhere)."""
REFUSED = "refused"
"""Map, either leaf: destination QP (u4) to the REFUSAL of a flow for which another map had no room. The oldest go."""

MAX_SPINES = 256
"""Most spines, and most leaves: as many as the 8-bit index of the address plan distinguishes."""

NARROW_MOST = 0xFFFF
"""Value at which a 16-bit counter stays. Our choice: if it wrapped, a loss of 65536 packets would not show."""

_WORD_BITS = 64

MARK = np.dtype(
    [
        ("since_ns", "u8"),  # since when the flow is measured
        ("last_psn", "u4"),  # in this plane
        ("epoch", "u2"),
        ("dst_leaf", "u2"),
        ("start_psn", "u4"),
        ("end_psn", "u4"),  # in any plane
        ("entered", "u4"),  # its first transmissions that have come from the host in this plane
    ],
    align=True,
)
"""A flow that this leaf measures as its source."""

SELECTED = np.dtype(
    [
        ("lock", "u4"),
        ("one", "u4"),  # 1: one flow at a time; 0: all
        ("reset_every_ns", "u8"),  # both bitmaps are emptied so often
        ("give_up_ns", "u8"),  # a flow that has not ended by then gives its place away
        ("priority", "u4"),  # skb->priority of marked packets, 0: untouched
        ("dqpn", "u4"),  # the flow that is measured now; 0: none
        ("epoch", "u4"),
        ("chosen", "u4"),  # how many have been chosen so far
        ("since_ns", "u8"),
        ("reset_ns", "u8"),
        ("available", "u8", MAX_SPINES // _WORD_BITS),  # bit = destination leaf to which flows were announced
        ("history", "u8", MAX_SPINES // _WORD_BITS),  # those that have had their turn
    ],
    align=True,
)

TEST = np.dtype([("threshold", "u4"), ("last_psn", "u4"), ("epoch", "u4")], align=True)
"""A count below `threshold` is flagged when the flow with this epoch and last PSN ends."""

SUPERSEDED_KEY = np.dtype([("dqpn", "u4"), ("epoch", "u4")])


ELSEWHERE_KEY = np.dtype([("dqpn", "u4"), ("epoch", "u2"), ("plane", "u2")])


class Place(IntEnum):
    """Table in which there was no room for a flow."""

    UNKNOWN = 0
    """FLOWS, for a packet that came before any announcement: the rest of the REFUSAL is not known."""
    MEASURED = 1
    FLOWS = 2
    SUPERSEDED = 3
    """The previous flow of the queue pair has no room here, and therefore goes on being counted."""
    UNANNOUNCED = 4
    """No table: the source leaf heard of the flow only when it closed, and has marked nothing of it."""


REFUSAL = np.dtype(
    [
        ("since_ns", "u8"),
        ("dqpn", "u4"),
        ("start_psn", "u4"),
        ("end_psn", "u4"),  # in any plane
        ("epoch", "u2"),
        ("src_leaf", "u2"),
        ("dst_leaf", "u2"),
        ("src_host", "u2"),
        ("dst_host", "u2"),
        ("plane", "u1"),
        ("place", "u1"),
    ],
    align=True,
)
"""A flow that this leaf does not measure: no room, or announced too late. Without padding, for the verifier."""


@dataclass(frozen=True, slots=True)
class Room:
    """Sizes of a leaf's tables, in flows. Our choice: more than the runs of some minutes bring."""

    measured: int = 16384
    """Flows that it measures as their source."""
    flows: int = 4096
    """Flows that it counts as their destination; as many again that newer flows of their queue pairs have ended."""
    refused: int = 1024
    """Flows remembered as having had no room."""


_HEADER = [
    ("seen_ns", "u8"),  # first marked packet or announcement; CLOCK_MONOTONIC, as all times here
    ("announced_ns", "u8"),  # 0 while the announcement has not come
    ("stopped_ns", "u8"),  # when the last PSN came; 0 before
    ("dqpn", "u4"),
    ("start_psn", "u4"),
    ("last_psn", "u4"),  # in this plane
    ("end_psn", "u4"),  # in any plane
    ("packets", "u4"),
    ("first_psn", "u4"),  # of the packet that came before the announcement, to distinguish its flow from an older one
    ("epoch", "u2"),
    ("spines", "u2"),
    ("src_leaf", "u2"),
    ("dst_leaf", "u2"),
    ("src_host", "u2"),
    ("dst_host", "u2"),
    ("plane", "u1"),
    ("policy", "u1"),
    ("compared", "u1"),  # 1: `flagged` was filled when the last PSN came
]


_ELSEWHERE = [
    ("seen_ns", "u8"),  # 0 while it is being written
    ("dqpn", "u4"),
    ("packets", "u4"),
    ("epoch", "u2"),
    ("spines", "u2"),
    ("src_leaf", "u2"),
    ("dst_leaf", "u2"),
    ("src_host", "u2"),
    ("dst_host", "u2"),
    ("plane", "u1"),
    ("policy", "u1"),
]


@dataclass(frozen=True, slots=True)
class Counting:
    """Format of a leaf's counters: number of spines, and 32 bits, or 16 as in the paper."""

    spines: int = MAX_SPINES
    narrow: bool = False

    @property
    def places(self) -> int:
        """Number of counters in an array: a power of two, so that a masked index is always inside."""
        return 1 << (self.spines - 1).bit_length()

    @property
    def counter_bytes(self) -> int:
        """Size of one flow's counts of arrivals."""
        return self.places * (2 if self.narrow else 4)

    @property
    def flow(self) -> np.dtype[np.void]:
        """Layout of one flow's record. With 16-bit counters it has no place for what the paper does not count."""
        places, words = self.places, -(-self.places // _WORD_BITS)
        flagged = [("flagged", "u8", words)]  # bit = spine whose count was below the threshold when the last PSN came
        if self.narrow:
            return np.dtype([*_HEADER, *flagged, ("arrived", "u2", places)], align=True)
        return np.dtype(
            [
                *_HEADER,
                *flagged,
                ("closed_ns", "u8"),  # when the first closing announcement came; 0 before
                ("barrier", "u1", places),  # 1: a closing announcement came over this spine
                ("arrived", "u4", places),  # first transmissions by arrival spine, up to and with the last PSN
                ("late", "u4", places),  # the same after the last PSN: overtaken on another path
                ("again", "u4", places),  # retransmissions
                ("trimmed", "u4", places),  # those of `arrived` and `late` that lost their payload on the way
                ("sent", ">u4", places),  # first transmissions as the sender declared them
            ],
            align=True,
        )

    @property
    def elsewhere(self) -> np.dtype[np.void]:
        """Layout of the declaration of a flow in another plane."""
        return np.dtype([*_ELSEWHERE, ("sent", ">u4", self.places)], align=True)


FLOW = Counting().flow


def headers(first_spine_ifindex: int, counting: Counting | None = None, room: Room | None = None) -> dict[str, str]:
    """Generate the C headers that SOURCE includes, by file name.

    `first_spine_ifindex` is the interface index of the port to spine 0 on every leaf; those of the others follow it.
    """
    return {**wire_headers(), "leaf.h": _leaf_header(first_spine_ifindex, counting or Counting(), room or Room())}


def _leaf_header(first_spine_ifindex: int, counting: Counting, room: Room) -> str:
    numbers = {
        "MAX_SPINES": counting.places,
        "MAX_LEAVES": MAX_SPINES,
        "WORD_BITS": _WORD_BITS,
        "NARROW": int(counting.narrow),
        "NARROW_MOST": NARROW_MOST,
        "FIRST_SPINE_IFINDEX": first_spine_ifindex,
        "MEASURED_MOST": room.measured,
        "FLOWS_MOST": room.flows,
        "REFUSED_MOST": room.refused,
        **{f"PLACE_{place.name}": int(place) for place in Place},
    }
    lines = ["/* Generated from agent.spraycheck.leaf.bpf_layout; do not edit. */"]
    lines += ["#ifndef SPRAYLAB_LEAF_H", "#define SPRAYLAB_LEAF_H", "", "#include <linux/types.h>", ""]
    lines += [f"#define {name} {value}" for name, value in numbers.items()] + [""]
    lines += c_struct("flow", counting.flow) + c_struct("superseded_key", SUPERSEDED_KEY)
    lines += c_struct("mark", MARK) + c_struct("selected", SELECTED) + c_struct("test", TEST)
    lines += c_struct("refusal", REFUSAL) + c_struct("elsewhere_key", ELSEWHERE_KEY)
    lines += c_struct("elsewhere", counting.elsewhere)
    return "\n".join([*lines, "#endif", ""])
