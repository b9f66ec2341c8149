"""Leases: resources that a connection made and leased are destroyed when the connection ends.

So no traffic continues for a client that was killed. Stands between the control server, which distinguishes clients,
and the commands, which do not.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent.core.errors import CoreError
from agent.host.control.profile_requests import CreateProfile, DestroyProfile
from agent.host.control.requests import CreateQp, Destroy, QpName, RegionName, RegisterRegion, Request, ShareRegion
from agent.host.errors import RequestError
from agent.host.programs.requests import CreateCq, DestroyRank

Reply = dict[str, Any]


Undo = Destroy | DestroyRank | DestroyProfile
"""Request that undoes another: it destroys one resource."""


class Leases:
    """Serves requests by `serve`, and remembers the leased resources of each client that still exist."""

    def __init__(self, serve: Callable[[Request], Reply]) -> None:
        self._serve = serve
        self._held: defaultdict[int, dict[Undo, None]] = defaultdict(dict)
        """Leases by client, in the order of the requests."""

    def serve(self, request: Request, client: int) -> Reply:
        """Serve one request. Raises what the commands raise."""
        reply = self._serve(request)
        match request:
            case CreateQp(host=host, leased=True):
                self._held[client][Destroy(qps=(QpName(host, reply["qpn"]),))] = None
            case RegisterRegion(host=host, leased=True) | ShareRegion(host=host, leased=True):
                self._held[client][Destroy(regions=(RegionName(host, reply["rkey"]),))] = None
            case CreateProfile(host=host, leased=True):
                self._held[client][DestroyProfile(host, reply["profile"])] = None
            case CreateCq(host=host, leased=True):
                self._held[client][DestroyRank(host, reply["cq"])] = None
            case Destroy() | DestroyRank() | DestroyProfile():
                self._forget(request)
        return reply

    def left(self, client: int) -> None:
        """Destroy what a disconnected client has leased, the newest first."""
        for undo in reversed(self._held.pop(client, {})):
            with suppress(RequestError, CoreError):
                self._serve(undo)

    def _forget(self, done: Undo) -> None:
        """Remove the lease of a destroyed resource: another may get its number."""
        each = [done]
        if isinstance(done, Destroy):
            each = [*(Destroy(qps=(qp,)) for qp in done.qps), *(Destroy(regions=(name,)) for name in done.regions)]
        for held in self._held.values():
            for undo in each:
                held.pop(undo, None)
