"""Breaks links of the lab that is up, shows the kernel's state, and repairs them: `spraylab fault`."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from faults.grammar import Word
from faults.request import KIND_WORDS, WORDS, worded
from faults.targets import chosen_of
from results.text import fault_text, held_text
from scenarios.cli.command_group import CommandGroup
from scenarios.cli.options import fabric_up, of_lab, require_root, targets_like, with_output
from scenarios.cli.output import Output
from scenarios.cli.parameters import Whole
from scenarios.errors import LabStateError, ScenariosError, UsageError
from scenarios.lab.client import Owner, not_up
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.fault_list import fault_list
from scenarios.lab.protocol import FaultClear, FaultPlanned, Faults, FaultSet, FaultShow, FaultState

COLUMNS = ("link", "asked", "in force", "mechanism", "SEEN", "DROPPED", "set by", "since")
PLANNED_COLUMNS = ("link", "asked", "next", "when", "set by")

MOST_ROWS = 8
"""Most faults with a row per direction; of more, equal ones are grouped (our choice: they fit on a screen)."""

T = TypeVar("T", FaultState, FaultPlanned)
Row = tuple[str, ...]


def fault_rows(states: Sequence[FaultState], each: bool) -> list[Row]:
    """Group faults; counters of a group are summed, and `since` is when its first fault was set."""
    return [_row(alike) for alike in _told_together(states, _likeness, each)]


def planned_rows(planned: Sequence[FaultPlanned], each: bool) -> list[Row]:
    """Group timelines in the same way."""
    return [(_where(alike), *_plan(alike[0])) for alike in _told_together(planned, _plan, each)]


def folds(states: Sequence[FaultState], planned: Sequence[FaultPlanned]) -> bool:
    """Return whether any faults would be grouped."""
    return len(fault_rows(states, False)) < len(states) or len(planned_rows(planned, False)) < len(planned)


def _told_together(told: Sequence[T], likeness: Callable[[T], Row], each: bool) -> Iterable[list[T]]:
    if each or len(told) <= MOST_ROWS:
        return [[one] for one in told]
    groups: dict[Row, list[T]] = {}
    for one in told:
        groups.setdefault(likeness(one), []).append(one)
    return groups.values()


def _likeness(state: FaultState) -> Row:
    return (fault_text(state.kind, state.requested_text), held(state), state.mechanism, state.by)


def held(state: FaultState) -> str:
    """Describe what the kernel holds, in words."""
    return held_text(state.kind, state.in_force_text)


def _row(alike: Sequence[FaultState]) -> Row:
    *what, by = _likeness(alike[0])
    seen, dropped = sum(state.seen for state in alike), sum(state.dropped for state in alike)
    return (_where(alike), *what, f"{seen:,}", f"{dropped:,}", by, min(state.since for state in alike))


def _plan(planned: FaultPlanned) -> Row:
    return (fault_text(planned.kind, planned.requested_text), planned.act, _when(planned), planned.by)


def _when(planned: FaultPlanned) -> str:
    event = "" if planned.event is None else f"on {planned.event}"
    if planned.in_s is None:
        return event
    return f"in {planned.in_s:.1f} s" + (f", or {event}" if event else "")


def _where(alike: Sequence[FaultState | FaultPlanned]) -> str:
    first = alike[0].link
    return first if len(alike) == 1 else f"{len(alike):,} directions, {first} first"


each_direction = click.option("--each", is_flag=True, help="Print one row per direction, even if there are many.")
"""Option of the commands that print faults."""


def _once(_context: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the single value; values given twice are refused, so that none is silently ignored."""
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times: {', '.join(values)}; which one is meant?")
    return values[0] if values else None


def _options(*words: Word) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return one option per word."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for word in reversed(words):
            kinds = {"is_flag": True} if word.flag else {"metavar": word.metavar, "multiple": True, "callback": _once}
            command = click.option(f"--{word.name}", word.key, help=word.help, **kinds)(command)
        return command

    return decorated


@click.group("fault", cls=CommandGroup)
def command() -> None:
    """Set, show and clear faults in the lab that is up."""


@command.command("set")
@click.argument("target", shell_complete=targets_like)
@_options(*WORDS)
@click.option("--mechanism", type=click.Choice(["auto", "netem", "ebpf", "tbf", "link"]), default="auto",
              show_default=True, help="Mechanism that makes the fault.")  # fmt: skip
@click.option("--seed", type=Whole(0), help="Repeat the choice of targets and packets; random when left out.")
@each_direction
@of_lab
@with_output
def set_command(
    labdir: LabDir,
    output: Output,
    target: str,
    mechanism: str,
    seed: int | None,
    each: bool,
    **words: str | bool | None,
) -> None:
    """Put one or more faults on TARGET and print what the kernel holds.

    A fault of the same name is replaced and printed with its last counters; if the new one fails, the old one stays.

    TARGET is a direction (p0:leaf3>spine5), both (p0:leaf3-spine5), many (p*:leaf3>spine*), what a node sends
    (p0-spine2), a port (h3:plane1) or several (p0-leaf3:spine[0-3]), a plane (p1), a random choice ("any fabric
    link", "3 links of plane 1"), or several of these with commas. The output has been read back from the kernel
    and covers only these faults; `fault show` prints all.
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
        except ScenariosError as error:
            _note_what_stands(owner, error, {str(way) for way in chosen.ways})
            raise
    _print(output, faults, "there was nothing to remove", each)


@command.command("show")
@each_direction
@of_lab
@with_output
def show_command(labdir: LabDir, output: Output, each: bool) -> None:
    """Show all faults in force with their counters, and the next step of each timeline."""
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultShow(), Faults)
    _print(output, faults, "no faults", each)


@command.command("clear")
@click.argument("target", required=False, shell_complete=targets_like)
@click.option("--all", "everything", is_flag=True, help="Clear every fault of the lab.")
@click.option("--kind", type=click.Choice([word.name for word in KIND_WORDS]), help="Only faults of this kind.")
@each_direction
@of_lab
@with_output
def clear_command(
    labdir: LabDir, output: Output, target: str | None, everything: bool, kind: str | None, each: bool
) -> None:
    """Clear the faults and timelines on TARGET, or all with --all; print their last counters."""
    if (target is None) != everything:
        raise UsageError("name a link, port or node to repair, or use --all")
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultClear(target, kind), Faults)
    _print(output, faults, "there was no fault" if kind is None else f"there was no {kind}", each)


def _note_what_stands(owner: Owner, error: ScenariosError, links: set[str]) -> None:
    """Add to a refusal what is in force at the target."""
    with suppress(ScenariosError):
        there = [state for state in owner.ask(FaultShow(), Faults).faults if state.link in links]
        told = [f"{state.link} {held(state)} by {state.mechanism}" for state in there]
        error.add_note(f"still in force there: {'; '.join(told)}" if told else "no fault is in force there")


def _print(output: Output, faults: Faults, empty: str, each: bool) -> None:
    for text in faults.failed:
        output.say(f"a timeline failed: {text}")
    if output.as_json:
        output.document(fault_list(faults))
        return
    if faults.faults or not faults.planned:
        output.table(COLUMNS, fault_rows(faults.faults, each), empty)
    if faults.planned:
        output.table(PLANNED_COLUMNS, planned_rows(faults.planned, each), "")
    if not each and folds(faults.faults, faults.planned):
        output.say("grouped, counters summed; --each and --json show every direction")
