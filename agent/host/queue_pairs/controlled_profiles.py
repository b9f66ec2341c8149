"""EV profiles that a controller made on this worker's hosts, and the queue pairs that use them.

Connects `agent.core.ev.controlled_profile` with paths, templates and the denylist.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.controlled_profile import ControlledProfile
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.state import EvState
from agent.host.errors import RequestError
from agent.io.host_runtime import Channel
from agent.wire.array.template import FlowTemplate


@dataclass(slots=True)
class ChannelUser:
    """A queue pair that uses a controlled profile; before it is connected, packets cannot be encoded for it."""

    channel: Channel
    is_denied: Callable[[int], bool]
    """Reports whether a value's path crosses a denied link."""
    _template_of: Callable[[EvProfile], FlowTemplate] | None = None
    _early: dict[int, tuple[int, EvState]] = field(default_factory=dict)
    """Replacements that came before the connection."""

    def connected(self, channel: Channel, template_of: Callable[[EvProfile], FlowTemplate], now_ns: int) -> None:
        """Apply early replacements: the queue pair is connected.

        `template_of` makes the template of its packets for any values.
        """
        self.channel, self._template_of = channel, template_of
        for row, (ev, state) in self._early.items():
            self.replace_ev(row, ev, state, now_ns)
        self._early.clear()

    def set_evs(self, rows: NDArray[np.int64], state: EvState, now_ns: int) -> None:
        """Set the state of rows (m,) by order of a controller, also of rows that wait for a value."""
        self._early |= {row: (self._early[row][0], state) for row in self._early.keys() & set(rows.tolist())}
        self.channel.qp.set_evs(rows, state, now_ns)

    def replace_ev(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        """Replace a value as `ProfileUser` describes; a value over a denied link starts as DENIED."""
        if self._template_of is None:
            self._early[row] = (ev, state)
            return
        plane = self.channel.profile.planes[row : row + 1]
        self.channel.coming[row] = self._template_of(EvProfile(np.array([ev], np.uint32), plane))
        self.channel.qp.replace_ev(row, ev, EvState.DENIED if self.is_denied(ev) else state, now_ns)

    def ev_states(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return EvState (e,) and whether active (e,)."""
        return self.channel.qp.ev_states()

    def report_evs(self, states: frozenset[EvState]) -> None:
        """Choose the reported states, as `ProfileUser` describes."""
        self.channel.qp.report_evs(states)


@dataclass(frozen=True, slots=True)
class HostProfile:
    """A profile for paths to one peer."""

    peer_host: int
    control: ControlledProfile


@dataclass(slots=True)
class ControlledProfiles:
    """Controlled profiles of a worker, by host and number."""

    _profiles: dict[tuple[int, int], HostProfile] = field(default_factory=dict)
    _users: dict[int, tuple[HostProfile, ChannelUser]] = field(default_factory=dict)
    """Users by queue pair number."""
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def add(self, host: int, peer_host: int, control: ControlledProfile) -> int:
        """Add a profile; return its number."""
        number = next(self._numbers)
        self._profiles[host, number] = HostProfile(peer_host, control)
        return number

    def get(self, host: int, number: int) -> HostProfile:
        """Return a profile. Raises RequestError if there is none."""
        found = self._profiles.get((host, number))
        if found is None:
            raise RequestError(f"h{host} has no EV profile {number}")
        return found

    def remove(self, host: int, number: int) -> None:
        """Remove a profile. Raises RequestError if there is none, or queue pairs use it."""
        if self.get(host, number).control.users:
            raise RequestError(f"EV profile {number} of h{host} is used by queue pairs")
        del self._profiles[host, number]

    def join(self, profile: HostProfile, user: ChannelUser, now_ns: int) -> None:
        """Add a queue pair made of the profile's values as its user. Raises ProfileStateError."""
        profile.control.join(user, now_ns)
        self._users[user.channel.qpn] = profile, user

    def connected(self, channel: Channel, template_of: Callable[[EvProfile], FlowTemplate], now_ns: int) -> None:
        """Notify the user of a queue pair that it is connected; nothing if it uses no controlled profile."""
        if channel.qpn in self._users:
            self._users[channel.qpn][1].connected(channel, template_of, now_ns)

    def leave(self, qpn: int) -> None:
        """Remove a destroyed queue pair from the users."""
        if qpn in self._users:
            profile, user = self._users.pop(qpn)
            profile.control.leave(user)
