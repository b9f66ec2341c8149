"""How many calls does one small write take? Counted over rings without a kernel, so that no neighbour changes it.

    python -m tests.bench.calls

Counts Python functions and what they call of numpy and of Python itself, place by place; operators are not counted. The
time beside it holds what the rings' stand-in for a kernel takes, about 20 us.
"""

import cProfile
import gc
import pstats
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from agent.host.settings import WorkerSettings
from agent.io.engine import Engine
from agent.io.host_runtime import HostRuntime
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.start.deploy import worker_settings
from testbed.model.fabric import Fabric
from tests.bench import joined_rings
from tests.bench.bench_transport import LAB, SPEC
from tests.bench.joined_rings import joined_ports
from tests.bench.latency import Latency, measure_latency
from tests.bench.worker import everything_on

WRITES = 1000
_PMTU, _WINDOW_PKTS = 4096, 1024

Place = tuple[str, int, str]
"""File, line and name of a function."""


@contextmanager
def joined_engine(settings: WorkerSettings) -> Iterator[Engine]:
    """The hosts of the settings, two of them, with their ports of a plane joined back to back."""
    pairs = [joined_ports(plane) for plane in range(settings.fabric.planes)]
    hosts = zip(settings.hosts, zip(*pairs, strict=True), strict=True)
    yield Engine([HostRuntime(host.host, host.wire_address(), ports) for host, ports in hosts])
    for pair in pairs:
        for port in pair:
            port.close()


def two_hosts() -> WorkerSettings:
    """Settings of the bench's first two hosts."""
    (settings,) = worker_settings(Fabric.of(SPEC), LabDir(LAB), 1, [0], seed=1)
    return msgspec.structs.replace(settings, hosts=settings.hosts[:2])


def latency_in_memory(writes: int) -> Latency:
    """As the bench's latency, everything on, without a kernel."""
    settings = two_hosts()
    return measure_latency(settings, everything_on(_PMTU, _WINDOW_PKTS), writes, joined_engine(settings))


def calls_of(writes: int) -> Counter[Place]:
    """How often each place is called while so many writes are made, beginning and end included."""
    with cProfile.Profile() as profile:
        latency_in_memory(writes)
    found: Counter[Place] = Counter()
    for place, (_, calls, _, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if place[0] != joined_rings.__file__:
            by_stand_in = (entry[0] for caller, entry in callers.items() if caller[0] == joined_rings.__file__)
            found[place] = calls - sum(by_stand_in)
    return found


@click.command()
@click.option("--lines", default=40, show_default=True, help="Places to show.")
def main(lines: int) -> None:
    """Count and print."""
    gc.disable()
    found = latency_in_memory(WRITES)
    click.echo(f"# median {found.median_us:.0f} us, 99 % {found.p99_us:.0f} us, without a kernel")
    calls = calls_of(WRITES + 1)
    calls.subtract(calls_of(1))
    click.echo(f"# {calls.total() / WRITES:.0f} calls a write")
    for (file, line, name), count in calls.most_common(lines):
        click.echo(f"{count / WRITES:8.2f} {file}:{line} {name}")


if __name__ == "__main__":
    main()
