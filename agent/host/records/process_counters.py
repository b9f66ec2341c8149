"""Counters of the worker: packets that its hosts rejected, by reason, and its own CPU time.

Rejections are by the wire format, by queue pairs or by neighbours. Counts of a queue pair are lost when it is
destroyed, unless the caller keeps them. CPU time: Documentation/scheduler/sched-stats.rst.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.io.host_runtime import Channel, HostRuntime


def rejections(runtime: HostRuntime, gone: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each reason that has occurred since the start: `host`, `reason`, `packets`.

    `gone` holds the counts of destroyed queue pairs.
    """
    for reason, packets in (_counted(runtime) + gone).items():
        yield {"host": runtime.host, "reason": reason, "packets": packets}


def rejected_by(channel: Channel) -> Counter[str]:
    """Count packets that one queue pair refused, by reason."""
    progress = channel.qp.progress()
    requester, responder = progress.requester, progress.responder
    return Counter(
        SACK_NOT_OUTSTANDING=requester.sacks_rejected,
        ACK_NOT_OUTSTANDING=requester.acks_rejected,
        NACK_NOT_OUTSTANDING=requester.nacks_rejected,
        OUT_OF_WINDOW=responder.out_of_window,
        INVALID_REQUEST=responder.invalid,
        ACCESS_ERROR=responder.access_errors,
    )


def _counted(runtime: HostRuntime) -> Counter[str]:
    counts = Counter({reason.name: count for reason, count in runtime.rejected.items()})
    counts.update(
        UNKNOWN_QP=runtime.unknown_qp,
        NOT_ITS_PEER=runtime.not_its_peer,
        UNKNOWN_HOST=runtime.neighbours.unknown,
        TX_OVERFLOW=runtime.overflowed,
    )
    for neighbour in runtime.neighbours:
        endpoint = neighbour.endpoint
        counts.update(UNASKED_ANSWER=endpoint.unasked, OLD_PORT_STATUS=endpoint.peer_ports.old)
    for channel in runtime.channels.values():
        counts.update(rejected_by(channel))
    return counts


_SCHEDSTAT = Path("/proc/self/schedstat")


def schedstat() -> tuple[int, int]:
    """Return nanoseconds the main thread ran, and was runnable but waited; zeros without CONFIG_SCHED_INFO."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)
