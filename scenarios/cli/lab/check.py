"""Compares the lab that is up with its plan, by the kernel's state: `spraylab check`."""

import click

from results.numbers_text import count_text
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Check, Checked


@click.command("check")
@of_lab
@told
@click.pass_context
def command(context: click.Context, labdir: LabDir, output: Output) -> None:
    """Compare the kernel state of the lab with its plan; exit with 1 if they differ.

    Routes, neighbours, addresses, MTU, queues, eBPF programs, flags and settings of every node. What the lab did
    itself, as faults in force, is no difference.
    """
    require_root()
    with Owner(labdir) as owner:
        checked = owner.ask(Check(), Checked)
    if output.as_json:
        output.document(checked)
    else:
        _print(output, checked)
    context.exit(ExitCode.CHECK_FAILED if checked.differences else ExitCode.OK)


def _print(output: Output, checked: Checked) -> None:
    if not checked.differences:
        output.text(f"all {count_text(checked.nodes, 'node')} are as planned")
        return
    rows = [(each.node, each.port, each.words) for each in checked.differences]
    output.table(("node", "port", "differs"), rows, "")
    differ = "1 thing differs" if len(checked.differences) == 1 else f"{len(checked.differences):,} things differ"
    output.say(f"{differ} from the plan, and spraylab did not do it")
