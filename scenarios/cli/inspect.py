"""`spraylab inspect`: what is up, what is broken, what is recorded."""

import click

from scenarios.cli.options import of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.client import Owner
from scenarios.lab_dir import LabDir
from scenarios.protocol import LabStatus, Status


@click.command("inspect")
@of_lab
@told
def command(labdir: LabDir, output: Output) -> None:
    """Show the lab that is up: its fabric, processes, faults in force and running captures."""
    require_root()
    with Owner(labdir) as owner:
        status = owner.ask(Status(), LabStatus)
    if output.as_json:
        output.document(status)
        return
    hosts = status.leaves * status.hosts_per_leaf
    switches = status.planes * (status.leaves + status.spines)
    output.text(f"lab {status.lab}, up since {status.started}, owner {status.owner.pid}, {status.epoch} runs so far")
    output.text(
        f"{status.planes} planes of {status.leaves} leaves and {status.spines} spines, {hosts} hosts: "
        f"{hosts + switches} namespaces, MTU {status.mtu}, host stack {'on' if status.host_stack else 'off'}"
    )
    processes = [(child.name, str(child.process.pid), child.state) for child in status.children]
    output.table(("process", "PID", "state"), processes, "no processes")
    show_faults(output, status)
    captures = [(capture.link, capture.node, capture.file) for capture in status.captures]
    output.table(("captured", "node", "file"), captures, "no captures")


def show_faults(output: Output, status: LabStatus) -> None:
    """The faults in force, in short."""
    faults = [(f.link, f.kind, f.in_force, f.mechanism, f"{f.dropped} of {f.seen}") for f in status.faults]
    output.table(("fault", "kind", "in force", "mechanism", "DROPPED"), faults, "no faults")
