"""Two engines at once, each a process on a core of its own, over pairs of hosts that share no leaf."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from agent.host.control.requests import QpSettings
from agent.host.settings import WorkerSettings, load_settings
from tests.bench.subject import Goodput, measure

_DEADLINE_S = 60


def measure_together(folder: Path, engines: Sequence[WorkerSettings], qp: QpSettings, seconds: float) -> Goodput:
    """What engines reach together that begin at the same moment: rates and counts added up, the longer wait."""
    folder.joinpath("qp.json").write_bytes(msgspec.json.encode(qp))
    children = []
    for number, settings in enumerate(engines):
        path = folder / f"engine{number}.json"
        path.write_bytes(msgspec.json.encode(settings))
        command = [sys.executable, "-m", __spec__.name, path, folder / "qp.json", str(seconds)]
        children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", "an engine did not start"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        found = [Goodput(**json.loads(child.communicate(timeout=_DEADLINE_S)[0])) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return Goodput(
        acked_pps=sum(each.acked_pps for each in found),
        waited=max(each.waited for each in found),
        packets_rtx=sum(each.packets_rtx for each in found),
        timeouts=sum(each.timeouts for each in found),
        rx_drops=sum(each.rx_drops for each in found),
        wrong_bytes=sum(each.wrong_bytes for each in found),
    )


@click.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.argument("qp", type=click.Path(path_type=Path))
@click.argument("seconds", type=float)
def main(settings: Path, qp: Path, seconds: float) -> None:
    """One engine: say that it is ready, wait for a line, measure, print the result."""
    worker = load_settings(settings)
    if worker.cpu is not None:
        os.sched_setaffinity(0, {worker.cpu})
    click.echo("ready")
    sys.stdin.readline()
    found = measure(worker, msgspec.json.decode(qp.read_bytes(), type=QpSettings), seconds)
    click.echo(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
