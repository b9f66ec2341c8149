"""The worker's own drive loop with a load in the place of requests and programs: what is measured is what runs.

A load is a generator, moved on once a turn of the engine; the loop ends when it does.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns
from typing import Any

from agent.core.config import EvConfig, LossPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.qp import QueuePair
from agent.host.control import requests as ask
from agent.host.control.commands import Commands
from agent.host.control.server import ControlServer, Leases
from agent.host.programs.scheduler import Programs
from agent.host.queue_pairs.construction import Wiring
from agent.host.records.event_log import EventLog
from agent.host.settings import WorkerSettings
from agent.host.worker import drive, opened_engine, settle
from agent.io.daemon import Ending
from agent.io.engine import Engine
from tests.support.queue_pairs import qp_settings

Load = Iterator[None]


class _Loaded(Programs):
    """In the place of programs that run on ranks."""

    def __init__(self, load: Load, stop: Ending) -> None:
        super().__init__()
        self._load = load
        self._stop = stop

    def turn(self) -> bool:
        if next(self._load, self) is self:
            self._stop.set()
        return False


class BenchWorker:
    """A worker's parts, opened; events go to a file at default detail, as in a lab. Use in a `with`."""

    def __init__(self, settings: WorkerSettings, opened: AbstractContextManager[Engine] | None = None) -> None:
        """`opened`: the engine to be driven; without, over the rings of the settings' hosts."""
        self._settings = settings
        self._open = opened_engine(settings) if opened is None else opened

    def __enter__(self) -> "BenchWorker":
        """Open the ports. Raises PortOpenError."""
        settings = self._settings
        self.engine = self._open.__enter__()
        self._wiring = Wiring(settings.fabric, settings.peer_addresses(), settings.seed, settings.udp_port)
        self._stop = Ending()
        self._commands = Commands(self.engine, self._wiring, self._stop, monotonic_ns)
        return self

    def __exit__(self, *error: Any) -> None:
        """Close them: another sender's frames find no listener."""
        self._open.__exit__(*error)

    def request(self, request: ask.Request) -> dict[str, Any]:
        """The reply to a request, which comes from nowhere."""
        return self._commands.serve(request)

    def qp(self, host: int, qpn: int) -> QueuePair:
        """A queue pair of ours."""
        return self.engine.hosts[host].channels[qpn].qp

    def run(self, load: Load) -> None:
        """Drive until the load ends."""
        with TemporaryDirectory(prefix="spraylab-bench-") as folder:
            leases = Leases(self.request)
            with (
                EventLog(Path(folder) / "events.jsonl") as log,
                ControlServer(Path(folder) / "control.sock", leases.serve, leases.left) as control,
            ):
                settle()
                programs = _Loaded(load, self._stop)
                drive(self.engine, programs, control, self._wiring, log, self._stop)

    def connect(self, hosts: tuple[int, int], qp: ask.QpSettings) -> tuple[int, int]:
        """A queue pair between two of our hosts; its number at each."""
        ends = [{"host": host, **self.request(ask.CreateQp(host, peer, qp))} for host, peer in (hosts, hosts[::-1])]
        for end, other in (ends, ends[::-1]):
            self.request(ask.ConnectQp(end["host"], end["qpn"], ask.PeerEnd(**other)))
        return ends[0]["qpn"], ends[1]["qpn"]


def everything_on(pmtu: int, window_pkts: int) -> ask.QpSettings:
    """A queue pair with all that the transport can do: NSCC, EV states, probes of all kinds, port masks."""
    ev = EvConfig(
        loss_policy=LossPolicy.THRESHOLD, tail_probe_ns=20_000_000, reverse_probe_ns=20_000_000, port_mask=True
    )
    nscc = NsccConfig(base_rtt_ns=_LOADED_RTT_NS)
    return qp_settings(pmtu=pmtu, window_pkts=window_pkts, ev=ev, nscc=nscc)


_LOADED_RTT_NS = 12_000_000
"""Base round trip told to congestion control: two turns of the engine, because the fabric is forwarded in turns."""
