"""What the documents promise exists: commands and options in their examples, every key, every field, every module."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from pydantic import BaseModel

from results.manifest import Manifest
from results.summary import Summary
from scenarios.cli.main import main
from scenarios.model import Scenario

ROOT = Path(__file__).parents[4]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MINE = ("quickstart", "scenarios", "cli", "results-schema", "architecture", "dependencies", "troubleshooting")


def examples() -> Iterator[str]:
    """Every line of a code block that calls the command."""
    for document in DOCUMENTS:
        for block in re.findall(r"```\w*\n(.*?)```", document.read_text(), re.DOTALL):
            for line in block.splitlines():
                if line.removeprefix("sudo ").startswith("spraylab "):
                    yield line.removeprefix("sudo ").split("  #")[0].strip()


@pytest.mark.parametrize("line", sorted(set(examples())))
def test_example_is_a_command(line: str) -> None:
    _, *words = shlex.split(line)
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    command.make_context(line, words, resilient_parsing=False)


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_and_option_is_documented() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    missing = []
    for name, command in commands(main):
        if f"`{name}" not in text:
            missing.append(name)
        for param in command.params:
            if isinstance(param, click.Option):
                missing += [f"{name} {option}" for option in param.opts[:1] if option not in text]
    assert missing == []


def model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := model_in(part))), None)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for written, field in model.model_fields.items():
        name = field.alias or written
        inner = model_in(field.annotation)
        many = "[]" if str(field.annotation).startswith("tuple") else ""
        if inner is None or many:
            yield f"{prefix}{name}"
        if inner is not None:
            yield from keys(inner, f"{prefix}{name}{many}.")


def test_every_scenario_key_is_documented() -> None:
    text = (ROOT / "docs/scenarios.md").read_text()
    assert [key for key in keys(Scenario) if f"`{key}`" not in text] == []


def test_every_field_of_summary_and_manifest_is_documented() -> None:
    text = (ROOT / "docs/results-schema.md").read_text()
    assert [name for name in (*Summary.__struct_fields__, *Manifest.__struct_fields__) if name not in text] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            if not (document.parent / target).exists():
                broken.append(f"{document.name}: {target}")
    assert broken == []


def test_files_named_in_documents_exist() -> None:
    missing = []
    for name in MINE:
        text = (ROOT / f"docs/{name}.md").read_text()
        named = re.findall(r"`((?:agent|testbed|faults|scenarios|results|docs)/[\w./-]+\.\w+)`", text)
        missing += [path for path in named if not (ROOT / path).exists()]
    assert missing == []
