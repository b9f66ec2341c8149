"""`spraylab perf`: how fast hosts of the lab that is up write to one another, in the tables of perftest."""

from collections.abc import Callable
from typing import Any, Literal

import click

from results.perf_rows import BandwidthRow, WriteRow, cost_line, write_header, write_line
from scenarios.attached import attached
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import Command, nodes_like, of_lab, require_root, told_with_qps
from scenarios.cli.output import Output, counted
from scenarios.cli.quantities import SIZE
from scenarios.errors import UsageError
from scenarios.interrupts import interrupts_raise, undoing
from scenarios.lab_dir import LabDir
from scenarios.perf_transport import PerfTransport
from scenarios.perf_writes import SIZES, WriteTest, write_rows
from testbed.model.fabric import Fabric
from testbed.model.ids import Role, parse_node

PMTUS = ("256", "512", "1024", "2048", "4096")


@click.group("perf")
def command() -> None:
    """Measure traffic between hosts of the lab that is up. The numbers are those of an emulator on this machine."""


def of_write(command: Command) -> Command:
    """Give a test of writes the arguments and options that all have."""
    options = (
        click.argument("source", shell_complete=nodes_like),
        click.argument("destination", shell_complete=nodes_like),
        click.option("-a", "--all", "every", is_flag=True, help="All sizes from 2 to 8388608 bytes."),
        click.option("-n", "--iters", "iterations", type=click.IntRange(1), help="Messages of each queue pair."),
        click.option(
            "-D",
            "--duration",
            "duration_s",
            type=click.FloatRange(0.01, 3600),
            metavar="SECONDS",
            help="For so long, instead of a number of messages.",
        ),
        click.option(
            "-m",
            "--mtu",
            "pmtu",
            type=click.Choice(PMTUS),
            default="4096",
            show_default=True,
            help="Payload bytes of a full packet (PMTU).",
        ),
        click.option(
            "--window",
            "window_pkts",
            type=click.IntRange(1, 16384),
            default=256,
            show_default=True,
            help="Packets a queue pair may have outstanding.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@command.command("write-bw")
@of_write
@click.option("-s", "--size", type=SIZE, default=65536, show_default=True, help="Bytes of a message.")
@click.option("-q", "--qp", "qps", type=click.IntRange(1, 1024), default=1, show_default=True, help="Queue pairs.")
@click.option("-b", "--bidirectional", "both", is_flag=True, help="DESTINATION writes to SOURCE, too.")
@click.option("-t", "--tx-depth", "depth", type=click.IntRange(1, 65536), default=128, show_default=True,
              help="Messages that a queue pair keeps outstanding.")  # fmt: skip
@of_lab
@told_with_qps
@click.pass_context
def write_bw_command(context: click.Context, /, labdir: LabDir, output: Output, **given: Any) -> None:
    """Bandwidth of writes from SOURCE to DESTINATION, in the columns of perftest's ib_write_bw.

    Exits with 1 when data arrived wrong, 5 when this machine lost packets by itself.
    """
    context.exit(_measure("write-bw", labdir, output, given))


@command.command("write-lat")
@of_write
@click.option("-s", "--size", type=SIZE, default=2, show_default=True, help="Bytes of a message.")
@click.option("-w", "--warmup", type=click.IntRange(0), default=100, show_default=True, help="Messages not timed.")
@click.option("--completion", is_flag=True, help="Until the sender's completion, not half the way to and fro.")
@of_lab
@told_with_qps
@click.pass_context
def write_lat_command(
    context: click.Context, /, labdir: LabDir, output: Output, completion: bool, **given: Any
) -> None:
    """Latency of writes from SOURCE to DESTINATION, in the columns of perftest's ib_write_lat.

    A message goes to and fro, and half of that is its time. Exits with 5 when this machine lost packets by itself.
    """
    until = "completion" if completion else "answer"
    context.exit(_measure("write-lat", labdir, output, given | {"until": until, "qps": 1}))


def _measure(test: Literal["write-bw", "write-lat"], labdir: LabDir, output: Output, given: dict[str, Any]) -> ExitCode:
    """Run a test of writes and print its rows as they come."""
    if given["iterations"] is not None and given["duration_s"] is not None:
        raise UsageError("-n and -D exclude one another: say how many messages, or how long")
    sizes = SIZES if given.pop("every") else (given["size"],)
    transport = PerfTransport(int(given.pop("pmtu")), given.pop("window_pkts"))
    names = given.pop("source"), given.pop("destination")
    del given["size"]
    require_root()
    rows: list[WriteRow] = []
    with interrupts_raise(), undoing() as undo:
        lab = attached(labdir, undo)
        hosts = host_of(names[0], lab.fabric), host_of(names[1], lab.fabric)
        if hosts[0] == hosts[1]:
            raise UsageError(f"{names[0]} would write to itself; name two hosts")
        order = WriteTest(test, hosts, sizes, transport=transport, **given)
        tell_order(output, _head(order, lab.fabric))
        for row in write_rows(lab.workers, lab.fabric, order, undo):
            if output.as_json:
                output.line(row)
            else:
                if not rows:
                    output.text(write_header(test))
                output.text(write_line(row))
            rows.append(row)
    if not output.as_json:
        output.text(cost_line(rows))
    return verdict_of(
        wrong=sum(row.wrong or 0 for row in rows if isinstance(row, BandwidthRow)),
        lost_here=sum(row.cost.lost_here for row in rows),
        packets=sum(row.cost.packets for row in rows),
        say=output.say,
    )


def host_of(name: str, fabric: Fabric) -> int:
    """The number of a host by its name. Raises `UnknownNameError`, `UsageError` for a switch."""
    node = parse_node(name, fabric)
    if node.role is not Role.HOST:
        raise UsageError(f"{name} is a switch; hosts are h0 to h{fabric.host_count - 1}")
    return node.index


def tell_order(output: Output, lines: tuple[str, ...]) -> None:
    """What is measured, above a table."""
    if not output.as_json:
        output.text("\n".join(f"# {line}" for line in lines))


def _head(test: WriteTest, fabric: Fabric) -> tuple[str, ...]:
    window = test.transport.settings(test.qps, fabric).window_pkts
    ways = "both ways" if test.both else "one way"
    what = f"{test.test}: h{test.hosts[0]} to h{test.hosts[1]}, {counted(test.qps, 'queue pair')}"
    return (
        f"{what}, {ways}, PMTU {test.transport.pmtu}, window {window} packets, {fabric.spec.planes} planes of "
        f"{fabric.spec.spines} spines, spraying by {test.transport.spray}",
        "an emulator's numbers; MB are 2^20 bytes, packets are messages, as in perftest",
    )


def verdict_of(wrong: int, lost_here: int, packets: int, say: Callable[[str], None]) -> ExitCode:
    """What a test means for a script."""
    if lost_here * 10_000 > packets:
        say(f"spraylab: OVERLOADED: this machine itself lost {lost_here} of {packets} packets")
        return ExitCode.OVERLOADED
    if wrong:
        say(f"spraylab: {wrong} wrong")
        return ExitCode.CHECK_FAILED
    return ExitCode.OK
