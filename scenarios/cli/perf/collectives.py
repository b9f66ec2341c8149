"""Measures collectives, also by group of a training job, in nccl-tests' tables: `spraylab perf all-reduce` and
others.
"""

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from agent.host.programs.patterns import Pattern
from results.records.perf_rows import HEADER, end_lines, row_line
from results.text import count_text
from scenarios.cli.options import nodes_like, of_lab, require_root, with_output_and_qps
from scenarios.cli.output import Output
from scenarios.cli.parameters import SIZE, Whole
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
from scenarios.file.collective_plan import PATTERN_OF, Group, groups_of
from scenarios.lab.lab_dir import LabDir
from testbed.model.fabric import Fabric

if TYPE_CHECKING:
    from scenarios.run.request import LabInUse
    from scenarios.workload.collectives import CollectiveTest

MOST_BYTES = 1 << 30
"""Most bytes of a rank's memory (our choice: all ranks of a lab share one machine)."""

_GROUP_HELP = {
    Group.TP: "Tensor parallelism: all-reduce in groups of neighbouring hosts.",
    Group.DP: "Data parallelism: all-reduce in groups of hosts that lie apart.",
    Group.PP: "Pipeline parallelism: sendrecv from stage to stage.",
    Group.EP: "Expert parallelism: all-to-all in groups of neighbouring hosts.",
}


def add_collectives(group: click.Group) -> None:
    """Add a command for every pattern and every group of a training job to `perf`."""
    for pattern in Pattern:
        group.add_command(_command(pattern.value, pattern.shape.help, pattern, None))
    for kind in Group:
        group.add_command(_command(kind.value, _GROUP_HELP[kind], PATTERN_OF[kind], kind))


def _command(name: str, text: str, pattern: Pattern, kind: Group | None) -> click.Command:
    @click.command(name, help=f"{text}\n\nExits with 1 when a number is wrong, 5 when this machine did not keep up.")
    @click.option("--hosts", metavar="H0,H1,...", shell_complete=nodes_like, help="Hosts, by rank.  [default: all]")
    @click.option("-b", "--begin", type=SIZE, default="1KiB", show_default=True, help="Smallest size in bytes.")
    @click.option("-e", "--end", type=SIZE, default="1MiB", show_default=True, help="Largest size.")
    @click.option("-f", "--factor", type=Whole(2), default=4, show_default=True, help="Factor between sizes.")
    @click.option("-n", "--iters", "iterations", type=ITERATIONS, default=20, show_default=True,
                  help="Timed rounds.")  # fmt: skip
    @click.option("-w", "--warmup", type=WARMUP, default=5, show_default=True, help="Untimed rounds before.")
    @click.option("-c", "--check", type=Whole(0, 1), default=1, show_default=True,
                  help="1: check all numbers of one more round.")  # fmt: skip
    @click.option("-q", "--qp", "qps", type=Whole(1, 64), default=1, show_default=True,
                  help="Queue pairs per pair of hosts; they share each message.")  # fmt: skip
    @transport_options
    @of_lab
    @with_output_and_qps
    @click.pass_context
    def command(context: click.Context, /, labdir: LabDir, output: Output, **given: Any) -> None:
        from scenarios.lab.start.capacity import require_room
        from scenarios.workload.collectives import collective_rows

        sizes = _sizes(given.pop("begin"), given.pop("end"), given.pop("factor"))
        require_root()
        with under_test(labdir) as (lab, undo):
            test = _test(pattern, kind, lab, sizes, given)
            require_room(test.memory_bytes(), f"the memory of {count_text(test.ranks * len(test.groups), 'rank')}")
            rows, spent = print_rows(
                output,
                lab,
                test.config,
                (*_head(test), *scapy_note(lab, chain(*test.groups))),
                HEADER,
                collective_rows(lab.workers, test, undo),
                row_line,
                end_lines,
            )
        context.exit(verdict_of(sum(row.wrong or 0 for row in rows), spent))

    if kind is not None:
        size = click.option("--group-size", type=Whole(2), help="Hosts per group.  [default: all]")
        command = size(command)
    return command


def _sizes(begin: int, end: int, factor: int) -> tuple[int, ...]:
    """Return sizes from the smallest to the largest. Raises `UsageError`."""
    if begin > end:
        raise UsageError(f"-b {begin} is larger than -e {end}")
    if end > MOST_BYTES:
        raise UsageError(f"-e {end} is too large: at most {MOST_BYTES}, since every host has memory of its own here")
    sizes = [begin]
    while sizes[-1] * factor <= end:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def _test(
    pattern: Pattern, kind: Group | None, lab: "LabInUse", sizes: tuple[int, ...], given: dict[str, Any]
) -> "CollectiveTest":
    """Convert the options to a test on this lab. Raises `UnknownNameError`, `UsageError`."""
    from scenarios.file.qp_settings import fitting_settings
    from scenarios.workload.collectives import CollectiveTest, queue_pairs_to_a_host

    transport = transport_of(given)
    hosts = _hosts(given.pop("hosts"), lab.fabric)
    size = given.pop("group_size", None) or len(hosts)
    if len(hosts) % size:
        raise UsageError(f"--group-size {size} does not divide {count_text(len(hosts), 'host')}")
    groups = groups_of(kind, size, hosts)
    if len(groups[0]) * 4 > sizes[0]:
        raise UsageError(f"-b {sizes[0]} is less than a number for each of {len(groups[0])} hosts")
    leading = queue_pairs_to_a_host(pattern, len(groups[0]), given["qps"])
    ends = 2 * leading if {*hosts} & {*lab.scapy_hosts} else 0  # as many lead from a host as to it
    config = fitting_settings(transport, 1, leading, lab.fabric, ends)
    check = bool(given.pop("check"))
    return CollectiveTest(pattern, groups, sizes, check=check, config=config, group=kind, **given)


def _hosts(text: str | None, fabric: Fabric) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",")] if text is not None else [str(node) for node in fabric.hosts()]
    hosts = tuple(host_of(name, fabric) for name in names)
    if len(set(hosts)) < len(hosts) or len(hosts) < 2:
        raise UsageError(f"{', '.join(names)}: name two hosts or more, each once")
    return hosts


def _head(test: "CollectiveTest") -> tuple[str, ...]:
    groups = " ".join("[" + " ".join(f"h{host}" for host in hosts) + "]" for hosts in test.groups)
    name = f"{test.group.value}: {test.pattern.value}" if test.group else test.pattern.value
    return (
        f"{name} among {groups}, {count_text(test.qps, 'queue pair')} a pair, "
        f"{count_text(test.iterations, 'round')} after {test.warmup:,}",
        "out of place; GB are 10^9 bytes, as in nccl-tests",
    )
