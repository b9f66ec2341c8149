"""Our transport as the thing measured: one engine owns both hosts and one flow writes, every byte checked after."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from agent.host import requests as ask
from agent.host.commands import Commands
from agent.host.loop import settle
from agent.host.opening import opened_engine
from agent.host.schedstat import schedstat
from agent.host.settings import WorkerSettings
from agent.host.wiring import Wiring
from agent.io.clock import monotonic_ns
from agent.io.engine import Engine

_REGION_PACKETS = 1 << 14
"""The flow writes the same region again and again."""
_MESSAGE_PACKETS = 64
_SEED = 7
_WARM_UP_S = 0.1
"""Tables are built and pages are touched in this time; not measured."""


@dataclass(frozen=True)
class Goodput:
    """One run of the transport."""

    acked_pps: float
    """Packets acknowledged in order."""
    waited: float
    """Share of the time the process waited for its CPU."""
    packets_rtx: int
    """Of the whole run, warm-up and end included, as are the fields below."""
    timeouts: int
    rx_drops: int
    wrong_bytes: int


class Subject:
    """A flow from host 0 to host 1 that never ends."""

    def __init__(self, engine: Engine, settings: WorkerSettings, qp: ask.QpSettings) -> None:
        wiring = Wiring(settings.fabric, settings.peer_addresses(), settings.seed, settings.udp_port)
        self.engine = engine
        self._serve = Commands(engine, wiring, threading.Event(), monotonic_ns).serve
        self._pmtu = qp.pmtu
        self._size = _REGION_PACKETS * qp.pmtu
        ends = [{"host": host, **self._serve(ask.CreateQp(host, 1 - host, qp))} for host in (0, 1)]
        for end, other in (ends, ends[::-1]):
            self._serve(ask.ConnectQp(end["host"], end["qpn"], ask.PeerEnd(**other)))
        source = self._serve(ask.RegisterRegion(0, self._size, _SEED, "source"))
        self._target = self._serve(ask.RegisterRegion(1, self._size, _SEED, "target"))
        self._write = ask.PostWrite(
            host=0,
            qpn=ends[0]["qpn"],
            rkey=source["rkey"],
            offset=0,
            bytes=self._size,
            remote_va=self._target["va"],
            remote_rkey=self._target["rkey"],
            message_bytes=_MESSAGE_PACKETS * qp.pmtu,
        )

    def run(self, seconds: float) -> Goodput:
        """Warm up, then drive for so long; afterwards everything posted is finished and compared."""
        self._drive(_WARM_UP_S)
        before, waited_ns, start_ns = self._sender(), schedstat()[1], monotonic_ns()
        self._drive(seconds)
        took_ns = monotonic_ns() - start_ns
        after, waited_ns = self._sender(), schedstat()[1] - waited_ns
        self._finish()
        ports, end = self._serve(ask.Counters())["ports"], self._sender()
        return Goodput(
            acked_pps=(after["acked_bytes"] - before["acked_bytes"]) / self._pmtu * 1e9 / took_ns,
            waited=waited_ns / took_ns,
            packets_rtx=end["packets_rtx"],
            timeouts=end["timeouts"],
            rx_drops=sum(port["rx_drops"] for port in ports),
            wrong_bytes=self._serve(ask.Verify(1, self._target["rkey"], _SEED))["wrong"],
        )

    def _drive(self, seconds: float) -> None:
        end_ns = monotonic_ns() + int(seconds * 1e9)
        while (now_ns := monotonic_ns()) < end_ns:
            # Looking costs little, and only so often does the backlog get low.
            for _ in range(16):
                self.engine.step(monotonic_ns())
            deque(self.engine.drain_events(), maxlen=0)
            sender = self._sender()
            if sender["backlog_pkts"] < _REGION_PACKETS and now_ns < end_ns:
                self._serve(self._write)

    def _finish(self) -> None:
        deadline_ns = monotonic_ns() + 10_000_000_000
        while (sender := self._sender())["acked_bytes"] < sender["posted_bytes"]:
            if monotonic_ns() > deadline_ns:
                raise TimeoutError(f"the flow did not end: {sender}")
            self.engine.step(monotonic_ns())

    def _sender(self) -> dict[str, Any]:
        (sender,) = (qp for qp in self._serve(ask.Progress())["qps"] if qp["host"] == 0)
        return sender


def measure(settings: WorkerSettings, qp: ask.QpSettings, seconds: float) -> Goodput:
    """Open the ports, run a flow for so long, close them: the blaster's frames find no listener in between."""
    with opened_engine(settings) as engine:
        settle()
        return Subject(engine, settings, qp).run(seconds)
