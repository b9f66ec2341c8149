"""Shows the current state of a host's queue pairs, as its engine worker reports it: `spraylab inspect HOST
--evs|--qps`.
"""

from typing import Any

from agent.host.control import requests as ask
from scenarios.cli.output import Output
from scenarios.errors import LabStateError, UsageError
from scenarios.lab.client import WORKER_LOOK_S, Worker, not_up
from scenarios.lab.lab_dir import LabDir, read_state
from testbed.model.fabric import Fabric
from testbed.model.ids import NodeId, Role
from testbed.model.names import parse_node

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
    from scenarios.lab.start.deploy import worker_of

    state = read_state(labdir)
    if state is None:
        raise LabStateError(not_up(labdir))
    with Worker(labdir.worker_socket(worker_of(host.index, state.workers)), WORKER_LOOK_S) as worker:
        return worker.ask(request)
