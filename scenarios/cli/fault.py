"""`spraylab fault`: break something in the lab that is up, see what the kernel does, mend it."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from faults.targets import chosen_of
from faults.wording import DETAIL_WORDS, KIND_WORDS, ONLY_WORDS, TIMING_WORDS, Word, worded
from scenarios.cli.command_group import CommandGroup
from scenarios.cli.options import fabric_up, of_lab, require_root, targets_like, told
from scenarios.cli.output import Output
from scenarios.client import Owner, not_up
from scenarios.errors import LabStateError, ScenariosError, UsageError
from scenarios.fault_list import fault_list
from scenarios.lab_dir import LabDir
from scenarios.protocol import FaultClear, FaultPlanned, Faults, FaultSet, FaultShow

_COLUMNS = ("link", "fault", "asked", "in force", "mechanism", "SEEN", "DROPPED", "set by", "since")
_PLANNED = ("link", "fault", "next", "when", "set by")


def _once(_context: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """What was given; twice is refused rather than one of both left aside."""
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times: {', '.join(values)}; which one is meant?")
    return values[0] if values else None


def _options(*words: Word) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """One option a word."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for word in reversed(words):
            kinds = {"is_flag": True} if word.flag else {"metavar": word.metavar, "multiple": True, "callback": _once}
            command = click.option(f"--{word.name}", word.name.replace("-", "_"), help=word.help, **kinds)(command)
        return command

    return decorated


@click.group("fault", cls=CommandGroup)
def command() -> None:
    """Set, show and clear faults in the lab that is up."""


@command.command("set")
@click.argument("target", shell_complete=targets_like)
@_options(*KIND_WORDS, *ONLY_WORDS, *DETAIL_WORDS, *TIMING_WORDS)
@click.option("--mechanism", type=click.Choice(["auto", "netem", "ebpf", "tbf", "link"]), default="auto",
              show_default=True, help="What makes the fault.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Choose and hit the same again; drawn when left out.")
@of_lab
@told
def set_command(
    labdir: LabDir, output: Output, target: str, mechanism: str, seed: int | None, **words: str | bool | None
) -> None:
    """Put a fault on TARGET, several if several kinds are given; what is there already under the same name goes, and
    is printed with its last counters. If that cannot be done, what was there stays.

    TARGET is a direction (p0:leaf3>spine5), both (p0:leaf3-spine5), many (p*:leaf3>spine*), what a node sends
    (p0-spine2), a port (h3:plane1) or several (p0-leaf3:spine[0-3]), a plane (p1), a choice by chance ("any fabric
    link", "3 links of plane 1"), or several of these with commas. What is printed has been read back from the kernel.
    """
    said = {name.replace("_", "-"): value for name, value in words.items() if value not in (None, False)}
    worded(said)
    require_root()
    drawn = secrets.randbits(32) if seed is None else seed
    fabric = fabric_up(labdir)
    if fabric is None:
        raise LabStateError(not_up(labdir))
    chosen = chosen_of(target, fabric, drawn)
    if str(chosen) != target:
        output.say(f"{chosen}" + (f" (seed {drawn})" if chosen.by_chance else ""))
    kept = {name: value for name, value in said.items() if value is not None}
    with Owner(labdir) as owner:
        try:
            faults = owner.ask(FaultSet(target, kept, mechanism, seed=drawn), Faults)
        except ScenariosError:
            _tell_what_stands(owner, output, {str(way) for way in chosen.ways})
            raise
    _print(output, faults, "there was none to remove")


@command.command("show")
@of_lab
@told
def show_command(labdir: LabDir, output: Output) -> None:
    """Show all faults in force, with what the kernel counted so far, and what timelines will do next."""
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultShow(), Faults)
    _print(output, faults, "no faults")


@command.command("clear")
@click.argument("target", required=False, shell_complete=targets_like)
@click.option("--all", "everything", is_flag=True, help="Every fault of the lab.")
@click.option("--kind", type=click.Choice([word.name for word in KIND_WORDS]), help="Only faults of this kind.")
@of_lab
@told
def clear_command(labdir: LabDir, output: Output, target: str | None, everything: bool, kind: str | None) -> None:
    """Take the faults on TARGET away, or with --all every one, timelines too; prints the last counters."""
    if (target is None) != everything:
        raise UsageError("say which link, port or node is to be mended, or --all")
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultClear(target, kind), Faults)
    _print(output, faults, "there was no fault" if kind is None else f"there was no {kind}")


def _tell_what_stands(owner: Owner, output: Output, links: set[str]) -> None:
    """After a refusal: what is in force where the fault was to be put."""
    with suppress(ScenariosError):
        there = [state for state in owner.ask(FaultShow(), Faults).faults if state.link in links]
        told = [f"{state.link} {state.fault} {state.in_force_text} by {state.mechanism}" for state in there]
        output.say(f"still in force there: {'; '.join(told)}" if told else "no fault is in force there")


def _print(output: Output, faults: Faults, empty: str) -> None:
    for text in faults.failed:
        output.say(f"a timeline failed: {text}")
    if output.as_json:
        output.document(fault_list(faults))
        return
    rows = [
        (f.link, f.fault, f.requested_text, f.in_force_text, f.mechanism, str(f.seen), str(f.dropped), f.by, f.since)
        for f in faults.faults
    ]
    if rows or not faults.planned:
        output.table(_COLUMNS, rows, empty)
    if faults.planned:
        told = [(p.link, f"{p.fault} {p.requested_text}".rstrip(), p.act, _when(p), p.by) for p in faults.planned]
        output.table(_PLANNED, told, "")


def _when(planned: FaultPlanned) -> str:
    event = "" if planned.event is None else f"on {planned.event}"
    if planned.in_s is None:
        return event
    return f"in {planned.in_s:.1f} s" + (f", or {event}" if event else "")
