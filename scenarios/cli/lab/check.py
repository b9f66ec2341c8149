"""Checks the lab that is up against its plan, and this machine for what a lab needs: `spraylab check` and `doctor`."""

import os
import platform
import pwd

import click

from results.files.user_files import invoker
from results.text import count_text
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import of_lab, require_root, with_output
from scenarios.cli.output import Output
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Check, Checked
from testbed.version import VERSION


@click.command("check")
@of_lab
@with_output
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


@click.command("doctor")
@with_output
@click.pass_context
def doctor_command(context: click.Context, output: Output) -> None:
    """Check whether this machine has what a lab needs; exit with 3 if something is missing. Changes nothing."""
    from scenarios.doctor import examine

    findings = examine()
    fit = all(finding.present for finding in findings if finding.needed)
    if output.as_json:
        output.document({"version": VERSION, "kernel": platform.release(), "fit": fit, "findings": findings})
    else:
        rows = [(_state(f.present, f.needed), f.name, f.use, f.advice or f.detail) for f in findings]
        output.text(f"spraylab {VERSION} on kernel {platform.release()} {platform.machine()}, run by {who()}")
        output.table(("state", "what", "for", "do or found"), rows, "nothing to examine")
        output.text("everything needed is here" if fit else "something needed is missing: `run` and `up` will fail")
    context.exit(ExitCode.OK if fit else ExitCode.ENVIRONMENT)


def who() -> str:
    """Return the user's name; under sudo also that of the user who will own the files."""
    behind = invoker()
    return _name_of(os.geteuid()) + (f" for {_name_of(behind.uid)} (sudo)" if behind is not None else "")


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _state(present: bool, needed: bool) -> str:
    return "ok" if present else "MISSING" if needed else "without"
