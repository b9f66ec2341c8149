"""Runs the command `spraylab`: finds the module of a command, turns errors into one line and an exit code.

It imports little before the signal handlers are in place, so that an early Ctrl-C is one line, too.
"""

import difflib
import errno
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem, add_completion_class

from scenarios.cli.command_group import CommandGroup
from scenarios.interrupts import interrupts_raise
from testbed.version import VERSION

_COMMANDS = {
    "up": "lab.lifecycle",
    "run": "runs.run",
    "inspect": "lab.inspect",
    "check": "lab.check",
    "exec": "lab.node_programs",
    "scapy": "lab.node_programs:scapy_command",
    "sniff": "lab.sniff",
    "fault": "lab.fault",
    "capture": "lab.capture",
    "deny": "lab.deny",
    "detect": "runs.detect",
    "watch": "lab.watch",
    "show": "runs.report:show_command",
    "report": "runs.report",
    "compare": "runs.compare",
    "study": "runs.study",
    "pcap": "runs.pcap",
    "perf": "perf.writes",
    "validate": "runs.validate",
    "doctor": "lab.check:doctor_command",
    "down": "lab.lifecycle:down_command",
    "destroy": "lab.lifecycle:down_command",
    "completion": "completion",
}
"""Module of each command below this folder, imported when it is used, and its function if that is not `command`."""


_COMPLETES = "_SPRAYLAB_COMPLETE"
"""Variable that the shell sets when it asks for completions."""


class Cli(CommandGroup):
    """A group whose commands are modules, and whose expected errors become a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands but the alias, in the order of use."""
        return [name for name in _COMMANDS if name != "destroy"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"scenarios.cli.{module}"), function or "command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing their modules; otherwise options."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or suggest the ones with similar names."""
        near = difflib.get_close_matches(args[0], _COMMANDS, n=3)
        if args[0] not in _COMMANDS and near and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Read the options of the program itself; `--help` is printed here."""
        with _errors_in_one_line():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _errors_in_one_line():
            return super().invoke(ctx)

    def main(self, *arguments: Any, **extra: Any) -> Any:
        """Run as a program."""
        _open_standard_files()
        if _COMPLETES in os.environ:
            from scenarios.cli.completion import BashComplete

            add_completion_class(BashComplete)
        with interrupts_raise():
            return super().main(*arguments, **extra)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turn errors inside into a line on stderr and an exit code; only faults of the program pass."""
    try:
        yield
    except KeyboardInterrupt:
        from scenarios.cli.exit_codes import ExitCode

        _end("interrupted", ExitCode.INTERRUPTED)
    except click.ClickException as error:  # click says it, with how the command is used
        from scenarios.cli.output import printable_message

        vars(error)["message"] = printable_message(error.message)
        with suppress(OSError):
            error.show()
        _leave(error.exit_code)
    except Exception as error:
        from scenarios.cli.exit_codes import EXPECTED, ExitCode, exit_code_of

        if isinstance(error, EXPECTED):
            _end("\n".join((str(error), *getattr(error, "__notes__", ()))), exit_code_of(error))
        if not isinstance(error, OSError):
            raise
        if error.errno == errno.EPIPE and error.filename is None:
            _end(None, ExitCode.PIPE_CLOSED)
        what = error.filename if error.filename is not None else "cannot read or write"
        _end(f"{what}: {error.strerror or error}", ExitCode.ENVIRONMENT)


def _end(line: str | None, code: int) -> NoReturn:
    with suppress(OSError):
        if line is not None:
            from scenarios.cli.output import printable_message

            click.echo(printable_message(f"spraylab: {line}{_of_current_folder(line, code)}"), err=True)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End with one of our codes, whether or not anybody could read the output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody can be told at the very end, where Python would flush again and complain
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise click.exceptions.Exit(code)


def _of_current_folder(line: str, code: int) -> str:
    """State the probable cause of an error of files: the shell's current folder was removed."""
    from scenarios.cli.exit_codes import ExitCode

    told = "the current folder was removed"
    if code not in (ExitCode.USAGE, ExitCode.ENVIRONMENT) or told in line:
        return ""
    try:
        os.getcwd()
    except FileNotFoundError:
        return f" ({told}; change to another by `cd`)"
    return ""


def _open_standard_files() -> None:
    """Replace closed stdin, stdout or stderr; otherwise a file opened later would get its number and be written to."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            _take_place_of(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _take_place_of(fd: int) -> None:
    """Replace a closed standard file, whose number is the lowest that is free."""
    if fd == 1:  # results that nobody can get are no success: writing them fails as into a pipe that nobody reads
        read_end, write_end = os.pipe()
        os.close(read_end)
        os.dup2(write_end, fd, inheritable=True)
        os.close(write_end)
    else:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


@click.command(cls=Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION)
def main() -> None:
    """A testbed for MRC packet spraying over static SRv6: build a fabric, break a link, see who notices.

    \b
    sudo spraylab run gray-link        one scenario from start to end, results in runs/latest
    sudo spraylab up                   the same fabric, left up for the other commands
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns of a home without room for its cache


if __name__ == "__main__":
    main()
