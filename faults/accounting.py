"""How far the counters of a fault explain what the transport sends again. Pure; knows kinds by name, as records do."""

from faults.model import By, Corrupt, Crash, Delay, Down, Flap, RateLimit, Reboot, Reorder

SHUT = frozenset(kind.kind for kind in (Down, Flap, Reboot, Crash))
"""Kinds that shut a port: nothing passes in either direction, and the node's own sends are refused."""

_SHUT_COSTS = "a shut port also costs what nobody counts: the other end sends into a link without carrier"
_TIME = "it changes time and order, by which packets are taken for lost that arrive"
_WHY = dict.fromkeys(SHUT, _SHUT_COSTS) | dict.fromkeys((Delay.kind, Reorder.kind, RateLimit.kind), _TIME)


def why_uncounted(kind: str, mechanism: str) -> str | None:
    """Why retransmissions cannot be held against this fault's counters; None if they can."""
    if kind == Corrupt.kind and mechanism == By.NETEM:
        return "netem does not count what it corrupts"
    return _WHY.get(kind)
