"""`spraylab detect`: what SprayCheck says, so far or as it comes."""

import time
from collections.abc import Iterable
from typing import Any

import click

from results.event_log import Tail
from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.client import not_up
from scenarios.errors import LabStateError
from scenarios.lab_dir import LabDir, read_state

POLL_S = 0.2


@click.command("detect")
@click.option("--follow", is_flag=True, help="Go on until the lab is down or Ctrl-C.")
@click.option("--all", "everything", is_flag=True, help="Healthy paths, too.")
@of_lab
@told
def command(labdir: LabDir, output: Output, follow: bool, everything: bool) -> None:
    """Show the verdicts and accusations of the lab that is up; --json prints the records as JSON Lines."""
    require_root()
    if read_state(labdir) is None:
        raise LabStateError(not_up(labdir))
    tail = Tail(labdir.detect)
    _print(tail.fresh(), output, everything)
    while follow and read_state(labdir) is not None:
        time.sleep(POLL_S)
        _print(tail.fresh(), output, everything)


def _print(records: Iterable[dict[str, Any]], output: Output, everything: bool) -> None:
    for record in records:
        if output.as_json:
            output.line(record)
        elif (text := _line(record, everything)) is not None:
            output.text(text)


def _line(record: dict[str, Any], everything: bool) -> str | None:
    if record["event"] == "DETECT" and (everything or record["verdict"] != "healthy"):
        return f"{record['ts']}  run {record['epoch']}  {_verdict(record)}"
    if record["event"] == "LOCALIZE":
        return f"{record['ts']}  run {record['epoch']}  {_accusation(record)}"
    return None


def _verdict(record: dict[str, Any]) -> str:
    path = f"p{record['plane']}:leaf{record['src_leaf']}>spine{record['spine']}>leaf{record['dst_leaf']}"
    expected = f"expected {record['lambda']:.0f}"
    if record["threshold"] is not None:
        expected += f", threshold {record['threshold']:.1f}"
    reason = f" ({record['reason']})" if record["reason"] else ""
    return f"{record['node']}: {path} {record['verdict']}: {record['count']} packets, {expected}{reason}"


def _accusation(record: dict[str, Any]) -> str:
    named = ", ".join(record["links"])
    open_sets = "; ".join(f"one of {', '.join(links)}" for links in record["candidates"])
    owed = f", {record['pending']} verdicts still owed" if record["pending"] else ""
    return f"{record['state'].upper()} {'; '.join(filter(None, (named, open_sets))) or 'no link'}{owed}"
