"""`spraylab down`: take a lab away, also what is left of one whose owner was killed."""

import click

from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output, counted
from scenarios.down import OwnerEnd, Removed, take_down
from scenarios.lab_dir import LabDir, run_going_on


@click.command("down")
@of_lab
@told
def command(labdir: LabDir, output: Output) -> None:
    """Take the lab down and leave nothing of it. Harmless when it is not up; nothing else is touched."""
    require_root()
    if run_going_on(labdir):
        output.say(f"a run is going on in lab {labdir.lab}; it ends with the lab")
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
    namespaces, processes = counted(removed.namespaces, "namespace"), counted(removed.processes, "process", "processes")
    return f"lab {removed.lab} is down; {_OWNER[removed.owner]}, removed {namespaces} and {processes} that were left"


_OWNER = {
    OwnerEnd.ORDERLY: "its owner ended",
    OwnerEnd.KILLED: "its owner did not answer and was killed",
    OwnerEnd.BUILDING: "its owner was building it, or taking it down, and was told to end",
    OwnerEnd.GONE: "its owner was gone",
    OwnerEnd.NONE: "it had no owner",
}
