"""Execution of requests about controlled EV profiles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.core.ev.controlled_profile import ControlledProfile
from agent.core.ev.profile_life_cycle import (
    ApiEvState,
    Attributes,
    BatchResult,
    EvFormat,
    EvMode,
    ProfileState,
    Replacement,
)
from agent.core.ev.profile_sources import GenField
from agent.host.control import profile_requests as ask
from agent.host.errors import RequestError
from agent.host.queue_pairs.construction import Wiring
from agent.io.engine import Engine

Reply = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProfileCommands:
    """Serves requests about EV profiles of an engine's hosts."""

    engine: Engine
    wiring: Wiring
    now_ns: Callable[[], int]

    def serve(self, request: ask.ProfileRequest) -> Reply:
        """Serve one request. Raises RequestError or CoreError when it cannot be done."""
        serve: Callable[[ProfileCommands, Any], Reply] = _SERVE[type(request)]
        return serve(self, request)

    def create(self, request: ask.CreateProfile) -> Reply:
        """Create a profile. Raises RequestError."""
        if request.host not in self.engine.hosts:
            raise RequestError(f"h{request.host} is not driven by this worker")
        runtime = self.engine.hosts[request.host]
        return {"profile": self.wiring.new_profile(runtime, request.peer_host, request.modify_online)}

    def set(self, request: ask.SetProfile) -> Reply:
        """Set attributes of a profile."""
        self._control(request).set(_attributes(request), self.now_ns())
        return {}

    def move(self, request: ask.MoveProfile) -> Reply:
        """Change the state of a profile."""
        self._control(request).go(ProfileState[request.state])
        return {}

    def replace(self, request: ask.ReplaceEvs) -> Reply:
        """Replace values (REPLACE_EV)."""
        wanted = [Replacement(each.ev, each.new, ApiEvState[each.state]) for each in request.evs]
        return _batch_reply(self._control(request).replace(wanted, self.now_ns(), request.all_copies))

    def modify(self, request: ask.ModifyEvs) -> Reply:
        """Set states of values (MODIFY_EV_STATE)."""
        wanted = [(ev, ApiEvState[state]) for ev, state in request.evs]
        return _batch_reply(self._control(request).modify(wanted, self.now_ns(), request.all_copies))

    def query(self, request: ask.QueryEvs) -> Reply:
        """Report states of values (QUERY_EV_STATE)."""
        result, states = self._control(request).query(request.evs, request.all_copies)
        return {**_batch_reply(result), "states": [state.name for state in states]}

    def report_state(self, request: ask.ProfileState) -> Reply:
        """Report the state of a profile."""
        return {"state": self._control(request).state.value}

    def query_entries(self, request: ask.QueryEntries) -> Reply:
        """Report all entries (QUERY_EV_ARRAY)."""
        entries = self._control(request).query_array()
        return {"entries": [{"ev": each.ev, "plane": each.plane, "state": each.state.name} for each in entries]}

    def destroy(self, request: ask.DestroyProfile) -> Reply:
        """Destroy a profile."""
        self.wiring.profiles.remove(request.host, request.profile)
        return {}

    def _control(self, request: Any) -> ControlledProfile:
        return self.wiring.profiles.get(request.host, request.profile).control


_SERVE: dict[type[Any], Callable[[ProfileCommands, Any], Reply]] = {
    ask.CreateProfile: ProfileCommands.create,
    ask.SetProfile: ProfileCommands.set,
    ask.MoveProfile: ProfileCommands.move,
    ask.ReplaceEvs: ProfileCommands.replace,
    ask.ModifyEvs: ProfileCommands.modify,
    ask.QueryEvs: ProfileCommands.query,
    ask.ProfileState: ProfileCommands.report_state,
    ask.QueryEntries: ProfileCommands.query_entries,
    ask.DestroyProfile: ProfileCommands.destroy,
}


def _attributes(request: ask.SetProfile) -> Attributes:
    fields = request.fields
    mask = request.event_mask
    return Attributes(
        mode=None if request.mode is None else EvMode[request.mode],
        format=None if request.format is None else EvFormat[request.format],
        count=request.count,
        fields=None if fields is None else tuple(GenField(f.width, f.init_val, f.min, f.max, f.mask) for f in fields),
        min_active=request.min_active,
        event_mask=None if mask is None else frozenset(ApiEvState[name] for name in mask),
    )


def _batch_reply(result: BatchResult) -> Reply:
    return {"done": result.done, "status": result.status.value}
