"""What do processes as on the card cost? Memory and packets per second, shared and one for every host and leaf.

    python -m tests.bench.bench_processes

Prints proportional set sizes (PSS: what is shared counts once, divided among those who share it) of all processes of a
lab after a run, how long it took to be up, and the packets per second of its runs.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import click

from tests.support.spraylab_command import Lab, own_lab

SCENARIO = """version: 1
name: processes
topology: {planes: PLANES, leaves: LEAVES, spines: SPINES}
transport: {pmtu: 256, window_pkts: 256, ack_timeout_ms: 5000}
workloads: [{type: write, strides: [1], packets: PACKETS, message_bytes: 256KiB}]
detector: {min_rate: 5%, processes: FORM}
"""
FORMS = {"shared": (), "per-leaf": ("--workers", "per-host")}
KINDS = ("engines", "SprayCheck", "owner")


def pss_mib(pid: int) -> float:
    """Of a process, in MiB (proc_pid_smaps(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def memory(lab: Lab) -> dict[str, tuple[int, float]]:
    """Processes of each kind and their memory together, MiB."""
    status, found = lab.json("inspect"), defaultdict[str, list[float]](list)
    found["owner"].append(pss_mib(status["owner"]["pid"]))
    for child in status["children"]:
        kind = "SprayCheck" if child["name"].startswith("spraycheck") else "engines"
        found[kind].append(pss_mib(child["process"]["pid"]))
    return {kind: (len(found[kind]), sum(found[kind])) for kind in KINDS}


def measured(form: str, scenario: Path, runs: int) -> tuple[float, list[float], dict[str, tuple[int, float]]]:
    """Seconds until up, packets per second of each run, memory after the last."""
    with tempfile.TemporaryDirectory() as folder, own_lab(Path(folder)) as lab:
        before = time.monotonic()
        lab("up", *FORMS[form], str(scenario))
        up_s = time.monotonic() - before
        rates = [rate_of(lab, scenario) for _ in range(runs)]
        return up_s, rates, memory(lab)


def rate_of(lab: Lab, scenario: Path) -> float:
    """Packets per second of one run; those of a machine that did not keep up are measured, too."""
    done = subprocess.run(lab.words("run", "--attach", "--json", str(scenario)), capture_output=True, check=False)
    if done.returncode not in (0, 5):
        raise click.ClickException(done.stderr.decode())
    return float(json.loads(done.stdout)["totals"]["packets_per_s"])


def line(form: str, up_s: float, rates: Iterable[float], held: dict[str, tuple[int, float]]) -> str:
    """A row of the table."""
    parts = " | ".join(f"{count} x {mib / count:.0f} = {mib:,.0f} MiB" for count, mib in held.values())
    total = sum(mib for _, mib in held.values())
    rates = sorted(rates)
    told = f"{statistics.median(rates):,.0f} ({rates[0]:,.0f} .. {rates[-1]:,.0f})"
    return f"| {form} | {up_s:.1f} s | {parts} | {total:,.0f} MiB | {told} |"


@click.command()
@click.option("--planes", default=2, show_default=True)
@click.option("--leaves", default=4, show_default=True)
@click.option("--spines", default=4, show_default=True)
@click.option("--packets", default=65536, show_default=True, help="Of each flow; there is one a host.")
@click.option("--runs", default=3, show_default=True, help="Of each form; the median counts.")
def main(planes: int, leaves: int, spines: int, packets: int, runs: int) -> None:
    """Measure both forms and print."""
    words = {"PLANES": planes, "LEAVES": leaves, "SPINES": spines, "PACKETS": packets}
    click.echo(f"| processes | up after | {' | '.join(KINDS)} | all | packets/s |")
    click.echo("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            file, text = Path(folder, f"{form}.yaml"), SCENARIO.replace("FORM", form)
            for word, value in words.items():
                text = text.replace(word, str(value))
            file.write_text(text)
            click.echo(line(form, *measured(form, file, runs)))


if __name__ == "__main__":
    main()
