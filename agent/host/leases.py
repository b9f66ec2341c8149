"""What a connection has made and leased goes with the connection: nobody sends on for a client that was killed.

Stands between the control server, which tells clients apart, and the commands, which do not.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent.core.errors import CoreError
from agent.host.errors import RequestError
from agent.host.profile_requests import CreateProfile, DestroyProfile
from agent.host.programs.requests import CreateCq, DestroyRank
from agent.host.requests import CreateQp, Destroy, QpName, RegionName, RegisterRegion, Request, ShareRegion

Reply = dict[str, Any]


class Leases:
    """Serves requests by `serve`, and remembers what each client has leased."""

    def __init__(self, serve: Callable[[Request], Reply]) -> None:
        self._serve = serve
        self._held: defaultdict[int, list[Destroy | DestroyRank | DestroyProfile]] = defaultdict(list)
        """For each client what undoes one of its requests, in the order they came."""

    def serve(self, request: Request, client: int) -> Reply:
        """Do what is asked. Raises what the commands raise."""
        reply = self._serve(request)
        match request:
            case CreateQp(host=host, leased=True):
                self._held[client].append(Destroy(qps=(QpName(host, reply["qpn"]),)))
            case RegisterRegion(host=host, leased=True) | ShareRegion(host=host, leased=True):
                self._held[client].append(Destroy(regions=(RegionName(host, reply["rkey"]),)))
            case CreateProfile(host=host, leased=True):
                self._held[client].append(DestroyProfile(host, reply["profile"]))
            case CreateCq(host=host, leased=True):
                self._held[client].append(DestroyRank(host, reply["cq"]))
        return reply

    def left(self, client: int) -> None:
        """A client is gone: what it has not destroyed itself is destroyed, the last first."""
        for undo in reversed(self._held.pop(client, [])):
            with suppress(RequestError, CoreError):
                self._serve(undo)
