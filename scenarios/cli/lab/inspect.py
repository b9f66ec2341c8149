"""Shows what is up, what is broken and what is recorded; for a host, its queue pairs: `spraylab inspect`."""

from contextlib import suppress
from typing import Any

import click
import msgspec

from agent.host.control import requests as ask
from agent.host.control.requests import Counters
from results.records.rejected import Rejected, reason_text, rejected_rows
from results.text import count_text
from scenarios.cli.lab.fault import COLUMNS, fault_rows
from scenarios.cli.options import fabric_up, nodes_like, of_lab, require_root, with_output
from scenarios.cli.output import Output
from scenarios.errors import LabStateError, UsageError, WorkerFailedError
from scenarios.lab.client import WORKER_LOOK_S, Owner, Worker, not_up
from scenarios.lab.lab_dir import LabDir, read_state
from scenarios.lab.protocol import RUNNING, LabStatus, Status
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_node
from testbed.model.node_names import NodeId, Role


@click.command("inspect")
@click.option("--nodes", is_flag=True, help="Only the names of nodes, one per line.")
@click.option("--links", is_flag=True, help="Only the names of links, one per line.")
@click.option("--evs", is_flag=True, help="State and counters of every entropy value of HOST.")
@click.option("--qps", is_flag=True, help="State, windows and counters of every queue pair of HOST.")
@click.argument("host", required=False, shell_complete=nodes_like)
@of_lab
@with_output
def command(labdir: LabDir, output: Output, nodes: bool, links: bool, evs: bool, qps: bool, host: str | None) -> None:
    """Show the lab: fabric, processes, faults in force, running captures.

    \b
    spraylab inspect                the lab
    spraylab inspect h2 --evs       the paths of a host's queue pairs, while there are any
    spraylab inspect h2 --qps       its queue pairs
    """
    if (host is None) == (evs or qps) or (evs and qps):
        raise UsageError("a host and one of --evs and --qps go together, as in `spraylab inspect h2 --evs`")
    require_root()
    if host is not None:
        fabric = fabric_up(labdir)
        if fabric is None:
            raise LabStateError(not_up(labdir))
        (show_evs if evs else show_qps)(labdir, fabric, host, output)
    elif nodes or links:
        _names(labdir, output, nodes, links)
    else:
        _lab(labdir, output)


def _lab(labdir: LabDir, output: Output) -> None:
    with Owner(labdir) as owner:
        status = owner.ask(Status(), LabStatus)
    rejected = _rejected(labdir, status)
    if output.as_json:
        output.document(msgspec.to_builtins(status) | {"rejected": rejected})
        return
    hosts = status.leaves * status.hosts_per_leaf
    switches = status.planes * (status.leaves + status.spines)
    output.text(
        f"lab {status.lab}, up since {status.started}, owner {status.owner.pid}, "
        f"{count_text(status.epoch, 'run')} so far"
    )
    output.text(
        f"{count_text(status.planes, 'plane')} of {count_text(status.leaves, 'leaf', 'leaves')} and "
        f"{count_text(status.spines, 'spine')}, {count_text(hosts, 'host')}: "
        f"{hosts + switches} namespaces, MTU {status.mtu}, host stack {'on' if status.host_stack else 'off'}"
        f"{_scapy_text(status)}"
    )
    processes = [(child.name, child.node or "-", str(child.process.pid), child.state) for child in status.children]
    output.table(("process", "inside", "PID", "state"), processes, "no processes")
    show_faults(output, status)
    captures = [(c.link, c.node, c.ended or ("full" if c.full else RUNNING), c.file) for c in status.captures]
    output.table(("captured", "node", "state", "file"), captures, "no captures")
    rows = [(row.host, f"{row.packets:,}", row.reason, reason_text(row.reason)) for row in rejected]
    output.table(("rejected at", "PACKETS", "reason", "that is"), rows, "no packets rejected by agents")


def _scapy_text(status: LabStatus) -> str:
    """Name the hosts that move packets by Scapy; empty if none does."""
    names = ", ".join(f"h{host}" for host in status.scapy_hosts)
    return f"; by Scapy: {names}" if names else ""


def _rejected(labdir: LabDir, status: LabStatus) -> tuple[Rejected, ...]:
    """Return packets that agents rejected since the lab is up; counts of processes that are not running are unknown."""
    from scenarios.lab.processes import worker_name
    from scenarios.workload.traffic import WorkerCounts, rejected_counts

    counts = dict[tuple[int, str], int]()
    running = {child.name for child in status.children if child.state == RUNNING}
    for index in range(status.workers):
        if worker_name(index) in running:
            with suppress(WorkerFailedError), Worker(labdir.worker_socket(index), WORKER_LOOK_S) as worker:
                counts |= rejected_counts([msgspec.convert(worker.ask(Counters()), WorkerCounts)])
    return rejected_rows(counts)


def _names(labdir: LabDir, output: Output, nodes: bool, links: bool) -> None:
    """Return the names that `exec`, `fault` and `capture` accept."""
    fabric = fabric_up(labdir)
    if fabric is None:
        raise LabStateError(not_up(labdir))
    names = {
        "nodes": [str(node) for node in fabric.nodes()] if nodes else [],
        "links": [str(link) for link in fabric.links()] if links else [],
    }
    if output.as_json:
        output.document({what: named for what, named in names.items() if named})
    else:
        output.text("\n".join(name for named in names.values() for name in named))


def show_faults(output: Output, status: LabStatus) -> None:
    """Describe the faults in force, in short."""
    output.table(COLUMNS, fault_rows(status.faults, each=False), "no faults")


Row = dict[str, Any]

_EV_COUNTS = ("tx_first", "tx_rtx", "acked", "lost", "timed_out", "trimmed", "probes")
_QP_COUNTS = ("packets_tx", "packets_rtx", "lost", "timeouts", "received_pkts", "duplicates", "completed_messages")


def show_evs(labdir: LabDir, fabric: Fabric, name: str, output: Output) -> None:
    """Show state and counters of every entropy value of every queue pair of a host."""
    host = _host_named(name, fabric)
    rows = [row for row in _ask(labdir, host, ask.Counters())["evs"] if row["host"] == host.index]
    if output.as_json:
        output.document(rows)
        return
    table = [
        (
            f"{row['qpn']:#x}",
            f"{row['ev']:#010x}",
            str(row["plane"]),
            "-" if row["spine"] is None else str(row["spine"]),
            row["state"],
            "active" if row["active"] else "backup",
            "yes" if row["reverse"] else "",
            *(f"{row[count]:,}" for count in _EV_COUNTS),
        )
        for row in rows
    ]
    columns = ("qp", "EV", "PLANE", "SPINE", "state", "set", "reverse", *(name.upper() for name in _EV_COUNTS))
    output.table(columns, table, f"{host} has no queue pairs")


def show_qps(labdir: LabDir, fabric: Fabric, name: str, output: Output) -> None:
    """Show state, windows, round trip and counters of every queue pair of a host."""
    host = _host_named(name, fabric)
    rows = [row for row in _ask(labdir, host, ask.Progress())["qps"] if row["host"] == host.index]
    if output.as_json:
        output.document(rows)
        return
    table = [
        (
            f"{row['qpn']:#x}",
            str(NodeId.host(row["peer"])),
            "-" if row["peer_qpn"] is None else f"{row['peer_qpn']:#x}",
            row["state"],
            f"{row['window_psns']:,}",
            "off" if row["cwnd_bytes"] is None else f"{row['cwnd_bytes']:,}",
            f"{row['rtt_ns'] / 1e6:,.3f} ms" if row["rtt_ns"] else "-",
            f"{row['in_flight_pkts']:,}",
            f"{row['backlog_pkts']:,}",
            *(f"{row[count]:,}" for count in _QP_COUNTS),
        )
        for row in rows
    ]
    names = (name.upper().removeprefix("PACKETS_").removesuffix("_PKTS") for name in _QP_COUNTS)
    columns = ("qp", "peer", "peer qp", "state", "WINDOW", "CWND_BYTES", "RTT", "IN_FLIGHT", "BACKLOG", *names)
    output.table(columns, table, f"{host} has no queue pairs")


def _host_named(name: str, fabric: Fabric) -> NodeId:
    """Return the host's number. Raises `UnknownNameError`, and `UsageError` for a switch."""
    node = parse_node(name, fabric)
    if node.role is not Role.HOST:
        raise UsageError(f"{node} is a switch; queue pairs are on hosts, such as h0")
    return node


def _ask(labdir: LabDir, host: NodeId, request: ask.Request) -> Row:
    from scenarios.lab.processes import worker_of

    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    with Worker(labdir.worker_socket(worker_of(host.index, state.workers)), WORKER_LOOK_S) as worker:
        return worker.ask(request)
