"""Defines options that every command has, and names that the shell can complete."""

import functools
import os
from collections.abc import Callable
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

from results.files.user_files import invoker_flaw
from scenarios.cli.output import Output, echo_aside
from scenarios.errors import EnvironmentLackingError, UsageError
from scenarios.file.scenario_files import catalog_names
from scenarios.lab.lab_dir import DEFAULT_LAB, LabDir, labs_up, read_state
from testbed.model.fabric import Fabric
from testbed.model.node_names import LAB_NAME

Command = Callable[..., Any]

MOST_WORKERS = 4096
"""Most workers: more than any fabric on one machine has hosts (our choice)."""

PER_HOST: Literal["per-host"] = "per-host"


def with_output(command: Command, quiet: tuple[str, ...] = ("-q", "--quiet")) -> Command:
    """Give a command --json, -q, -v and --no-color, and hand it an `Output` as `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @click.option(*quiet, is_flag=True, help="No progress, only results and errors.")
    @click.option("-v", "--verbose", is_flag=True, help="Print more about the progress.")
    @click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
    @functools.wraps(command)
    def wrapped(as_json: bool, quiet: bool, verbose: bool, no_color: bool, **rest: Any) -> Any:
        return command(output=Output(as_json, quiet, verbose, False if no_color else None), **rest)

    return wrapped


with_output_and_qps = functools.partial(with_output, quiet=("--quiet",))
"""Do as `with_output` for commands whose -q is a number of queue pairs, as in perftest."""


def labdir_of(name: str) -> LabDir:
    """Return the folder of a lab. Raises `UsageError` for an invalid lab name."""
    if LAB_NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a lab name; use a lower-case letter and up to nine letters or digits")
    return LabDir(name)


def of_lab(command: Command) -> Command:
    """Give a command --lab, and hand it a `LabDir` as `labdir`."""

    @click.option("--lab", default=DEFAULT_LAB, show_default=True, shell_complete=_labs, help="Name of the lab.")
    @functools.wraps(command)
    def wrapped(lab: str, **rest: Any) -> Any:
        return command(labdir=labdir_of(lab), **rest)

    return wrapped


def _workers(_context: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == PER_HOST:
        return value
    if not (value.isascii() and value.isdecimal()) or not value.strip("0"):
        raise click.BadParameter(f"{value[:20]!r} is neither a number of at least 1 nor {PER_HOST}")
    if len(value) > len(str(MOST_WORKERS)) or int(value) > MOST_WORKERS:
        raise click.BadParameter(f"{value[:20]} is too many: a worker drives one host or more, at most {MOST_WORKERS}")
    return int(value)


workers_option = click.option(
    "--workers",
    metavar=f"N|{PER_HOST}",
    callback=_workers,
    help="Engine workers that drive the hosts; per-host: one in each host's namespace.  [default: one per core]",
)


def require_root() -> None:
    """Check for root. Raises `EnvironmentLackingError` for all other users."""
    if os.geteuid() != 0:
        raise EnvironmentLackingError("root is needed for network namespaces: run this with sudo")
    if flaw := invoker_flaw():
        echo_aside(f"spraylab: {flaw}")


def fabric_up(labdir: LabDir) -> Fabric | None:
    """Return the fabric of a lab that is up, from its state file."""
    state = read_state(labdir)
    return None if state is None else state.fabric()


def scenarios_like(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete catalog names, and files."""
    names = [CompletionItem(name) for name in catalog_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def nodes_like(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete nodes of the lab that is up."""
    fabric = fabric_up(LabDir(context.params.get("lab") or DEFAULT_LAB))
    return [
        CompletionItem(str(node)) for node in (fabric.nodes() if fabric else ()) if str(node).startswith(incomplete)
    ]


def links_like(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete links of the lab that is up, in both directions and in each."""
    fabric = fabric_up(LabDir(context.params.get("lab") or DEFAULT_LAB))
    links = fabric.links() if fabric else ()
    names = [str(name) for link in links for name in (link, *link.directions)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def targets_like(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete targets of faults: links of the lab that is up, in both directions and in each, and its nodes."""
    return links_like(context, _param, incomplete) + nodes_like(context, _param, incomplete)


def _labs(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in labs_up() if name.startswith(incomplete)]
