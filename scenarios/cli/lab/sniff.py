"""Prints the packets of a link or a node as they pass, one line each: `spraylab sniff`."""

from contextlib import ExitStack
from pathlib import Path

import click

from agent.io.scapy_environment import leave_home
from results.captures.reader import SECTION
from results.captures.writer import PcapngWriter
from results.files.user_files import replacing
from results.text import count_text
from scenarios.cli.options import of_lab, require_root, targets_like, with_output
from scenarios.cli.output import Output
from scenarios.cli.parameters import GivenPath, Whole
from scenarios.errors import LabStateError
from scenarios.lab.client import not_up
from scenarios.lab.lab_dir import LabDir, read_state
from scenarios.overwriting import require_own, resolved_folder, starting
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_link, parse_node
from testbed.model.node_names import DirectedLink

MOST_PACKETS = 10**9


@click.command("sniff")
@click.argument("place", metavar="LINK|NODE", shell_complete=targets_like)
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@click.option("-c", "--count", type=Whole(1, MOST_PACKETS), help="End after N packets.")
@click.option("-w", "--write", type=GivenPath(), help="Also write packets to this pcapng file.")
@click.option("--seconds", type=Whole(1, 86_400), help="End after N seconds.")
@of_lab
@with_output
def command(
    labdir: LabDir,
    output: Output,
    place: str,
    words: tuple[str, ...],
    count: int | None,
    write: Path | None,
    seconds: int | None,
) -> None:
    """Print packets as they arrive over LINK, or over all links of NODE, until Ctrl-C.

    \b
    spraylab sniff h5 sack nack
    spraylab sniff p0:leaf0-spine3 write psn=0-99 -c 20

    \b
    FILTER is any of these kinds
      write  sack  nack  ack  probe  endpoint  announce
    and all of these conditions:
      rtx  trimmed  plane=0  spine=5  psn=10-20
      qp=0x3001  ev=0xc0001105  from=h0  to=h5
    """
    target = None if write is None else resolved_folder(write)
    if target is not None:
        require_own(target, "pcapng file", starting(SECTION))
    require_root()
    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    ways = ways_of(place, state.fabric())
    leave_home()
    from scenarios.cli.lab.sniff_loop import Sniffing

    with ExitStack() as held:
        writer = None if target is None else PcapngWriter(held.enter_context(replacing(target)))
        sniffing = Sniffing(labdir, state, ways, words, writer)
        sniffing.run(output, count, seconds)
    output.say(ended_text(sniffing.shown, sniffing.lost) + (f"; written to {write}" if write else ""))


def ended_text(shown: int, lost: int) -> str:
    """State how many packets were shown; missed packets may be of any kind, because nothing read them."""
    unread = f"; {count_text(lost, 'packet')} of any kind came too fast to be shown; `spraylab capture` records them"
    return count_text(shown, "packet") + (unread if lost else "")


def ways_of(text: str, fabric: Fabric) -> tuple[DirectedLink, ...]:
    """Return the directions of a link, or of all links of a node, by name. Raises `UnknownNameError`."""
    if ":" in text or ">" in text or "*" in text:
        return parse_link(text, fabric)
    node = parse_node(text, fabric)
    return tuple(way for link in fabric.links_of(node) for way in link.directions)
