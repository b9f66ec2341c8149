"""Port Status Updates of two hosts: ours until they are answered, the peer's in their order. MRC 5.3.

Updates have their own request ids, so that the newer of two is known however many probes came between (our choice).
"""

from agent.wire.array.control_columns import EndpointRequestColumns

_ID_MASK = 0xFFFF
_HALF = 0x8000
"""Distance from which an id ahead of another counts as older."""
_LEAST_COPIES = 3
"""Copies of an update that are sent even if it is answered."""


class PeerPorts:
    """The state of the other host's ports, as it reported them."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self.mask: int | None = None
        """Newest port mask received, bit N = port N; None before the first."""
        self.updates = 0
        """Updates received."""
        self.old = 0
        """Updates that came after a newer one, or twice: they change nothing."""

    def hear(self, cols: EndpointRequestColumns) -> bool:
        """Process (n,) updates; True if they change the mask."""
        before = self.mask
        # One iteration per update: they come when ports change.
        for number, mask in zip(cols.request_id.tolist(), cols.port_status_mask.tolist(), strict=True):
            self.updates += 1
            if self._newest is not None and not 0 < (number - self._newest & _ID_MASK) < _HALF:
                self.old += 1
            else:
                self._newest, self.mask = number, mask
        return self.mask != before


class PortUpdates:
    """Updates about our own ports: three copies an interval apart, then more until one is answered."""

    def __init__(self, interval_ns: int, most: int) -> None:
        """Stop after `most` copies without an answer: the peer is then considered gone."""
        self._interval_ns = interval_ns
        self._most = most
        self._next_id = 0
        self._ids: set[int] = set()
        """Request ids of the copies sent."""
        self._copies = 0
        self.mask = 0
        """Port mask that the copies carry, bit N = port N."""
        self.is_known = True
        """True once the peer has answered; before the first update it assumes that all ports are up."""
        self.due_ns: int | None = None
        """Time at which the next copy is sent; None if there is none."""
        self.sent = 0

    def tell(self, mask: int, now_ns: int) -> None:
        """Announce this mask from now on."""
        self.mask, self._ids, self._copies, self.is_known, self.due_ns = mask, set(), 0, False, now_ns

    def next_copy(self, now_ns: int) -> int:
        """Count one copy as sent; return its request id."""
        self._next_id = (self._next_id + 1) & _ID_MASK
        self._ids.add(self._next_id)
        self._copies += 1
        self.sent += 1
        is_over = self._copies >= _LEAST_COPIES and (self.is_known or self._copies >= self._most)
        self.due_ns = None if is_over else now_ns + self._interval_ns
        return self._next_id

    def answered(self, number: int) -> bool:
        """Process an answer; False if it does not answer the current mask."""
        if number not in self._ids:
            return False
        self.is_known = True
        if self._copies >= _LEAST_COPIES:
            self.due_ns = None
        return True
