"""The active EVs of a queue pair: which EV holds each slot of the spray schedule, and which EV each packet takes.

A slot is a position in the spray schedule and always belongs to the same plane; it holds one EV of that plane. The
other EVs are the backup set. `EvMembers` decides nothing: `ev_set.py` moves EVs. `EvSelector` walks over the rotation
for first transmissions and finds another EV for retransmissions. It is vectorised: iterations are per rotation and per
EV in SKIP, never per packet; where every EV is GOOD, a selection is a slice of the schedule. MRC 4.3, 4.4, 9.3.1,
11.2.2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.spray_schedule import SpraySchedule
from agent.core.ev.state import EvSignal, EvState, after

_PLANES = 256


class Pool(NamedTuple):
    """Usable rows by plane: plane p has `rows[first[p]:first[p] + size[p]]`."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    place: NDArray[np.int64]
    """(e,) start, within its plane's part, of the rows that hold the same value as each row of the profile."""
    copies: NDArray[np.int64]
    """(e,) number of these rows: 0 where no row of that value may be used."""


class EvMembers:
    """States, slots and ports; call `refresh` after changing any of them."""

    def __init__(self, profile: EvProfile, active: NDArray[np.int64], rng: np.random.Generator) -> None:
        count = len(profile.evs)
        self._rng = rng
        self.planes = profile.planes
        self._profile = profile
        self.states = np.zeros(count, np.uint8)
        self.row_of_slot = active.astype(np.uint16)
        self.slot_of_row = np.full(count, -1, np.int64)
        self.slot_of_row[active] = np.arange(len(active))
        self.local_up = np.ones(_PLANES, np.bool_)
        self.remote_up = np.ones(_PLANES, np.bool_)
        self.left = np.zeros(_PLANES, np.bool_)
        """Planes that are avoided for their losses, as if a port were down."""
        self.learn_values()
        self.refresh()

    def learn_values(self) -> None:
        """Find rows that are copies of one another.

        They hold the same value of the same plane, so they are one path.
        """
        keys = self.planes.astype(np.int64) << 32 | self._profile.evs
        _, first, self.value_of = np.unique(keys, return_index=True, return_inverse=True)
        """(e,) number of each row's value; rising with the plane."""
        self.lead_of = first[self.value_of]
        """(e,) the first row that holds each row's value."""
        self._by_value = np.argsort(self.value_of, kind="stable")

    def refresh(self) -> None:
        """Recompute what the selection reads."""
        self.plane_up = self.local_up & self.remote_up & ~self.left
        self.usable = (self.states <= EvState.SKIP) & self.plane_up[self.planes]
        seated = self.row_of_slot.astype(np.int64)
        self.vacant = ~self.usable[seated]
        """(slots,) whether the EV in the slot may not be used."""
        self.skipping = ~self.vacant & (self.states[seated] == EvState.SKIP)
        """(slots,) whether the EV in the slot is to be skipped."""
        self.vacancies = int(np.count_nonzero(self.vacant))
        self.skips = int(np.count_nonzero(self.skipping))
        self.straight = bool(np.array_equal(seated, np.arange(len(self.states))))
        """Slot numbers are row numbers: nothing was swapped and there is no backup."""
        self.plain = self.straight and not self.vacancies and not self.skips
        """The schedule can be followed without changes."""
        self.pool = self._pool(seated[~self.vacant & ~self.skipping], seated[~self.vacant])
        self.sendable = len(self.pool.rows) > 0
        """True if any EV may be used."""

    def pass_over(self, rows: NDArray[np.int64]) -> None:
        """Record that rows (m,) in SKIP have been skipped once."""
        self.states[rows] = after(self.states[rows], EvSignal.PASSED)
        self.refresh()

    def in_use(self) -> NDArray[np.int64]:
        """Count active EVs that are GOOD or SKIP per plane, (256,), whatever the state of their ports."""
        seated = self.row_of_slot[self.states[self.row_of_slot] <= EvState.SKIP]
        return np.bincount(self.planes[seated], minlength=_PLANES)

    def copies_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return all rows that hold a value of (m,) rows, each once."""
        return np.flatnonzero(np.isin(self.value_of, self.value_of[rows]))

    def spare(self, plane: int) -> int:
        """Choose a random GOOD backup EV of a plane; -1 if it has none."""
        found = np.flatnonzero((self.slot_of_row < 0) & (self.states == EvState.GOOD) & (self.planes == plane))
        return int(self._rng.choice(found)) if len(found) else -1

    def vacant_seat(self, plane: int) -> int:
        """Return a row that holds a slot of the plane and is neither GOOD nor SKIP; -1 if there is none."""
        seated = self.row_of_slot[(self.states[self.row_of_slot] > EvState.SKIP)]
        seated = seated[self.planes[seated] == plane]
        return int(seated[0]) if len(seated) else -1

    def swap(self, out: int, into: int) -> None:
        """Put backup row `into` in the slot of active row `out`, which becomes a backup."""
        slot = int(self.slot_of_row[out])
        self.row_of_slot[slot] = into
        self.slot_of_row[into], self.slot_of_row[out] = slot, -1

    def pool_without(self, rows: NDArray[np.bool_]) -> Pool:
        """Return the pool without some rows (e,); the whole pool if nothing else is left."""
        kept = self.pool.rows[~rows[self.pool.rows]]
        return self._pool_of(kept) if len(kept) else self.pool

    def _pool(self, good: NDArray[np.int64], usable: NDArray[np.int64]) -> Pool:
        # A plane whose EVs are all congested keeps them; other planes drop theirs.
        has_good = np.bincount(self.planes[good], minlength=_PLANES) > 0
        return self._pool_of(np.concatenate((good, usable[~has_good[self.planes[usable]]])))

    def _pool_of(self, rows: NDArray[np.int64]) -> Pool:
        may_be_used = np.zeros(len(self.states), np.bool_)
        may_be_used[rows] = True
        rows = self._by_value[may_be_used[self._by_value]]
        size = np.bincount(self.planes[rows], minlength=_PLANES)
        first = np.cumsum(size) - size
        copies = np.bincount(self.value_of[rows], minlength=len(self.states))
        begin = np.cumsum(copies) - copies
        place = begin[self.value_of] - first[self.planes]
        return Pool(rows, first, size, place, copies[self.value_of])


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
