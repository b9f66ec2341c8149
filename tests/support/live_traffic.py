"""Traffic on a lab that is up, with a transport of the test's choice, faults meanwhile, and counters path by path."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.host.control import requests as ask
from results.files.event_log import read_records
from scenarios.file.model import Scenario, Topology, Workload
from scenarios.file.plan import plan_of
from scenarios.file.transport import Transport
from scenarios.lab import protocol
from scenarios.lab.client import Owner, Worker
from scenarios.workload.traffic import FlowProgress, Traffic
from tests.support.spraylab_command import Lab

MOST_WAITED = 0.2
"""Share of their time that engines may wait for a core before reactions within round trips are blurred (our choice)."""

MOST_STOLEN = 0.02
"""The same of the time of all cores that a host of this guest gave to others (our choice)."""


@dataclass(frozen=True)
class Sample:
    """Everything counted at one moment."""

    mono_s: float
    flows: tuple[FlowProgress, ...]
    evs: tuple[dict[str, Any], ...]
    """Rows of the sources only, as the workers tell them."""

    def packets(self, plane: int, flow: int | None = None) -> int:
        """First transmissions and retransmissions in a plane."""
        return sum(row["tx_first"] + row["tx_rtx"] for row in self.rows(flow) if row["plane"] == plane)

    def rows(self, flow: int | None = None) -> list[dict[str, Any]]:
        """Of one flow, or of all."""
        if flow is None:
            return list(self.evs)
        name = self.flows[flow].host, self.flows[flow].qpn
        return [row for row in self.evs if (row["host"], row["qpn"]) == name]


@dataclass
class Live:
    """A lab with traffic on it."""

    lab: Lab
    topology: Topology
    owner: Owner
    workers: Sequence[Worker]
    traffic: Traffic
    since_ns: int = field(default_factory=time.monotonic_ns)

    def fault(self, target: str, **words: str | bool) -> tuple[protocol.FaultState, ...]:
        """Put a fault on; what is in force."""
        spelt = {name.replace("_", "-"): value for name, value in words.items()}
        return self.owner.ask(protocol.FaultSet(target, spelt, seed=1), protocol.Faults).faults

    def clear(self, target: str | None = None) -> tuple[protocol.FaultState, ...]:
        """Take faults away; what they did in their whole life."""
        return self.owner.ask(protocol.FaultClear(target), protocol.Faults).faults

    def faults(self) -> tuple[protocol.FaultState, ...]:
        """Faults in force, with counters."""
        return self.owner.ask(protocol.FaultShow(), protocol.Faults).faults

    def open(self, pairs: Sequence[tuple[int, int]], payload_bytes: int, seed: int = 1, **transport: Any) -> None:
        """Queue pairs and memory for one flow a pair."""
        work = Workload(pairs=tuple(pairs), bytes=payload_bytes)
        sending = Transport.model_validate(transport)
        scenario = Scenario(
            version=1, name="live", seed=seed, topology=self.topology, transport=sending, workloads=(work,)
        )
        self.traffic.open(plan_of(scenario))
        self.since_ns = time.monotonic_ns()

    def post(self) -> None:
        """Start all writes, unannounced: nobody is asked for verdicts."""
        for worker, request in self._writes():
            worker.ask(request)

    def sample(self) -> Sample:
        """Now."""
        counts = self.traffic.counters()
        mine = {(item.source.host, item.source.qpn) for item in self.traffic.flows}
        evs = tuple(row for each in counts for row in each.evs if (row["host"], row["qpn"]) in mine)
        return Sample(time.monotonic(), self.traffic.progress(), evs)

    def follow(self, seconds: float, every_s: float = 0.1) -> list[Sample]:
        """Samples for so long, or until all is sent."""
        samples = [self.sample()]
        until = time.monotonic() + seconds
        while time.monotonic() < until and not all(flow.ended for flow in samples[-1].flows):
            time.sleep(every_s)
            samples.append(self.sample())
        return samples

    def wait(self, condition: Callable[[Sample], bool], seconds: float, what: str) -> Sample:
        """The first sample of which something holds."""
        until = time.monotonic() + seconds
        while True:
            sample = self.sample()
            if condition(sample):
                return sample
            assert time.monotonic() < until, f"not within {seconds} s: {what}"
            time.sleep(0.02)

    def finish(self, seconds: float) -> Sample:
        """The sample after the last acknowledgement; all data is right then."""
        last = self.wait(lambda sample: all(flow.ended for flow in sample.flows), seconds, "all is sent")
        wrong = [(each.bytes, each.wrong) for each in self.traffic.verify() if each.wrong]
        assert wrong == [], "bytes and wrong bytes at the receivers"
        assert [flow.state for flow in last.flows] == ["RTS"] * len(last.flows)
        return last

    def reset(self) -> None:
        """Queue pairs, memory and faults are gone."""
        self.traffic.close()
        self.clear()

    def waited(self) -> tuple[int, int]:
        """How long the engines ran, and how long they waited for a core, ns."""
        counts = self.traffic.counters()
        return sum(each.cpu_ns for each in counts), sum(each.sched_wait_ns for each in counts)

    def events(self, *names: str) -> list[dict[str, Any]]:
        """What the agents reported since `open`, in order."""
        files = [self.lab.labdir.worker_events(at) for at in range(len(self.workers))]
        found = [
            record
            for file in files
            for record in read_records(file)
            if record["mono_ns"] >= self.since_ns and record["event"] in names
        ]
        return sorted(found, key=lambda record: int(record["mono_ns"]))

    def _writes(self) -> Iterator[tuple[Worker, ask.PostWrite]]:
        for item in self.traffic.flows:
            end, far, flow = item.source, item.destination, item.flow
            yield (
                self.workers[end.host % len(self.workers)],
                ask.PostWrite(end.host, end.qpn, end.rkey, 0, flow.payload_bytes, far.va, far.rkey, flow.message_bytes),
            )


def patiently(traffic: Live, attempt: Callable[[Live], None], attempts: int = 3) -> None:
    """Do what is to be shown, again if it failed while the engines had to wait for a core: times mean nothing then.

    So do they where the machine itself had to wait for the one that it is a guest of.
    """
    for number in range(attempts):
        (ran_ns, waited_ns), (ticks, stolen) = traffic.waited(), stolen_ticks()
        try:
            attempt(traffic)
        except AssertionError:
            (now_ran_ns, now_waited_ns), (now_ticks, now_stolen) = traffic.waited(), stolen_ticks()
            ran_ns, waited_ns = now_ran_ns - ran_ns, now_waited_ns - waited_ns
            is_disturbed = waited_ns >= MOST_WAITED * (ran_ns + waited_ns)
            is_disturbed |= now_stolen - stolen >= MOST_STOLEN * (now_ticks - ticks)
            if number + 1 == attempts or not is_disturbed:
                raise
            traffic.reset()
        else:
            return


def stolen_ticks() -> tuple[int, int]:
    """Time of all cores since the start, and what of it the host of this guest gave to others, in clock ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[7]


@contextmanager
def live(lab: Lab) -> Iterator[Live]:
    """Traffic on a lab; in the end its queue pairs, memory and faults are gone."""
    with ExitStack() as undo:
        owner = undo.enter_context(Owner(lab.labdir))
        status = owner.ask(protocol.Status(), protocol.LabStatus)
        topology = Topology.model_validate({name: getattr(status, name) for name in Topology.model_fields})
        workers = [undo.enter_context(Worker(lab.labdir.worker_socket(at))) for at in range(status.workers)]
        traffic = Traffic(workers)
        undo.callback(traffic.close)
        undo.callback(owner.ask, protocol.FaultClear(None), protocol.Faults)
        yield Live(lab, topology, owner, workers, traffic)
