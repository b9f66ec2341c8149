"""Lists changes of paths that MRC reports: entropy values that agents retire and use again between two readings."""

from collections.abc import Iterator

from scenarios.watch.view import Detection, EvReading, Reading
from testbed.model.ids import NodeId

_SAID = {"GOOD": "uses again", "ASSUMED_BAD": "retires", "DENIED": "is denied"}
"""Words for states; SKIP is left out, because a marked entropy value is skipped once, thousands of times a second
under congestion.
"""


class StateChanges:
    """Remembers the state of every entropy value of queue pairs that send."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, int, int], str] = {}

    def news(self, reading: Reading) -> Iterator[Detection]:
        """Return what has changed since the last reading, a line per host and state; a new queue pair's EVs start
        as GOOD.
        """
        sending = {(qp.host, qp.qpn) for qp in reading.qps if qp.posted_bytes}
        now = {
            (row.host, row.qpn, row.ev): row
            for row in reading.evs
            if (row.host, row.qpn) in sending and row.state in _SAID
        }
        changed: dict[tuple[int, str], dict[str, None]] = {}
        for key, row in now.items():
            if row.state != self._states.get(key, "GOOD"):
                changed.setdefault((row.host, row.state), {})[place_of(row)] = None
        kept = {key: state for key, state in self._states.items() if key[:2] in sending}
        self._states = kept | {key: row.state for key, row in now.items()}
        for (host, state), places in sorted(changed.items()):
            yield Detection(reading.ts, str(NodeId.host(host)), f"{_SAID[state]} {', '.join(places)} (MRC)")


def place_of(row: EvReading) -> str:
    """Return the path of an entropy value: `p0:spine5`, or `p0` where it turns at the leaf."""
    return f"p{row.plane}" if row.spine is None else f"p{row.plane}:spine{row.spine}"
