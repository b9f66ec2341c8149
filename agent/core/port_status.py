"""Port Status Updates of two hosts: ours until they are answered, the peer's in their order. MRC 5.3.

Updates have request ids of their own, so that the later of two is known however many probes went between (our choice).
"""

from agent.wire.array.control_columns import EndpointRequestColumns

_ID_MASK = 0xFFFF
_HALF = 0x8000
"""An id at least this far ahead of another counts as behind it."""
_LEAST_COPIES = 3
"""Copies of an update, whatever is answered."""


class PeerPorts:
    """What the other host said of its ports."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self.mask: int | None = None
        """The newest word of it, bit N = port N; None before there was one."""
        self.updates = 0
        """Updates received."""
        self.old = 0
        """Those of them that came behind a newer one, or twice: they change nothing."""

    def hear(self, cols: EndpointRequestColumns) -> bool:
        """Take in (n,) updates; True if they change the mask."""
        before = self.mask
        # One turn an update: they come when ports change.
        for number, mask in zip(cols.request_id.tolist(), cols.port_status_mask.tolist(), strict=True):
            self.updates += 1
            if self._newest is not None and not 0 < (number - self._newest & _ID_MASK) < _HALF:
                self.old += 1
            else:
                self._newest, self.mask = number, mask
        return self.mask != before


class PortUpdates:
    """What we say of ours: three copies an interval apart, then more until one is answered."""

    def __init__(self, interval_ns: int, most: int) -> None:
        """`most` copies without an answer, and the peer is taken for gone."""
        self._interval_ns = interval_ns
        self._most = most
        self._next_id = 0
        self._ids: set[int] = set()
        """Those of the copies under way."""
        self._copies = 0
        self.mask = 0
        """What the copies say, bit N = port N."""
        self.is_known = True
        """Whether the peer has answered; it takes all ports for up before it is told."""
        self.due_ns: int | None = None
        """When the next copy is to leave; None if none is."""
        self.sent = 0

    def tell(self, mask: int, now_ns: int) -> None:
        """From now on say this."""
        self.mask, self._ids, self._copies, self.is_known, self.due_ns = mask, set(), 0, False, now_ns

    def next_copy(self, now_ns: int) -> int:
        """A copy leaves; its request id."""
        self._next_id = (self._next_id + 1) & _ID_MASK
        self._ids.add(self._next_id)
        self._copies += 1
        self.sent += 1
        is_over = self._copies >= _LEAST_COPIES and (self.is_known or self._copies >= self._most)
        self.due_ns = None if is_over else now_ns + self._interval_ns
        return self._next_id

    def answered(self, number: int) -> bool:
        """An answer came; False if it is to nothing of what we say now."""
        if number not in self._ids:
            return False
        self.is_known = True
        if self._copies >= _LEAST_COPIES:
            self.due_ns = None
        return True
