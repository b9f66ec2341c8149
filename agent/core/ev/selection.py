"""Selection of EVs: the walk over the rotation for first transmissions, and another EV for retransmissions.

Vectorised: iterations are per rotation and per EV in SKIP, never per packet; where every EV is GOOD, a selection is a
slice of the schedule. MRC 9.3.1, 11.2.2.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.members import EvMembers, Pool
from agent.core.ev.spray import SpraySchedule


class EvSelector:
    """Walks the schedule over the slots of `members`."""

    def __init__(
        self,
        members: EvMembers,
        schedule: SpraySchedule,
        skip_share: float,
        rng: np.random.Generator,
    ) -> None:
        self._members = members
        self._schedule = schedule
        self._rng = rng
        self._most_skips = skip_share * len(members.row_of_slot)
        self._turn = np.zeros(256, np.int64)
        """Number of packets per plane that vacant slots passed to other EVs."""
        self.position = 0
        """Next position in the schedule; equals the number of first transmissions while nothing was skipped."""

    def take(self, count: int) -> NDArray[np.uint16]:
        """Choose EV rows of the next `count` first transmissions, (count,); `members` must be sendable."""
        members = self._members
        if members.plain:
            self.position += count
            return self._schedule.run(self.position - count, count)
        if count and members.skips and members.skips <= self._most_skips:
            slots = self._walk(count)
        else:
            slots = self._schedule.run(self.position, count)
            self.position += count
        rows = slots if members.straight else members.row_of_slot[slots]
        return self._filled(slots, rows) if members.vacancies else rows

    def other_than(
        self,
        failed: NDArray[np.uint16],
        away: NDArray[np.bool_] | None = None,
        silent: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.uint16]:
        """Choose for each of (m,) failed rows one of another value.

        Of its plane, uniformly, unless it has none or is `away`.

        `away` (256,) marks planes to avoid, `silent` (e,) rows to avoid. The failed EV itself is used again only when
        no other is usable (MRC 9.3.1, 11.2.2).
        """
        members = self._members
        pool = members.pool if silent is None else members.pool_without(silent)
        planes = members.planes[failed]
        copies, place = pool.copies[failed], pool.place[failed]
        others = pool.size[planes] - copies
        draw = (self._rng.random(len(failed)) * others).astype(np.int64)
        draw += np.where(draw >= place, copies, 0)
        found = pool.rows[np.minimum(pool.first[planes] + draw, len(pool.rows) - 1)]
        leave = others < 1
        found = np.where(leave, failed, found)
        if away is not None:
            leave |= away[planes]
        if np.count_nonzero(leave):
            found[leave] = self._elsewhere(pool, found[leave], planes[leave])
        return found.astype(np.uint16)

    def _walk(self, count: int) -> NDArray[np.uint16]:
        """Skip slots in SKIP; of neighbours in SKIP only the first is reset, so at most one per packet."""
        members = self._members
        stretch = len(members.row_of_slot)
        parts: list[NDArray[np.uint16]] = []
        before = False
        # One iteration per rotation.
        while count:
            slots = self._schedule.run(self.position, min(count, stretch))
            self.position += len(slots)
            met = members.skipping[slots]
            if np.count_nonzero(met):
                reset = met.copy()
                reset[1:] &= ~met[:-1]
                reset[0] &= not before
                before = bool(met[-1])
                members.pass_over(members.row_of_slot[slots[reset]].astype(np.int64))
                slots = slots[~met]
            else:
                before = False
            parts.append(slots)
            count -= len(slots)
        return np.concatenate(parts)

    def _filled(self, slots: NDArray[np.uint16], rows: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Replace rows of vacant slots by the other EVs of the plane in turn, so that these stay equal.

        If the plane has none, any EV of another plane is used.
        """
        holes = self._members.vacant[slots].nonzero()[0]
        if not len(holes):
            return rows
        filled, pool = rows.copy(), self._members.pool
        planes = self._members.planes[rows[holes]]
        # One iteration per plane with a vacant slot.
        for plane in np.unique(planes).tolist():
            mine = holes[planes == plane]
            if size := int(pool.size[plane]):
                turns = self._turn[plane] + np.arange(len(mine))
                filled[mine] = pool.rows[pool.first[plane] + turns % size]
                self._turn[plane] += len(mine)
            else:
                filled[mine] = self.other_than(rows[mine])
        return filled

    def _elsewhere(self, pool: Pool, failed: NDArray[np.int64], planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        size, first = pool.size[planes], pool.first[planes]
        others = len(pool.rows) - size
        draw = (self._rng.random(len(failed)) * others).astype(np.int64)
        draw += np.where(draw >= first, size, 0)
        found = pool.rows[np.minimum(draw, len(pool.rows) - 1)]
        rows: NDArray[np.int64] = np.where(others < 1, failed, found)
        return rows
