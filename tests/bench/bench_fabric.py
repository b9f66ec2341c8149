"""How long does a fabric take to build and verify, and to go away, beside plain Mininet with a command a step?

    python -m tests.bench.bench_fabric

Prints seconds. Same nodes, links, addresses, neighbours and routes on both sides; ours also reads everything back.
"""

import statistics
import time
from collections.abc import Callable

import click

from testbed.emulation.network import FabricNet
from testbed.model.fabric import Fabric, FabricSpec
from tests.bench import plain_mininet

LAB = "bench"


def timed(act: Callable[[], object]) -> float:
    """Seconds an act takes."""
    before = time.perf_counter()
    act()
    return time.perf_counter() - before


def ours(fabric: Fabric) -> tuple[float, float, dict[str, float]]:
    """Seconds to build and verify, seconds to tear down, and the stages of the first."""
    before = time.perf_counter()
    net = FabricNet.of(fabric, LAB)
    graph_s = time.perf_counter() - before
    try:
        up = timed(net.start)
        stages = {"graph": graph_s, **net.timings_s}
    finally:
        down = timed(net.stop)
    return graph_s + up, down, stages


def plain(fabric: Fabric) -> tuple[float, float]:
    """Seconds to build, seconds to tear down."""
    built = []
    try:
        up = timed(lambda: built.append(plain_mininet.build(fabric)))
    finally:
        down = timed(lambda: [net.stop() for net in built])
    return up, down


@click.command()
@click.option("--planes", default=4, show_default=True)
@click.option("--leaves", default=8, show_default=True)
@click.option("--spines", default=8, show_default=True)
@click.option("--repeat", default=3, show_default=True, help="Times ours is built; the median counts.")
@click.option("--skip-plain", is_flag=True, help="Ours only.")
def main(planes: int, leaves: int, spines: int, repeat: int, skip_plain: bool) -> None:
    """Measure and print."""
    fabric = Fabric.of(FabricSpec(planes=planes, leaves=leaves, spines=spines))
    click.echo(f"# {len(fabric.nodes())} nodes, {len(fabric.links())} links")
    runs = [ours(fabric) for _ in range(repeat)]
    up, down = (statistics.median(run[part] for run in runs) for part in (0, 1))
    stages = {name: statistics.median(run[2][name] for run in runs) for name in runs[0][2]}
    click.echo("#                              up, s   down, s")
    click.echo(f"spraylab, built and verified {up:7.2f}   {down:7.2f}   ({_listed(stages)})")
    if not skip_plain:
        plain_up, plain_down = plain(fabric)
        click.echo(f"plain Mininet API            {plain_up:7.2f}   {plain_down:7.2f}")
        click.echo(f"times faster                 {plain_up / up:7.1f}   {plain_down / down:7.1f}")


def _listed(stages: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())


if __name__ == "__main__":
    main()
