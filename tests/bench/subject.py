"""Our transport as the thing measured: one engine owns both hosts and one flow writes, every byte checked after."""

import itertools
from dataclasses import dataclass
from time import monotonic_ns

import msgspec

from agent.host.control import requests as ask
from agent.host.records.process_counters import schedstat
from agent.host.settings import WorkerSettings
from tests.bench.worker import BenchWorker, Load

_REGION_PACKETS = 1 << 14
"""The flow writes the same region again and again."""
_MESSAGE_PACKETS = 64
_SEED = 7
_WARM_UP_S = 0.1
"""Tables are built and pages are touched in this time; not measured."""
_LOOK_TURNS = 16
"""Looking costs little, and only so often does the backlog get low."""
_END_NS = 10_000_000_000


@dataclass(frozen=True)
class Goodput:
    """One run of the transport."""

    acked_pps: float
    """Packets acknowledged in order, for a second in which the process had its core."""
    waited: float
    """Share of the time the process waited for its CPU."""
    packets_rtx: int
    """Of the whole run, warm-up and end included, as are the fields below."""
    timeouts: int
    rx_drops: int
    wrong_bytes: int


class Subject:
    """A flow from the worker's first host to its second that never ends."""

    def __init__(self, worker: BenchWorker, qp: ask.QpSettings, announced: bool = False) -> None:
        self._worker = worker
        self._epochs = itertools.count(1) if announced else itertools.repeat(None)
        self._hosts = source_host, target_host = self._pair()
        self._pmtu = qp.core.pmtu
        qpn, _ = worker.connect(self._hosts, qp)
        self._qp = worker.qp(source_host, qpn)
        size = _REGION_PACKETS * qp.core.pmtu
        source = worker.request(ask.RegisterRegion(source_host, size, _SEED, "source"))
        self._target = worker.request(ask.RegisterRegion(target_host, size, _SEED, "target"))
        self._write = ask.PostWrite(
            host=source_host,
            qpn=qpn,
            rkey=source["rkey"],
            offset=0,
            bytes=size,
            remote_va=self._target["va"],
            remote_rkey=self._target["rkey"],
            message_bytes=_MESSAGE_PACKETS * qp.core.pmtu,
        )
        self._acked_pps = self._waited = 0.0

    def run(self, seconds: float) -> Goodput:
        """Warm up, then drive for so long; afterwards everything posted is finished and compared."""
        self._worker.run(self._flow(seconds))
        progress = self._qp.progress()
        if progress.acked_bytes < progress.posted_bytes:
            raise TimeoutError(f"the flow did not end: {progress}")
        ports = self._worker.request(ask.Counters())["ports"]
        verified = self._worker.request(ask.Verify(self._hosts[1], self._target["rkey"], _SEED))
        return Goodput(
            acked_pps=self._acked_pps,
            waited=self._waited,
            packets_rtx=progress.requester.packets_rtx,
            timeouts=progress.requester.timed_out,
            rx_drops=sum(port["rx_drops"] for port in ports),
            wrong_bytes=verified["wrong"],
        )

    def _flow(self, seconds: float) -> Load:
        yield from self._writing(_WARM_UP_S)
        acked, waited_ns, start_ns = self._qp.progress().acked_bytes, schedstat()[1], monotonic_ns()
        yield from self._writing(seconds)
        took_ns, waited_ns = monotonic_ns() - start_ns, schedstat()[1] - waited_ns
        self._acked_pps = (self._qp.progress().acked_bytes - acked) / self._pmtu * 1e9 / (took_ns - waited_ns)
        self._waited = waited_ns / took_ns
        deadline_ns = monotonic_ns() + _END_NS
        while self._unfinished() and monotonic_ns() < deadline_ns:
            yield

    def _writing(self, seconds: float) -> Load:
        end_ns = monotonic_ns() + int(seconds * 1e9)
        while monotonic_ns() < end_ns:
            if self._qp.progress().backlog_pkts < _REGION_PACKETS:
                self._worker.request(msgspec.structs.replace(self._write, epoch=next(self._epochs)))
            for _ in range(_LOOK_TURNS):
                yield

    def _unfinished(self) -> bool:
        progress = self._qp.progress()
        return progress.acked_bytes < progress.posted_bytes

    def _pair(self) -> tuple[int, int]:
        first, second = list(self._worker.engine.hosts)[:2]
        return first, second


def measure(settings: WorkerSettings, qp: ask.QpSettings, seconds: float, announced: bool = False) -> Goodput:
    """Open the ports, run a flow for so long, close them: the blaster's frames find no listener in between.

    `announced`: each write is announced to the leaves and closed, as in a run.
    """
    with BenchWorker(settings) as worker:
        return Subject(worker, qp, announced).run(seconds)
