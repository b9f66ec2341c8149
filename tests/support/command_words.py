"""Command lines as click sees them: whether a command has the options that a text says it has."""

from collections.abc import Iterator, Sequence

import click

from scenarios.cli.main import main


def commands(group: click.Group = main, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """List every command by its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        elif command is not None:
            yield f"{prefix}{name}", command


def resolved(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and the words behind its name; a group if the words name no command of it."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            break
        command, rest = found, rest[1:]
    return command, rest


def options_of(command: click.Command) -> set[str]:
    """Every spelling of every option."""
    params = [param for param in command.params if isinstance(param, click.Option)]
    return {"--help", "-h"}.union(*(param.opts + param.secondary_opts for param in params))


def complaint_about(words: Sequence[str]) -> str | None:
    """What is wrong with a command line, whose arguments may be placeholders; None if nothing is."""
    command, rest = resolved(words)
    if isinstance(command, click.Group) and rest and rest[0].islower():
        return f"{command.name} has no command {rest[0]}"
    before = rest[: rest.index("--")] if "--" in rest else rest
    written = [word.split("=")[0] for word in before if word.startswith("-") and not _is_number(word)]
    known = options_of(command)
    unknown = [word for word in written if word not in known]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else None


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "").isdecimal() or word == "-"
