"""Provides what all performance tests share: exclusive use of the lab, rows as they come, conditions that worsen the
numbers, an exit code.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.host.control.requests import QpSettings
from results.text import count_text
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.lab.fault import fault_rows, planned_rows
from scenarios.cli.options import Command
from scenarios.cli.output import Output, echo_aside
from scenarios.cli.parameters import Whole
from scenarios.errors import UsageError
from scenarios.interrupts import interrupts_raise, undoing
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Denials, DenyShow, Faults, FaultShow
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_node
from testbed.model.node_names import Role, those_there_are

if TYPE_CHECKING:
    from scenarios.file.transport import Transport
    from scenarios.run.request import LabInUse
    from scenarios.workload.jobs import PerfCounts


PMTUS = ("256", "512", "1024", "2048", "4096")

ITERATIONS, WARMUP = Whole(1, 1_000_000_000), Whole(0, 1_000_000_000)
"""Most messages or rounds: more than anybody waits for (our choice)."""

R = TypeVar("R")


def transport_options(command: Command) -> Command:
    """Give a test the options of its queue pairs."""
    options = (
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
            type=Whole(1, 16384),
            default=256,
            show_default=True,
            help="Packets a queue pair may have outstanding; fewer if the rings would not hold all.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def transport_of(given: dict[str, Any]) -> "Transport":
    """Build the configuration from what `transport_options` gave."""
    from scenarios.file.transport import Transport

    return Transport.model_validate({"pmtu": int(given.pop("pmtu")), "window_pkts": given.pop("window_pkts")})


@contextmanager
def under_test(labdir: LabDir) -> Iterator[tuple["LabInUse", ExitStack]]:
    """Open the lab that is up for this test alone, with a stack of cleanup actions."""
    from scenarios.run.request import attached

    with interrupts_raise(), undoing() as undo:
        yield attached(labdir, undo), undo


def host_of(name: str, fabric: Fabric) -> int:
    """Return the number of a host by its name. Raises `UnknownNameError`, `UsageError` for a switch."""
    node = parse_node(name, fabric)
    if node.role is not Role.HOST:
        raise UsageError(f"{name} is a switch; {those_there_are('host', 'h', fabric.host_count)}")
    return node.index


def scapy_note(lab: "LabInUse", hosts: Iterable[int]) -> tuple[str, ...]:
    """Name those of a test's hosts that use Scapy, in a line for its head; empty without any."""
    names = " and ".join(f"h{host}" for host in sorted({*hosts} & {*lab.scapy_hosts}))
    return (f"Scapy builds and reads the packets of {names}: slow, so the window is kept small",) if names else ()


def print_rows(
    output: Output,
    lab: "LabInUse",
    config: QpSettings,
    head: Sequence[str],
    header: str,
    rows: Iterable[R],
    line: Callable[[R], str],
    foot: Callable[[list[R]], str],
) -> "tuple[list[R], PerfCounts]":
    """Print rows as they come, as a table with its header and footer, or as JSON Lines.

    Returns what was printed, and what the lab's engines spent meanwhile. Faults and denials are printed above a
    table (with JSON on stderr), and again below if others are in force at the end.
    """
    from scenarios.workload.jobs import perf_counts

    printed: list[R] = []
    spec, before, hindered = lab.fabric.spec, perf_counts(lab.workers), hindrances(lab.owner)
    core = config.core
    sent = f"PMTU {core.pmtu}, window {count_text(core.window_pkts, 'packet')}, spraying by {core.policy.value}"
    paths = f"{count_text(spec.planes, 'plane')} of {count_text(spec.spines, 'spine')}"
    told = (head[0], f"{sent} over {paths}; an emulator's numbers", *head[1:])
    if not output.as_json:
        output.text("\n".join([*(f"# {each}" for each in (*told, *hindered)), header]))
    else:
        _aside(hindered)
    for row in rows:
        printed.append(row)
        if output.as_json:
            output.line(row)
        else:
            output.text(line(row))
    spent = perf_counts(lab.workers).since(before)
    if not output.as_json:
        output.text(f"{foot(printed)}\n# engines waited {spent.wait_share:.0%} of their time for a core")
    if (now := hindrances(lab.owner)) != hindered:
        _aside(("faults or denials changed during the test, now:", *(now or ("none",))))
    return printed, spent


def _aside(lines: Iterable[str]) -> None:
    for line in lines:
        echo_aside(f"spraylab: {line}")


def verdict_of(wrong: int, spent: "PerfCounts") -> ExitCode:
    """Return the exit code of a test."""

    if reason := overload(spent):
        echo_aside(f"spraylab: OVERLOADED: {reason}")
        return ExitCode.OVERLOADED
    return ExitCode.CHECK_FAILED if wrong else ExitCode.OK


def hindrances(owner: Owner) -> tuple[str, ...]:
    """List faults in force, those that timelines will set or clear, and denied links, a line each; many equal ones
    in one.
    """
    faults = owner.ask(FaultShow(), Faults)
    return (*_fault_lines(faults), *_denial_lines(owner.ask(DenyShow(), Denials)))


def _fault_lines(faults: Faults) -> Iterator[str]:
    for link, asked, held, _, _, _, by, _ in fault_rows(faults.faults, each=False):
        what = asked if held == asked else f"{asked} (the kernel holds: {held})"
        yield f"fault in force: {link} {what}, set by {by}"
    for link, asked, act, _, by in planned_rows(faults.planned, each=False):
        yield f"fault to come: a timeline will {act} {asked} on {link}, set by {by} (`spraylab fault show` says when)"


def _denial_lines(denials: Denials) -> Iterator[str]:
    if links := [each.link for each in denials.denials]:
        more = f" and {len(links) - 1:,} more" if len(links) > 1 else ""
        yield f"denied to all queue pairs: {links[0]}{more} (`spraylab deny show`)"


def overload(spent: "PerfCounts") -> str:
    """State why the numbers of a test mean little, if this machine did not keep up; empty if it did.

    Everything that such a test measures is a time, so what is a warning of a run's counts is enough here.
    """
    from scenarios.run.judge.checks import BUSY_SHARE, QUIET_SHARE

    reasons = []
    if spent.lost_here > spent.packets * QUIET_SHARE:
        reasons.append(f"this machine itself lost {spent.lost_here:,} of {count_text(spent.packets, 'packet')}")
    if spent.wait_share >= BUSY_SHARE:
        reasons.append(f"engines waited {spent.wait_share:.0%} of their time for a core: the times are unreliable")
    return "; ".join(reasons)
