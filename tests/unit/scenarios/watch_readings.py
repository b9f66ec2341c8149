"""Readings of a lab of two planes, leaves and spines, as `spraylab watch` makes them, and views of larger ones."""

from typing import Any

from results.files.event_log import timestamp
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import ChildStatus, FaultState, LabStatus
from scenarios.watch.snapshot import (
    Detection,
    EvReading,
    FaultView,
    FlowView,
    HostEvs,
    LinkView,
    QpReading,
    Reading,
    View,
)
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(2, 2, 2, 1))
BAD = "p1:leaf0>spine1"
SECOND = 1_000_000_000


def fault(seen: int = 0, dropped: int = 0, **told: Any) -> FaultState:
    words = {"requested_text": "2%", "in_force_text": "2%"} | told
    return FaultState(BAD, "random-drop", 0.02, 0.02, "ebpf", "hand", "", seen, dropped, dropped, **words)


def status(epoch: int = 1, faults: tuple[FaultState, ...] = (), state: str = "running") -> LabStatus:
    children = (ChildStatus("worker0", ProcessId(10, 1), state),)
    return LabStatus("lab", ProcessId(9, 1), timestamp(0), 2, 2, 2, 1, False, 9000, 1, (), epoch, children, faults, ())


def sender(acked: int, host: int = 0, qpn: int = 1, posted: int = 1_000_000, **told: Any) -> QpReading:
    return QpReading(host, qpn, 1 - host, "RTS", posted, acked, 0, **told)


def ev(plane: int, spine: int, sent: int, lost: int = 0, state: str = "GOOD", qpn: int = 1) -> EvReading:
    return EvReading(0, qpn, plane << 8 | spine, plane, spine, state, sent, 0, lost, 0)


def reading(after_s: float, **told: Any) -> Reading:
    ns = int(after_s * SECOND)
    return Reading(ns, timestamp(1_800_000_000 * SECOND + ns), told.pop("status", status()), True, **told)


def localize(links: list[str], after_s: float = 1.0, epoch: int = 1, **told: Any) -> dict[str, Any]:
    told = {"candidates": [], "common": [], "pending": 0, "expectation": "uniform"} | told
    head = {"ts": timestamp(int(after_s * SECOND)), "mono_ns": 0, "v": 1, "node": "monitor", "event": "LOCALIZE"}
    return head | {"epoch": epoch, "state": "named", "links": links} | told


def large_view(planes: int = 2, leaves: int = 8, spines: int = 8, bad: bool = True, flows: int = 16) -> View:
    """A lab in the middle of a run; one link drops 1 % and is named, if `bad`."""
    links = []
    for plane in range(planes):
        for leaf in range(leaves):
            for spine in range(spines):
                hit = bad and (plane, leaf, spine) == (planes - 1, leaves - 1, spines - 1)
                up, down = f"p{plane}:leaf{leaf}>spine{spine}", f"p{plane}:spine{spine}>leaf{leaf}"
                links.append(LinkView(up, plane, leaf, spine, True, 8192, 0.0098 if hit else 0.0, int(hit), hit))
                links.append(LinkView(down, plane, leaf, spine, False, 8192, 0.0, 0, False))
    link = f"p{planes - 1}:leaf{leaves - 1}>spine{spines - 1}"
    named = Detection("2026-03-04T05:06:11.500000Z", "monitor", f"names {link} (uniform)")
    return View(
        lab="lab", ts="2026-03-04T05:06:12.000000Z", started="2026-03-04T05:00:00.000000Z", run=3, running=True,
        planes=planes, leaves=leaves, spines=spines, hosts=leaves, seconds=1.01, links=tuple(links),
        flows=tuple(
            FlowView(f"h{at % leaves}", f"h{(at + 1) % leaves}", at << 12 | 1, "RTS", 1 << 24, 1 << 23, 40, 22.25e6,
                     destination_qpn=at + 1 << 12 | 1, total_bytes=1 << 24)
            for at in range(flows)
        ),
        evs=tuple(
            HostEvs(f"h{at}", {"GOOD": 31, "ASSUMED_BAD": 1} if at == leaves - 1 else {"GOOD": 32},
                    (f"p{planes - 1}:spine{spines - 1} ASSUMED_BAD",) if at == leaves - 1 else ())
            for at in range(leaves)
        ),
        faults=(FaultView(link, "random-drop", "1%", "1%", 8194, 80, "hand"),) if bad else (),
        verdicts={"healthy": 254, "failed": 2} if bad else {"healthy": 256},
        paths={},
        detections=(named,) if bad else (), troubles=(),
    )  # fmt: skip
