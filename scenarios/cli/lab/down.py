"""Removes a lab, including the remains of one whose owner was killed: `spraylab down`."""

from contextlib import suppress

import click

from results.numbers_text import count_text
from scenarios.cli.lab.capture import print_captures
from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output, echo_aside
from scenarios.errors import ScenariosError
from scenarios.lab.client import Owner
from scenarios.lab.down import OwnerEnd, Removed, take_down
from scenarios.lab.lab_dir import LabDir, owner_of, run_going_on
from scenarios.lab.owner.captures import flaw_of
from scenarios.lab.processes import is_stopped
from scenarios.lab.protocol import Captures, CaptureState, CaptureStop, LabStatus, Status


@click.command("down")
@of_lab
@told
def command(labdir: LabDir, output: Output) -> None:
    """Take the lab down and remove everything that belongs to it. Does no harm if it is not up; touches nothing
    else.
    """
    require_root()
    if run_going_on(labdir):
        output.say(f"a run is going on in lab {labdir.lab}; it ends with the lab")
    captures = end_captures(labdir)
    removed = take_down(labdir)
    if output.as_json:
        output.document(vars(removed) | {"captures": captures})
        return
    if captures:
        print_captures(output, captures)
    output.text(_told(removed))
    for flaw in filter(None, map(flaw_of, captures)):
        echo_aside(f"spraylab: {flaw}")


def end_captures(labdir: LabDir) -> tuple[CaptureState, ...]:
    """Return captures started by hand; none if there were none, or the owner does not answer."""
    process = owner_of(labdir)
    if process is None or is_stopped(process):
        return ()  # `take_down` is to wait for it once only
    with suppress(ScenariosError), Owner(labdir) as owner:
        if owner.ask(Status(), LabStatus).captures:
            return owner.ask(CaptureStop(), Captures).captures
    return ()


def _told(removed: Removed) -> str:
    if not removed.was_up:
        return f"lab {removed.lab} is not up; nothing to remove"
    if removed.by_owner and not removed.processes and not removed.namespaces:
        return f"lab {removed.lab} is down"
    namespaces = count_text(removed.namespaces, "namespace")
    processes = count_text(removed.processes, "process", "processes")
    return f"lab {removed.lab} is down; {_OWNER[removed.owner]}, removed {namespaces} and {processes} that were left"


_OWNER = {
    OwnerEnd.ORDERLY: "its owner ended",
    OwnerEnd.KILLED: "its owner did not answer and was killed",
    OwnerEnd.BUILDING: "its owner was building it, or taking it down, and was stopped",
    OwnerEnd.GONE: "its owner was gone",
    OwnerEnd.NONE: "it had no owner",
}
