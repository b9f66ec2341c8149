"""`spraylab exec`: a command inside a node; becomes that command, so its exit code is the answer."""

import os
import shutil

import click

from scenarios.cli.options import nodes_like, of_lab, require_root
from scenarios.client import not_up
from scenarios.errors import LabStateError
from scenarios.lab_dir import LabDir, read_state
from scenarios.processes import marked_environment
from testbed.kernel.netns import command_inside, namespace_path
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.ids import namespace_name, parse_node

NOT_FOUND = 127
"""What a shell answers for a command that does not exist."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@of_lab
@click.argument("node", shell_complete=nodes_like)
@click.argument("words", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, labdir: LabDir, node: str, words: tuple[str, ...]) -> None:
    """Run CMD in the network namespace of NODE; exits with CMD's own code.

    \b
    spraylab exec p0-leaf3 -- ip -6 route show table local
    spraylab exec h2 -- bash
    """
    require_root()
    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    fabric = Fabric.of(FabricSpec(state.planes, state.leaves, state.spines, state.hosts_per_leaf))
    name = namespace_name(labdir.lab, parse_node(node, fabric))
    if not namespace_path(name).exists():
        raise LabStateError(f"{node} has lost its namespace {name}; `spraylab down` and `up` again")
    words = words[1:] if words[0] == "--" else words
    if shutil.which(words[0]) is None:
        click.echo(f"spraylab: exec: {words[0]}: command not found", err=True)
        context.exit(NOT_FOUND)
    inside = command_inside(name, words)
    os.execvpe(inside[0], inside, marked_environment(labdir.lab, os.environ))
