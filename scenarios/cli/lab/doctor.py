"""Shows what this kernel and machine can and cannot do, and what to install or enable: `spraylab doctor`."""

import os
import platform
import pwd

import click

from results.files.user_files import invoker
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import told
from scenarios.cli.output import Output
from testbed.version import VERSION


@click.command("doctor")
@told
@click.pass_context
def command(context: click.Context, output: Output) -> None:
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
