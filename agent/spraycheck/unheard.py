"""Flows of which a plane's leaves have heard nothing, while senders declare over other planes what they sent in it.

All of a flow's announcements in a plane are lost where a host's uplink is dead, or all paths of a pair of leaves. Then
no leaf of that plane has a record to judge. What the sender declares elsewhere takes its place: so many packets were
sent, and none came. Its clock is an argument.
"""

from collections import Counter
from collections.abc import Sequence

from agent.spraycheck.expectation import Expectation
from agent.spraycheck.leaf import FlowReport, LeafDetector, ToldFlow
from agent.spraycheck.monitor import Matter
from agent.spraycheck.paths import FabricPath

Place = tuple[int, int]
"""Plane and leaf."""


class Unheard:
    """Waits until it is certain that the leaves have heard nothing, and reports each such flow once."""

    def __init__(self, detectors: Sequence[LeafDetector]) -> None:
        self._by_place = {(each.rules.plane, each.rules.leaf): each for each in detectors}
        planes = {plane for plane, _ in self._by_place}
        self._listens = len(planes) > 1 and not any(each.rules.narrow or each.rules.one for each in detectors)
        """A leaf that measures one flow at a time keeps nothing of the others, and 16 bits declare nothing."""
        self._waiting: dict[ToldFlow, int] = {}
        """Since when."""
        self._over: dict[ToldFlow, int] = {}
        """When it was settled; kept as long as copies of a declaration may come."""

    def reports(self, now_ns: int) -> list[FlowReport]:
        """Of flows that are known to be unheard since the last call, after all leaves were polled.

        Raises CountersError.
        """
        heard = [told for each in self._by_place.values() for told in each.told_elsewhere()]
        if not self._listens:  # what nobody reads is taken out all the same, or the maps fill
            return []
        for told in heard:
            if told not in self._over and (told.flow.plane, told.flow.dst_leaf) in self._by_place:
                self._waiting.setdefault(told, now_ns)
        waiting = list(self._waiting.items())
        found = [report for told, since_ns in waiting for report in self._settle(told, since_ns, now_ns)]
        kept_ns = max(each.rules.erase_after_ns for each in self._by_place.values())
        self._over = {told: at_ns for told, at_ns in self._over.items() if now_ns - at_ns <= kept_ns}
        return found

    def owed(self) -> Counter[tuple[Matter, FabricPath]]:
        """Verdicts on flows that may be unheard."""
        return Counter(
            ((told.flow.epoch, expectation), told.flow.path(spine))
            for told in self._waiting
            for expectation in Expectation
            for spine in self._leaf_of(told).rules.spines
        )

    def _leaf_of(self, told: ToldFlow) -> LeafDetector:
        return self._by_place[told.flow.plane, told.flow.dst_leaf]

    def _settle(self, told: ToldFlow, since_ns: int, now_ns: int) -> tuple[FlowReport, ...]:
        leaf, key = self._leaf_of(told), (told.flow.qpn, told.flow.epoch)
        source = self._by_place.get((told.flow.plane, told.flow.src_leaf))
        if leaf.has_heard_of(key) or leaf.has_refused(key) or (source is not None and source.has_refused(key)):
            self._end(told, now_ns)
            return ()
        if now_ns - since_ns < leaf.rules.quiet_ns:
            return ()
        self._end(told, now_ns)
        entered = None if source is None else source.entered_of(key)
        return leaf.unheard(told, entered)

    def _end(self, told: ToldFlow, now_ns: int) -> None:
        del self._waiting[told]
        self._over[told] = now_ns
