"""Packets that one host did not believe, by reason: of the wire, of its queue pairs, of its neighbours.

What a queue pair refused goes with it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.io.runtime import Channel, HostRuntime


def rejections(runtime: HostRuntime, gone: Counter[str]) -> Iterator[dict[str, Any]]:
    """A row for each reason that has occurred since the start: `host`, `reason`, `packets`.

    `gone` are those of queue pairs that were destroyed.
    """
    for reason, packets in (_counted(runtime) + gone).items():
        yield {"host": runtime.host, "reason": reason, "packets": packets}


def rejected_by(channel: Channel) -> Counter[str]:
    """Packets that one queue pair refused, by reason."""
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
