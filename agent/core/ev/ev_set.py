"""The EV set of a queue pair, and how marks, trims, losses, probes, ports and a controller change it.

It decides which EV leaves the active set and which takes its place; `active_set.py` chooses among the active ones. An
EV is replaced only by one of its own plane; a floor keeps losses from emptying the set; a plane in which nothing
arrives is retired as a whole. MRC 4.3, 4.4, 11.2.2; what these leave open is our choice.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvConfig
from agent.core.ev.active_set import EvMembers, EvSelector
from agent.core.ev.profile_sources import EvProfile, active_rows
from agent.core.ev.spray_schedule import SpraySchedule
from agent.core.ev.state import EvSignal, EvState, after
from agent.core.events import Event, EvStatesChanged
from agent.wire.constants import EcnVerdict

_PORT_FALL_NS = 1_000_000_000
"""An EV retired at most this long before its port was known to be down, or later, is restored when the port returns."""

ScheduleOf = Callable[[NDArray[np.uint8]], SpraySchedule]


class EvSet:
    """States and membership of one queue pair's EVs; rows are those of its profile."""

    def __init__(
        self,
        config: EvConfig,
        profile: EvProfile,
        schedule_of: ScheduleOf,
        rng: np.random.Generator,
        report: Callable[[Event], None],
    ) -> None:
        count = len(profile.evs)
        self._config = config
        self._evs = profile.evs
        self._report = report
        self._members = EvMembers(profile, active_rows(profile.planes, config.active, rng), rng)
        seats = self._members.row_of_slot
        self.schedule = schedule_of(profile.planes[seats])
        self._select = EvSelector(self._members, self.schedule, config.skip_share, rng)
        self._rng = rng
        planes = len(np.unique(profile.planes))
        self._min_active = len(seats) // 4 if config.min_active is None else config.min_active
        self._floor = max(planes, self._min_active)
        self._losses = np.zeros(count, np.int64)
        self._losses_since_ns = np.zeros(count, np.int64)
        self._marks = np.zeros(count, np.int64)
        self._marked_ns = np.zeros(count, np.int64)
        self._bad_since_ns = np.zeros(count, np.int64)
        self._unheard = np.zeros(256, np.int64)
        self._in_doubt = False
        self._proven = np.zeros(count, np.bool_)
        self._starts = config.adapts
        """True while some active row has not delivered anything yet."""
        self.bad = 0
        """Number of EVs in ASSUMED_BAD."""
        self.skips = np.zeros(count, np.int64)
        """Times each EV went to SKIP."""
        self.version = 0
        """Number that changes whenever an EV leaves or enters ASSUMED_BAD or a port changes."""
        self.floor_holds = 0
        """Times the floor kept an EV in use that losses would have retired."""

    @property
    def states(self) -> NDArray[np.uint8]:
        """Return (e,) EvState of each row; read-only."""
        return self._members.states

    @property
    def active(self) -> NDArray[np.bool_]:
        """Return (e,) whether each row is in the active set."""
        return self._members.slot_of_row >= 0

    @property
    def plane_up(self) -> NDArray[np.bool_]:
        """Return (256,) whether both ends' ports are up in each plane and it is not avoided for its losses."""
        return self._members.plane_up

    @property
    def live_planes(self) -> NDArray[np.bool_]:
        """Return (256,) whether both ports are up and some EV of the plane is neither bad nor denied."""
        members = self._members
        live = np.zeros(256, np.bool_)
        live[members.planes[members.states <= EvState.SKIP]] = True
        return live & members.plane_up

    @property
    def row_up(self) -> NDArray[np.bool_]:
        """Return (e,) whether both ports of each row's plane are up."""
        up: NDArray[np.bool_] = self._members.plane_up[self._members.planes]
        return up

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Return (e,) whether each row is GOOD or SKIP and both ports of its plane are up."""
        return self._members.usable

    @property
    def local_up(self) -> NDArray[np.bool_]:
        """Return (256,) whether our port is up in each plane."""
        return self._members.local_up

    @property
    def remote_up(self) -> NDArray[np.bool_]:
        """Return (256,) whether the peer's port is up in each plane, as far as it reported."""
        return self._members.remote_up

    @property
    def sendable(self) -> bool:
        """Report whether any EV may be used; False only while no plane has both ports up, or all EVs are denied."""
        return self._members.sendable

    @property
    def position(self) -> int:
        """Return the position of the next first transmission in the schedule."""
        return self._select.position

    def take(self, count: int, now_ns: int) -> NDArray[np.uint16]:
        """Choose EV rows of the next `count` first transmissions, (count,); only while `sendable`."""
        if self._members.skips:
            self._end_skips(now_ns)
        return self._select.take(count)

    def other_than(self, failed: NDArray[np.uint16], silent: NDArray[np.bool_] | None = None) -> NDArray[np.uint16]:
        """Choose another EV for each of (m,) rows that failed, of the same plane while that answers.

        Only while `sendable`.

        `silent` (e,) marks rows from which nothing comes back; None: none.
        """
        return self._select.other_than(failed, self._unheard > 1 if self._in_doubt else None, silent)

    def any_rows(self, count: int, except_for: NDArray[np.uint16] | None = None) -> NDArray[np.uint16]:
        """Choose up to `count` distinct random usable rows, (m,), other than `except_for`; only while `sendable`."""
        rows = self._members.pool.rows
        if except_for is not None:
            wanted = np.ones(len(self._evs), np.bool_)
            wanted[except_for] = False
            rows = rows[wanted[rows]]
        return self._rng.choice(rows, min(count, len(rows)), replace=False).astype(np.uint16)

    def rows_of(self, evs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return all rows, copies included, that hold one of (n,) EVs."""
        return np.flatnonzero(np.isin(self._evs, evs))

    # Changes by the network.

    def on_arrivals(self, rows: NDArray[np.uint16]) -> None:
        """Record that packets last sent on these rows (m,) have arrived: their planes work."""
        if self._starts:
            lead_of = self._members.lead_of
            self._proven[lead_of[rows]] = True
            self._starts = not self._proven[lead_of[self._members.row_of_slot]].all()
        if self._in_doubt:
            self._unheard[self._members.planes[rows]] = 0
            self._in_doubt = bool(np.count_nonzero(self._unheard))

    def on_losses(self, rows: NDArray[np.uint16], unheard: NDArray[np.bool_], now_ns: int) -> None:
        """Record unexplained losses of packets on these rows (m,), each row as often as it lost.

        `unheard` (m,) marks losses after which nothing sent later in their plane is known to have arrived.
        """
        members, config = self._members, self._config
        up = members.plane_up[members.planes[rows]]
        rows, unheard = rows[up], unheard[up]
        if not config.adapts or not len(rows):
            return
        counts = np.bincount(members.lead_of[rows], minlength=len(members.states))
        hit = counts.nonzero()[0]
        fresh = hit[(now_ns - self._losses_since_ns[hit] > config.bad_window_ns) & ~self._dead_so_far(hit)]
        self._losses[fresh] = 0
        self._losses_since_ns[fresh] = now_ns
        self._losses[hit] += counts[hit]
        self._unheard += np.bincount(members.planes[rows[unheard]], minlength=256)
        self._in_doubt = True
        # One iteration per silent plane and per failed EV: both are rare.
        for plane in np.flatnonzero(self._unheard).tolist():
            if self._unheard[plane] >= self._silent_after(plane):
                self._silence(plane, now_ns)
        tolerated = np.where(self._dead_so_far(hit), min(config.start_rotations, config.tolerated), config.tolerated)
        for row in members.copies_of(hit[self._losses[hit] >= tolerated]).tolist():
            self._retire(row, EvSignal.LOST, now_ns)

    def _dead_so_far(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Report which of rows (m,) have never delivered anything, as far as that is kept.

        The first rotations are trials.
        """
        dead: NDArray[np.bool_] = ~self._proven[self._members.lead_of[rows]] & self._starts
        return dead

    def _silent_after(self, plane: int) -> int:
        """Return the losses without an arrival that make a plane silent: all first rotations if it never delivered."""
        mine = np.flatnonzero(self.active & (self._members.planes == plane))
        if not self._dead_so_far(mine).all():
            return self._config.plane_silent_after
        return min(self._config.plane_silent_after, self._config.start_rotations * len(mine))

    def on_verdicts(self, evs: NDArray[np.uint32], verdicts: NDArray[np.uint8], now_ns: int) -> None:
        """Apply the verdicts of (r,) SACKs to the EVs they name (EcnVerdict)."""
        if not self._config.adapts:
            return
        marked, forbidden = verdicts == EcnVerdict.SKIP_ONCE, verdicts == EcnVerdict.ALWAYS_SKIP
        if np.count_nonzero(marked):
            self._mark(self.rows_of(evs[marked]), EvSignal.MARKED, now_ns)
        if np.count_nonzero(forbidden):
            for row in self.rows_of(evs[forbidden]).tolist():
                self._retire(row, EvSignal.ALWAYS_SKIP, now_ns)

    def on_trimmed(self, rows: NDArray[np.uint16], now_ns: int) -> None:
        """Record that packets on these rows (m,) were trimmed inside the fabric."""
        if self._config.adapts:
            self._mark(self._members.copies_of(rows.astype(np.int64)), EvSignal.TRIMMED, now_ns)

    def revive(self, row: int, marked: bool, now_ns: int) -> None:
        """Revive `row` after enough probes were answered; `marked`: the last answer says SKIP_ONCE.

        It becomes a backup, or takes an empty slot of its plane.
        """
        signal = EvSignal.REVIVED_MARKED if marked else EvSignal.REVIVED
        self._seat(row)
        self._losses[self._members.lead_of[row]] = 0
        self._change(np.array([row]), signal, now_ns)

    # Changes by a controller and by ports.

    def deny(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Stop using these rows (m,) until they are allowed; a backup takes the place where there is one."""
        for row in rows.tolist():
            self._leave(row, EvSignal.DENY, now_ns)

    def allow(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Lift the denial of rows (m,)."""
        for row in rows[self._members.states[rows] == EvState.DENIED].tolist():
            self._seat(row)
        self._change(rows, EvSignal.ALLOW, now_ns)

    def set_states(self, rows: NDArray[np.int64], state: EvState, now_ns: int) -> None:
        """Set rows (m,) to GOOD, ASSUMED_BAD or DENIED by order of a controller, whatever they were; without a floor.

        It also does this after it has put other values in the rows.
        """
        self._members.learn_values()
        for row in rows.tolist():
            if state is EvState.GOOD:
                self._losses[self._members.lead_of[row]] = 0
                self._seat(row)
                self._change(np.array([row]), EvSignal.SET_GOOD, now_ns)
            else:
                self._leave(row, EvSignal.DENY if state is EvState.DENIED else EvSignal.SET_BAD, now_ns)

    def on_local_ports(self, up: NDArray[np.bool_], now_ns: int) -> None:
        """Set our port states by plane (256,): EVs of a port that is down are not used; their states stay."""
        self._members.local_up = up.copy()
        self._follow_ports(now_ns)

    def on_remote_ports(self, up: NDArray[np.bool_], now_ns: int) -> None:
        """Set the peer's port states by plane (256,)."""
        self._members.remote_up = up.copy()
        self._follow_ports(now_ns)

    def leave_plane(self, plane: int, now_ns: int) -> bool:
        """Avoid a plane without changing its states; False if too little would be left (`min_active`)."""
        members = self._members
        others = members.in_use() * members.plane_up
        others[plane] = 0
        if not members.plane_up[plane] or others.sum() < max(1, self._min_active):
            return False
        members.left[plane] = True
        self._follow_ports(now_ns)
        return True

    def try_planes(self, now_ns: int) -> list[int]:
        """Use the avoided planes again; return which they are."""
        planes: list[int] = np.flatnonzero(self._members.left).tolist()
        self._members.left[:] = False
        self._follow_ports(now_ns)
        return planes

    def _follow_ports(self, now_ns: int) -> None:
        members = self._members
        was_up = members.plane_up
        members.refresh()
        self.version += 1
        back = members.plane_up & ~was_up
        self._unheard[back | ~members.plane_up] = 0
        self._losses[~members.plane_up[members.planes]] = 0
        fell = was_up & ~members.plane_up
        # Losses just before the port was known to be down were caused by the port, not by the path.
        blamed = (members.states == EvState.ASSUMED_BAD) & fell[members.planes]
        self._bad_since_ns[blamed & (now_ns - self._bad_since_ns < _PORT_FALL_NS)] = _PORT_BLAMED
        forgiven = np.flatnonzero(back[members.planes] & (self._bad_since_ns == _PORT_BLAMED))
        if len(forgiven):
            self._change(forgiven, EvSignal.REVIVED, now_ns)

    # Changes of the set.

    def _mark(self, rows: NDArray[np.int64], signal: EvSignal, now_ns: int) -> None:
        members, config = self._members, self._config
        self._marks[rows[now_ns - self._marked_ns[rows] > config.swap_memory_ns]] = 0
        self._marks[rows] += 1
        self._marked_ns[rows] = now_ns
        self.skips[rows[members.states[rows] == EvState.GOOD]] += 1
        members.states[rows] = after(members.states[rows], signal)
        if config.swap_after:
            for row in rows[self._marks[rows] >= config.swap_after].tolist():
                self._marks[row] = 0
                spare = members.spare(int(members.planes[row])) if members.slot_of_row[row] >= 0 else -1
                if spare >= 0:
                    members.swap(row, spare)
        members.refresh()

    def _end_skips(self, now_ns: int) -> None:
        over = (self._members.states == EvState.SKIP) & (now_ns - self._marked_ns >= self._config.skip_ns)
        if np.count_nonzero(over):
            self._members.pass_over(np.flatnonzero(over))

    def _retire(self, row: int, signal: EvSignal, now_ns: int) -> None:
        """Retire a row unless the floor forbids it."""
        members = self._members
        if members.states[row] > EvState.SKIP:
            return
        plane = int(members.planes[row])
        if members.slot_of_row[row] >= 0 and members.spare(plane) < 0:
            in_use = members.in_use()
            if in_use[plane] <= 1 or int(in_use.sum()) <= self._floor:
                self._losses[members.lead_of[row]] = 0
                self.floor_holds += 1
                return
        self._leave(row, signal, now_ns)

    def _seat(self, row: int) -> None:
        """Give a revived backup an empty slot of its plane."""
        members = self._members
        if members.slot_of_row[row] < 0 and (empty := members.vacant_seat(int(members.planes[row]))) >= 0:
            members.swap(empty, row)

    def _leave(self, row: int, signal: EvSignal, now_ns: int) -> None:
        members = self._members
        self._end_skips(now_ns)
        spare = members.spare(int(members.planes[row])) if members.slot_of_row[row] >= 0 else -1
        if spare >= 0:
            members.swap(row, spare)
        self._change(np.array([row]), signal, now_ns, spare)

    def _silence(self, plane: int, now_ns: int) -> None:
        """Retire the EVs of a plane in which everything is lost, if another plane has any; `min_active` stay in use."""
        members = self._members
        in_use = members.in_use()
        if not (in_use * members.plane_up).sum() - in_use[plane] * members.plane_up[plane]:
            return
        self._unheard[plane] = 0
        usable = (members.planes == plane) & (members.states <= EvState.SKIP)
        seated, backups = (np.flatnonzero(usable & (self.active == active)) for active in (True, False))
        leave = max(0, min(len(seated), int(in_use.sum()) - self._min_active))
        self.floor_holds += leave < len(seated)
        mine = np.concatenate((seated[:leave], backups))
        if len(mine):
            self._change(mine, EvSignal.LOST, now_ns)

    def _change(self, rows: NDArray[np.int64], signal: EvSignal, now_ns: int, replacement: int = -1) -> None:
        """Send a signal to rows and report those whose state changed."""
        members = self._members
        old = members.states[rows]
        new = after(old, signal)
        moved = rows[new != old]
        members.states[rows] = new
        self._bad_since_ns[moved] = now_ns
        members.refresh()
        self.bad = int(np.count_nonzero(members.states == EvState.ASSUMED_BAD))
        self.version += 1
        if len(moved):
            state = EvState(int(members.states[moved[0]]))
            self._report(EvStatesChanged(now_ns, tuple(moved.tolist()), state, signal, replacement))


_PORT_BLAMED = -1
"""Value in place of the time an EV went bad: its port was the cause."""
