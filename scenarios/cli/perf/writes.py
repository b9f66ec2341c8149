"""Measures how fast hosts of the lab that is up write to each other, in perftest's tables: `spraylab perf`."""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import click

from results.records.perf_rows import BandwidthRow, WriteRow, cost_line, write_header, write_line
from results.summary import size_text
from results.text import count_text
from scenarios.cli.command_group import CommandGroup
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import Command, nodes_like, of_lab, require_root, with_output_and_qps
from scenarios.cli.output import Output
from scenarios.cli.parameters import SIZE, Real, Whole
from scenarios.cli.perf.collectives import add_collectives
from scenarios.cli.perf.session import (
    ITERATIONS,
    WARMUP,
    host_of,
    print_rows,
    scapy_note,
    transport_of,
    transport_options,
    under_test,
    verdict_of,
)
from scenarios.errors import UsageError
from scenarios.lab.lab_dir import LabDir

if TYPE_CHECKING:
    from scenarios.run.request import LabInUse
    from scenarios.workload.jobs import PerfCounts
    from scenarios.workload.perf_writes import WriteTest


@click.group("perf", cls=CommandGroup)
def command() -> None:
    """Measure traffic between hosts of the lab that is up. The numbers are those of an emulator on this machine."""


add_collectives(command)


def of_write(command: Command) -> Command:
    """Give a test of writes the arguments and options that all have."""
    options = (
        click.argument("source", shell_complete=nodes_like),
        click.argument("destination", shell_complete=nodes_like),
        click.option("-a", "--all", "every", is_flag=True, help="Measure all sizes from 2 to 8388608 bytes."),
        click.option("-n", "--iters", "iterations", type=ITERATIONS, help="Messages per queue pair."),
        click.option(
            "-D",
            "--duration",
            "duration_s",
            type=Real(0.01, 3600),
            metavar="SECONDS",
            help="Duration, instead of a number of messages.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return transport_options(command)


@command.command("write-bw")
@of_write
@click.option("-s", "--size", type=SIZE, default=65536, show_default=True, help="Bytes per message.")
@click.option("-q", "--qp", "qps", type=Whole(1, 1024), default=1, show_default=True, help="Queue pairs.")
@click.option("-b", "--bidirectional", "both", is_flag=True, help="DESTINATION also writes to SOURCE.")
@click.option("-t", "--tx-depth", "depth", type=Whole(1, 65536), default=128, show_default=True,
              help="Messages in flight per queue pair.")  # fmt: skip
@of_lab
@with_output_and_qps
@click.pass_context
def write_bw_command(context: click.Context, /, labdir: LabDir, output: Output, **given: Any) -> None:
    """Measure bandwidth of writes from SOURCE to DESTINATION, in the columns of perftest's ib_write_bw.

    Exits with 1 when data arrived wrong, 5 when this machine did not keep up.
    """
    context.exit(_measure("write-bw", labdir, output, given))


@command.command("write-lat")
@of_write
@click.option("-s", "--size", type=SIZE, default=2, show_default=True, help="Bytes per message.")
@click.option("-w", "--warmup", type=WARMUP, default=100, show_default=True, help="Untimed messages before.")
@click.option("--completion", is_flag=True, help="Measure until the sender's completion, not half of a round trip.")
@of_lab
@with_output_and_qps
@click.pass_context
def write_lat_command(
    context: click.Context, /, labdir: LabDir, output: Output, completion: bool, **given: Any
) -> None:
    """Measure latency of writes from SOURCE to DESTINATION, in the columns of perftest's ib_write_lat.

    Each time is half the round trip of a message and its answer. Exits with 5 when this machine did not keep up.
    """
    until = "completion" if completion else "answer"
    context.exit(_measure("write-lat", labdir, output, given | {"until": until, "qps": 1}))


_UNITS = "MB are 2^20 bytes, packets are messages, as in perftest"

_TIMES = {
    "answer": "a time is half the round trip of a message and an answer of the same size; t_typical is the median",
    "completion": "a time is from posting a message to the sender's own completion; t_typical is the median",
}
"""Explain the columns of a latency test; their unit is in their names."""


def _measure(test: Literal["write-bw", "write-lat"], labdir: LabDir, output: Output, given: dict[str, Any]) -> ExitCode:
    """Run a test of writes and print its rows as they come."""
    from scenarios.lab.start.capacity import require_room
    from scenarios.workload.perf_writes import MOST_BYTES

    if given["iterations"] is not None and given["duration_s"] is not None:
        raise UsageError("-n and -D exclude each other: give a number of messages, or a duration")
    if given["size"] > MOST_BYTES:
        raise UsageError(f"-s {given['size']} is too large: a message is at most {MOST_BYTES} bytes (32 bits)")
    require_root()
    with under_test(labdir) as (lab, undo):
        order = _order(test, lab, given)
        require_room(order.memory_bytes(), f"the memory of {count_text(order.qps, 'queue pair')} at both hosts")
        rows, spent = _printed(output, order, lab, undo)
    return verdict_of(sum(row.wrong or 0 for row in rows if isinstance(row, BandwidthRow)), spent)


def _order(test: Literal["write-bw", "write-lat"], lab: "LabInUse", given: dict[str, Any]) -> "WriteTest":
    """The options as a test on this lab. Raises `UnknownNameError`, `UsageError`."""
    from scenarios.file.qp_settings import fitting_settings
    from scenarios.workload.perf_writes import SIZES, WriteTest

    transport = transport_of(given)
    names = given.pop("source"), given.pop("destination")
    hosts = host_of(names[0], lab.fabric), host_of(names[1], lab.fabric)
    if hosts[0] == hosts[1]:
        raise UsageError(f"{names[0]} would write to itself; name two hosts")
    size, every = given.pop("size"), given.pop("every")
    ends = given["qps"] * (2 if given.get("both") else 1)
    config = fitting_settings(transport, 1, given["qps"], lab.fabric, ends if {*hosts} & {*lab.scapy_hosts} else 0)
    return WriteTest(test, hosts, SIZES if every else (size,), config=config, **given)


def _printed(
    output: Output, test: "WriteTest", lab: "LabInUse", undo: ExitStack
) -> "tuple[list[WriteRow], PerfCounts]":
    from scenarios.workload.perf_writes import write_rows

    ways = "both ways" if test.both else "one way"
    head = (
        f"{test.test}: h{test.hosts[0]} to h{test.hosts[1]}, {count_text(test.qps, 'queue pair')}, {ways}",
        _UNITS if test.test == "write-bw" else _TIMES[test.until],
        *scapy_note(lab, test.hosts),
    )
    rows: Iterable[WriteRow] = write_rows(lab.workers, test, undo, moved_to=Progress(output, test).moved_to)
    return print_rows(output, lab, test.config, head, write_header(test.test), rows, write_line, cost_line)


EVERY_S = 2.0
"""Least time between lines, as for progress of runs."""


class Progress:
    """Progress of one test, row by row."""

    def __init__(self, output: Output, test: "WriteTest") -> None:
        self._output = output
        self._test = test
        self._size = 0
        self._first = (0.0, 0)
        """Time when the row was first read, and the bytes that were acknowledged by then."""
        self._last_s = 0.0

    def moved_to(self, size: int, acked_bytes: int) -> None:
        """Report the acknowledged share of the row of `size`, and the estimated time left at the rate so far."""
        now_s = time.monotonic()
        if size != self._size:
            self._size, self._first, self._last_s = size, (now_s, acked_bytes), now_s
        volume = self._test.volume_of(size)
        if volume is None or now_s - self._last_s < EVERY_S:
            return
        self._last_s = now_s
        first_s, first_bytes = self._first
        left = ""
        if acked_bytes > first_bytes:
            rest_s = (volume - acked_bytes) * (now_s - first_s) / (acked_bytes - first_bytes)
            left = f", about {_time_text(max(0.0, rest_s))} left"
        share = min(1.0, acked_bytes / volume)
        self._output.say(f"{self._test.test} of {size_text(size)}: {share:.0%} of {size_text(volume)}{left}")


def _time_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
