"""What a run waits for while nothing more is acknowledged: which flows, how many packets, which paths are silent.

Pure: what workers told in, a sentence out.
"""

from collections.abc import Collection, Sequence

from agent.wire.ev import EvCodec
from results.numbers_text import count_text
from scenarios.workload.traffic import FlowProgress

WAITS_AFTER_S = 1.0
"""Without one more acknowledged byte for so long, what is waited for is worth more than a guess of the time left."""

_NAMED = 3
"""Flows or paths that are named; the others are counted."""


def waits_text(names: Sequence[str], progress: Sequence[FlowProgress], seconds: float) -> str:
    """What flows of (n,) names wait for, `seconds` after the last acknowledged byte; empty if all have ended."""
    waiting = [(name, flow) for name, flow in zip(names, progress, strict=True) if not flow.ended and flow.posted_bytes]
    if not waiting:
        return ""
    whose = "waits" if len(waiting) == 1 else "wait"
    packets = sum(flow.in_flight_pkts + flow.backlog_pkts for _, flow in waiting)
    text = f"nothing acknowledged for {seconds:.0f} s; {_listed([name for name, _ in waiting], 'flow')} {whose} for "
    text += count_text(packets, "packet") if packets else "the ACK of what has arrived"
    silent = sorted({path for _, flow in waiting for path in flow.silent_evs})
    return text + (f"; nothing comes back over {_listed([_path_text(ev) for ev in silent], 'path')}" if silent else "")


def _listed(names: Collection[str], noun: str) -> str:
    named = list(dict.fromkeys(names))
    rest = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {count_text(rest, f'more {noun}')}" if rest > 0 else "")


def _path_text(ev: int) -> str:
    path = EvCodec().path_of(ev)
    return f"plane {path.plane}" + ("" if path.spine is None else f" spine {path.spine}")
