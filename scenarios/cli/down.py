"""`spraylab down`: take a lab away, also what is left of one whose owner was killed."""

import click

from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.down import Removed, take_down
from scenarios.lab_dir import LabDir


@click.command("down")
@of_lab
@told
def command(labdir: LabDir, output: Output) -> None:
    """Take the lab down and leave nothing of it. Harmless when it is not up; nothing else is touched."""
    require_root()
    removed = take_down(labdir)
    if output.as_json:
        output.document(removed)
    else:
        output.text(_told(removed))


def _told(removed: Removed) -> str:
    if not removed.was_up:
        return f"lab {removed.lab} is not up; nothing to remove"
    if removed.by_owner and not removed.processes and not removed.namespaces:
        return f"lab {removed.lab} is down"
    rest = f"{removed.namespaces} namespaces, {removed.processes} processes"
    return f"lab {removed.lab} is down; its owner was gone, removed {rest} that it left"
