"""Packets that one host rejected, by reason: by the wire format, by its queue pairs, by its neighbours.

Counts of a queue pair are lost when it is destroyed, unless the caller keeps them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.io.runtime import Channel, HostRuntime


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
