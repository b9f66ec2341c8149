"""Shows a live view of the lab that is up on a terminal; elsewhere one frame or JSON: `spraylab watch`."""

import click

from scenarios.cli.options import of_lab, require_root, with_output
from scenarios.cli.output import Output
from scenarios.errors import InterruptedRunError
from scenarios.interrupts import keyboard_interrupts
from scenarios.lab.lab_dir import LabDir


@click.command("watch")
@click.option("--once", is_flag=True, help="Print one frame and end; the default without a terminal.")
@of_lab
@with_output
def command(labdir: LabDir, output: Output, once: bool) -> None:
    """Show losses of links, paths in use, goodput, faults and detections live, until q or Ctrl-C.

    For a second terminal, beside `run --attach` or a program; it changes nothing. --json prints an object a second.
    """
    from scenarios.cli.lab.watch_loop import show
    from scenarios.watch.read import ANSWERS_NO_MORE, LabReader, ended_in_order

    require_root()
    with LabReader(labdir) as reader:
        try:
            with keyboard_interrupts():
                show(reader, output, once)
        except InterruptedRunError:
            raise
        except KeyboardInterrupt:
            return
        except ANSWERS_NO_MORE:
            if not ended_in_order(labdir):
                raise
            output.say(f"lab {labdir.lab} is down")
