"""Packets that one host did not believe, by reason: of the wire, of its queue pairs, of its neighbours.

What a queue pair refused goes with it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.io.runtime import HostRuntime


def rejections(runtime: HostRuntime) -> Iterator[dict[str, Any]]:
    """A row for each reason that has occurred: `host`, `reason`, `packets`."""
    for reason, packets in _counted(runtime).items():
        if packets:
            yield {"host": runtime.host, "reason": reason, "packets": packets}


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
        progress = channel.qp.progress()
        requester, responder = progress.requester, progress.responder
        counts.update(
            SACK_NOT_OUTSTANDING=requester.sacks_rejected,
            ACK_NOT_OUTSTANDING=requester.acks_rejected,
            NACK_NOT_OUTSTANDING=requester.nacks_rejected,
            OUT_OF_WINDOW=responder.out_of_window,
            INVALID_REQUEST=responder.invalid,
            ACCESS_ERROR=responder.access_errors,
        )
    return counts
