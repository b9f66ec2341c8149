"""The EV set of a queue pair: what marks, trims, losses, probes, ports and a controller do to it.

Decides who leaves the active set and who takes the place; `ev_select.py` picks from what is left. An EV is replaced by
one of its own plane only; a floor keeps losses from emptying the set; a plane in which nothing arrives leaves whole.
MRC 4.3, 4.4, 11.2.2; what these leave open is our choice.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.config import EvConfig
from agent.core.ev.members import EvMembers
from agent.core.ev.profile import EvProfile, active_rows
from agent.core.ev.selection import EvSelector
from agent.core.ev.spray import SpraySchedule
from agent.core.ev.state import EvSignal, EvState, after
from agent.core.events import Event, EvStatesChanged
from agent.wire.constants import EcnVerdict

_PORT_FALL_NS = 1_000_000_000
"""What was retired so shortly before its port was known to be down, or since, is taken back when the port returns."""

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
        """Some active row has not delivered anything yet; kept only while it is so."""
        self.bad = 0
        """EVs that are ASSUMED_BAD."""
        self.skips = np.zeros(count, np.int64)
        """Times each EV went to SKIP."""
        self.version = 0
        """Changes whenever an EV leaves or enters ASSUMED_BAD or a port changes."""
        self.floor_holds = 0
        """Times the floor kept an EV in use that had earned its retirement."""

    @property
    def states(self) -> NDArray[np.uint8]:
        """(e,) EvState of each row, not to be written."""
        return self._members.states

    @property
    def active(self) -> NDArray[np.bool_]:
        """(e,) whether each row is in the active set."""
        return self._members.slot_of_row >= 0

    @property
    def plane_up(self) -> NDArray[np.bool_]:
        """(256,) whether the ports of both ends are up in each plane, and it was not left for its losses."""
        return self._members.plane_up

    @property
    def live_planes(self) -> NDArray[np.bool_]:
        """(256,) whether both ports are up and some EV of the plane is neither bad nor denied."""
        members = self._members
        live = np.zeros(256, np.bool_)
        live[members.planes[members.states <= EvState.SKIP]] = True
        return live & members.plane_up

    @property
    def row_up(self) -> NDArray[np.bool_]:
        """(e,) whether both ports of each row's plane are up."""
        up: NDArray[np.bool_] = self._members.plane_up[self._members.planes]
        return up

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(e,) whether each row is GOOD or SKIP and both ports of its plane are up."""
        return self._members.usable

    @property
    def local_up(self) -> NDArray[np.bool_]:
        """(256,) whether our port is up in each plane."""
        return self._members.local_up

    @property
    def remote_up(self) -> NDArray[np.bool_]:
        """(256,) whether the peer's port is up in each plane, as far as it told."""
        return self._members.remote_up

    @property
    def sendable(self) -> bool:
        """Whether any EV may be used; False only while no plane has both ports up, or all is denied."""
        return self._members.sendable

    @property
    def position(self) -> int:
        """Place in the schedule of the next first transmission."""
        return self._select.position

    def take(self, count: int, now_ns: int) -> NDArray[np.uint16]:
        """EV rows of the next `count` first transmissions, (count,); only while `sendable`."""
        if self._members.skips:
            self._end_skips(now_ns)
        return self._select.take(count)

    def other_than(self, failed: NDArray[np.uint16], silent: NDArray[np.bool_] | None = None) -> NDArray[np.uint16]:
        """Another EV for each of (m,) rows that failed: of the same plane while that answers; only while `sendable`.

        `silent` (e,) names rows from which nothing comes back; None: none.
        """
        return self._select.other_than(failed, self._unheard > 1 if self._in_doubt else None, silent)

    def any_rows(self, count: int, except_for: NDArray[np.uint16] | None = None) -> NDArray[np.uint16]:
        """Up to `count` distinct random rows that may be used, (m,), others than some; only while `sendable`."""
        rows = self._members.pool.rows
        if except_for is not None:
            wanted = np.ones(len(self._evs), np.bool_)
            wanted[except_for] = False
            rows = rows[wanted[rows]]
        return self._rng.choice(rows, min(count, len(rows)), replace=False).astype(np.uint16)

    def rows_of(self, evs: NDArray[np.uint32]) -> NDArray[np.int64]:
        """All rows, copies included, that hold one of (n,) EVs."""
        return np.flatnonzero(np.isin(self._evs, evs))

    # What the network says.

    def on_arrivals(self, rows: NDArray[np.uint16]) -> None:
        """Packets last sent on these rows (m,) have arrived: their planes live."""
        if self._starts:
            lead_of = self._members.lead_of
            self._proven[lead_of[rows]] = True
            self._starts = not self._proven[lead_of[self._members.row_of_slot]].all()
        if self._in_doubt:
            self._unheard[self._members.planes[rows]] = 0
            self._in_doubt = bool(np.count_nonzero(self._unheard))

    def on_losses(self, rows: NDArray[np.uint16], unheard: NDArray[np.bool_], now_ns: int) -> None:
        """Packets on these rows (m,), a row as often as it lost, vanished without a trace.

        `unheard` (m,) says of which nothing sent later in their plane is known to have arrived.
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
        # One turn a silent plane and one an EV that failed: neither happens to packets.
        for plane in np.flatnonzero(self._unheard).tolist():
            if self._unheard[plane] >= self._silent_after(plane):
                self._silence(plane, now_ns)
        tolerated = np.where(self._dead_so_far(hit), min(config.start_rotations, config.tolerated), config.tolerated)
        for row in members.copies_of(hit[self._losses[hit] >= tolerated]).tolist():
            self._retire(row, EvSignal.LOST, now_ns)

    def _dead_so_far(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of rows (m,) have never delivered anything, as far as that is kept: the first rotations are trials."""
        dead: NDArray[np.bool_] = ~self._proven[self._members.lead_of[rows]] & self._starts
        return dead

    def _silent_after(self, plane: int) -> int:
        """Losses without an arrival that make a plane silent: all of the first rotations, where it never spoke."""
        mine = np.flatnonzero(self.active & (self._members.planes == plane))
        if not self._dead_so_far(mine).all():
            return self._config.plane_silent_after
        return min(self._config.plane_silent_after, self._config.start_rotations * len(mine))

    def on_verdicts(self, evs: NDArray[np.uint32], verdicts: NDArray[np.uint8], now_ns: int) -> None:
        """What (r,) SACKs say of the EVs they name (EcnVerdict)."""
        if not self._config.adapts:
            return
        marked, forbidden = verdicts == EcnVerdict.SKIP_ONCE, verdicts == EcnVerdict.ALWAYS_SKIP
        if np.count_nonzero(marked):
            self._mark(self.rows_of(evs[marked]), EvSignal.MARKED, now_ns)
        if np.count_nonzero(forbidden):
            for row in self.rows_of(evs[forbidden]).tolist():
                self._retire(row, EvSignal.ALWAYS_SKIP, now_ns)

    def on_trimmed(self, rows: NDArray[np.uint16], now_ns: int) -> None:
        """Packets on these rows (m,) were trimmed inside the fabric."""
        if self._config.adapts:
            self._mark(self._members.copies_of(rows.astype(np.int64)), EvSignal.TRIMMED, now_ns)

    def revive(self, row: int, marked: bool, now_ns: int) -> None:
        """Enough probes on `row` were answered; `marked`: the last answer says SKIP_ONCE.

        It becomes a backup, or takes a slot of its plane that stands empty.
        """
        signal = EvSignal.REVIVED_MARKED if marked else EvSignal.REVIVED
        self._seat(row)
        self._losses[self._members.lead_of[row]] = 0
        self._change(np.array([row]), signal, now_ns)

    # What a controller and the ports say.

    def deny(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Use these rows (m,) no more until they are allowed; a backup takes the place where there is one."""
        for row in rows.tolist():
            self._leave(row, EvSignal.DENY, now_ns)

    def allow(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Lift the denial of rows (m,)."""
        for row in rows[self._members.states[rows] == EvState.DENIED].tolist():
            self._seat(row)
        self._change(rows, EvSignal.ALLOW, now_ns)

    def set_states(self, rows: NDArray[np.int64], state: EvState, now_ns: int) -> None:
        """A controller sets rows (m,) to GOOD, ASSUMED_BAD or DENIED, whatever they were; no floor binds it.

        So it does after it has put other values in them.
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
        """Our ports by plane (256,): those of a port that is down are out, their states untouched."""
        self._members.local_up = up.copy()
        self._follow_ports(now_ns)

    def on_remote_ports(self, up: NDArray[np.bool_], now_ns: int) -> None:
        """The peer's ports by plane (256,)."""
        self._members.remote_up = up.copy()
        self._follow_ports(now_ns)

    def leave_plane(self, plane: int, now_ns: int) -> bool:
        """Use a plane no more, its states untouched; False if too little would be left (`min_active`)."""
        members = self._members
        others = members.in_use() * members.plane_up
        others[plane] = 0
        if not members.plane_up[plane] or others.sum() < max(1, self._min_active):
            return False
        members.left[plane] = True
        self._follow_ports(now_ns)
        return True

    def try_planes(self, now_ns: int) -> list[int]:
        """Use the planes that were left again; which they are."""
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
        # Losses seen just before the fall was known were the port's, not the path's.
        blamed = (members.states == EvState.ASSUMED_BAD) & fell[members.planes]
        self._bad_since_ns[blamed & (now_ns - self._bad_since_ns < _PORT_FALL_NS)] = _PORT_BLAMED
        forgiven = np.flatnonzero(back[members.planes] & (self._bad_since_ns == _PORT_BLAMED))
        if len(forgiven):
            self._change(forgiven, EvSignal.REVIVED, now_ns)

    # How the set changes.

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
        """Take a row out of use unless the floor forbids it."""
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
        """A backup that comes back takes a slot of its plane that stands empty."""
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
        """Send a signal to rows and report those it moved."""
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
"""In place of the time an EV went bad: its port was to blame."""
