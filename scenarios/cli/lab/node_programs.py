"""Runs a program or Scapy's console inside a node: `spraylab exec` and `scapy`.

The process becomes that program, so its exit code is the result.
"""

import os
import shutil

import click

from agent.io.scapy_environment import HOMELESS
from scenarios.cli.options import labdir_of, nodes_like, of_lab, require_root
from scenarios.cli.output import echo_aside
from scenarios.errors import EnvironmentLackingError, LabStateError, UsageError
from scenarios.isolated import isolated_command
from scenarios.lab.client import not_up
from scenarios.lab.lab_dir import LabDir, read_state
from testbed.kernel.netns import command_inside, namespace_path
from testbed.model.name_parsing import parse_node
from testbed.model.node_names import namespace_name
from testbed.root_environment import clean_environment, find_tool, marked_environment

NOT_EXECUTABLE = 126
"""Exit code of a shell for a file that is not executable."""

NOT_FOUND = 127
"""Exit code of a shell for a command that does not exist."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@of_lab
@click.argument("node", shell_complete=nodes_like)
@click.argument("words", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, labdir: LabDir, node: str, words: tuple[str, ...]) -> None:
    """Run CMD in the network namespace of NODE; exits with CMD's own code. Options go before `--`.

    \b
    spraylab exec p0-leaf3 -- ip -6 route show table local
    spraylab exec h2 -- bash
    """
    if named := _lab_behind(words):
        lab, words = named
        labdir = labdir_of(lab)
    if words[0].startswith("-") and words[0] != "--":
        raise UsageError(
            f"{words[0]} follows the node, where only --lab may stand, as in `spraylab exec h0 --lab NAME -- true`"
        )
    words = words[1:] if words[0] == "--" else words
    if not words or not words[0]:
        raise UsageError("name a command to run, for example `spraylab exec h0 -- ip -6 route`")
    require_root()
    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    name = namespace_name(labdir.lab, parse_node(node, state.fabric()))
    if not namespace_path(name).exists():
        raise LabStateError(f"{node} has lost its namespace {name}; `{labdir.down_command}` and up again")
    if shutil.which(words[0]) is None:
        there = _is_there(words[0])
        echo_aside(f"spraylab: exec: {words[0]}: {'not a program' if there else 'command not found'}")
        context.exit(NOT_EXECUTABLE if there else NOT_FOUND)
    inside = command_inside(name, words)
    if (program := find_tool(inside[0])) is None:
        raise EnvironmentLackingError(f"{inside[0]} is not installed; install the package iproute2")
    os.execve(program, inside, marked_environment(labdir.lab, os.environ))


def _lab_behind(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return the lab named between node and `--`, and the words after it; None if none is named."""
    if words[0] == "--lab" and words[2:3] == ("--",):
        return words[1], words[2:]
    if words[0].startswith("--lab=") and words[1:2] == ("--",):
        return words[0].removeprefix("--lab="), words[1:]
    return None


def _is_there(word: str) -> bool:
    """Return whether a word names a file that exists but cannot be run."""
    folders = [""] if os.sep in word else os.get_exec_path()
    return any(os.path.exists(os.path.join(folder, word)) for folder in folders)


CONSOLE = "scenarios.lab.packets.scapy_console"
_KEPT = ("TERM", "COLUMNS", "LINES", "NO_COLOR")
"""Variables that are kept of the caller's environment: they describe the terminal, and none names a file."""


@click.command("scapy")
@of_lab
@click.argument("node", shell_complete=nodes_like)
@click.option("-c", "--command", "line", metavar="PYTHON", help="Run this line in the console and end.")
def scapy_command(labdir: LabDir, node: str, line: str | None) -> None:
    """Open Scapy inside NODE. On a host, `mrc_write(h5)` sends a write and shows the answers; `lab()` lists what
    else.

    It runs as root in the folder `/` and reads no file of yours: no startup file, no history, no module of this folder.
    """
    require_root()
    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    name = namespace_name(labdir.lab, parse_node(node, state.fabric()))
    if not namespace_path(name).exists():
        raise LabStateError(f"{node} has lost its namespace {name}; `{labdir.down_command}` and up again")
    inside = command_inside(name, isolated_command(CONSOLE, labdir.lab, node, *([] if line is None else [line])))
    if (program := find_tool(inside[0])) is None:
        raise EnvironmentLackingError(f"{inside[0]} is not installed; install the package iproute2")
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.chdir("/")
    os.execve(program, inside, marked_environment(labdir.lab, clean_environment() | HOMELESS | kept))
