"""Opens Scapy's console inside a node, with MRC's layers, the lab and its address plan loaded: `spraylab scapy`."""

import os

import click

from agent.io.scapy_environment import HOMELESS
from scenarios.cli.options import nodes_like, of_lab, require_root
from scenarios.errors import EnvironmentLackingError, LabStateError
from scenarios.isolated import isolated_command
from scenarios.lab.client import not_up
from scenarios.lab.lab_dir import LabDir, read_state
from testbed.kernel.netns import command_inside, namespace_path
from testbed.marks import marked_environment
from testbed.model.ids import namespace_name
from testbed.model.names import parse_node
from testbed.tools import clean_environment, find_tool

CONSOLE = "scenarios.lab.packets.scapy_console"
_KEPT = ("TERM", "COLUMNS", "LINES", "NO_COLOR")
"""Variables that are kept of the caller's environment: they describe the terminal, and none names a file."""


@click.command("scapy")
@of_lab
@click.argument("node", shell_complete=nodes_like)
@click.option("-c", "--command", "line", metavar="PYTHON", help="Run this line in the console and end.")
def command(labdir: LabDir, node: str, line: str | None) -> None:
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
