"""What the leaf's eBPF programs and the control plane share: names, and the layout of a flow's record, stated once.

The C side includes headers generated from this. Loads and attaches nothing: who builds the fabric does that.
"""

from pathlib import Path

import numpy as np

from agent.wire import dtypes

SOURCE = Path(__file__).parent / "bpf" / "leaf.bpf.c"

FROM_HOST = "from_host"
"""Program for the ingress of every host port: notes announced flows and marks their packets (SprayCheck F1, F3)."""
FROM_SPINE = "from_spine"
"""Program for the ingress of every spine port: keeps announcements and counts marked packets (SprayCheck D1, D3)."""

MEASURED = "measured"
"""Map, source leaf: destination QP (u4) to when it was announced last (u8, ns)."""
FLOWS = "flows"
"""Map, destination leaf: destination QP (u4) to the FLOW now counted."""
SUPERSEDED = "superseded"
"""Map, destination leaf: SUPERSEDED_KEY to a FLOW that a newer announcement of the same QP ended."""

MAX_SPINES = 256
"""As many as the address plan's 8-bit index tells apart."""

FLOW = np.dtype(
    [
        ("seen_ns", "u8"),  # first marked packet or announcement; CLOCK_MONOTONIC, as all times here
        ("announced_ns", "u8"),  # 0 while the announcement has not come
        ("stopped_ns", "u8"),  # when the last PSN came; 0 before
        ("dqpn", "u4"),
        ("start_psn", "u4"),
        ("last_psn", "u4"),
        ("packets", "u4"),
        ("first_psn", "u4"),  # of the packet that came before the announcement, to tell its flow from an older one
        ("epoch", "u2"),
        ("spines", "u2"),
        ("src_leaf", "u2"),
        ("dst_leaf", "u2"),
        ("src_host", "u2"),
        ("dst_host", "u2"),
        ("plane", "u1"),
        ("policy", "u1"),
        ("arrived", "u4", MAX_SPINES),  # by arrival spine, up to and with the last PSN
        ("late", "u4", MAX_SPINES),  # the same after the last PSN: overtaken on another path
    ],
    align=True,
)
SUPERSEDED_KEY = np.dtype([("dqpn", "u4"), ("epoch", "u4")])

_C_TYPES = {1: "__u8", 2: "__u16", 4: "__u32", 8: "__u64"}


def headers(first_spine_ifindex: int) -> dict[str, str]:
    """The C headers that SOURCE includes, by file name.

    `first_spine_ifindex` is the interface index of the port to spine 0 on every leaf; those of the others follow it.
    """
    return {"mrc.h": dtypes.c_header(), "leaf.h": _leaf_header(first_spine_ifindex)}


def _leaf_header(first_spine_ifindex: int) -> str:
    lines = ["/* Generated from agent.spraycheck.dataplane; do not edit. */"]
    lines += ["#ifndef SPRAYLAB_LEAF_H", "#define SPRAYLAB_LEAF_H", "", "#include <linux/types.h>", ""]
    lines += [f"#define MAX_SPINES {MAX_SPINES}", f"#define FIRST_SPINE_IFINDEX {first_spine_ifindex}", ""]
    lines += _struct("flow", FLOW) + _struct("superseded_key", SUPERSEDED_KEY)
    return "\n".join([*lines, "#endif", ""])


def _struct(name: str, layout: np.dtype[np.void]) -> list[str]:
    """A C struct of the layout, and a compile-time proof that both sides see the same size."""
    assert layout.fields is not None
    lines = [f"struct {name} {{"]
    for field, (kind, *_) in layout.fields.items():
        many = f"[{kind.shape[0]}]" if kind.shape else ""
        lines.append(f"\t{_C_TYPES[kind.base.itemsize]} {field}{many};")
    return [*lines, "};", f'_Static_assert(sizeof(struct {name}) == {layout.itemsize}, "{name}");', ""]
