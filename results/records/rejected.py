"""Counts packets that agents rejected, by host and reason, for programs and for people."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from agent.wire.record_ranges import Count, Name, Text
from results.text import count_text

PASSES_BY = "ANNOUNCEMENT"
"""A reason without meaning: announcements are for the leaves, and hosts drop them as they should."""

REASONS = {
    "TRUNCATED": "shorter than their headers say",
    "NOT_IPV6": "not IPv6",
    "ROUTING_HEADER": "with a segment routing header",
    "NOT_MRC": "not MRC",
    "BAD_ADDRESS": "for another host",
    "BAD_BTH": "with a wrong transport version or P_Key",
    "UNKNOWN_OPCODE": "with an opcode that MRC does not have",
    "BAD_LENGTH": "with lengths that contradict each other",
    "BAD_FIELD": "with a value that the specification reserves",
    "BAD_ICRC": "with a wrong ICRC",
    "UNKNOWN_QP": "for a queue pair that does not exist",
    "NOT_ITS_PEER": "from another host than the queue pair's peer",
    "UNKNOWN_HOST": "EV probes or port states from a host that this agent neither asked nor serves",
    "UNASKED_ANSWER": "that answer no request",
    "OLD_PORT_STATUS": "with a port status older than the last one",
    "SACK_NOT_OUTSTANDING": "SACKs of what is not outstanding",
    "ACK_NOT_OUTSTANDING": "ACKs of what is not outstanding",
    "NACK_NOT_OUTSTANDING": "NACKs of what is not outstanding",
    "OUT_OF_WINDOW": "outside the receive window",
    "INVALID_REQUEST": "writes that break the rules of a message",
    "ACCESS_ERROR": "writes to memory that they may not write",
    "TX_OVERFLOW": "to be sent, for which a port had no room",
}
"""What is wrong with packets per reason, written after `3 packets`."""

SHOWN_ROWS = 8
"""Most rows with a line each; with more, hosts are summed per reason (our choice)."""


class Rejected(msgspec.Struct, frozen=True):
    """Packets that one host rejected for one reason."""

    host: Name
    reason: Text
    packets: Count


def rejected_rows(counts: Mapping[tuple[int, str], int]) -> tuple[Rejected, ...]:
    """Return the counts by host and reason that show a fault, in the order of hosts."""
    return tuple(
        Rejected(f"h{host}", reason, packets)
        for (host, reason), packets in sorted(counts.items())
        if packets and reason != PASSES_BY
    )


def rejected_lines(rows: Sequence[Rejected]) -> Iterator[str]:
    """Return `h2: 3 packets with a wrong ICRC (BAD_ICRC)`; of many hosts the sums."""
    if len(rows) <= SHOWN_ROWS:
        for row in rows:
            yield f"{row.host}: {_packets_text(row.packets, row.reason)}"
        return
    for reason in dict.fromkeys(row.reason for row in rows):
        alike = [row.packets for row in rows if row.reason == reason]
        yield f"{count_text(len(alike), 'host')}: {_packets_text(sum(alike), reason)}"


def reason_text(reason: str) -> str:
    """State what is wrong with such packets; empty for a reason of another version."""
    return REASONS.get(reason, "")


def _packets_text(packets: int, reason: str) -> str:
    return " ".join(filter(None, (count_text(packets, "packet"), reason_text(reason), f"({reason})")))


def rejected_since(before: Mapping[tuple[int, str], int], after: Mapping[tuple[int, str], int]) -> tuple[Rejected, ...]:
    """Return the differences between two counts by host and reason."""
    return rejected_rows({key: max(0, count - before.get(key, 0)) for key, count in after.items()})
