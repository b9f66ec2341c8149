"""Mininet's traffic tests between nodes: requirements, and iperf over IPv6, which ends no process but its own."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any

from mininet.log import output

from testbed.emulation.nodes import FabricNode
from testbed.errors import NotOfferedError, TestbedError
from testbed.root_environment import find_tool

_LISTENS_WITHIN_S = 10.0
_SETTLES_S = 10.0
"""Time added to the seconds of sending, for connecting and the report."""

_POLL_S = 0.02
_SPEED = re.compile(r"[\d.]+ \w+/sec")
_TCP_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp (net/tcp_states.h); an unconnected UDP socket is 07."""


@dataclass(frozen=True, slots=True)
class Iperf:
    """Arguments of Mininet's `iperf`."""

    protocol: str = "TCP"
    bandwidth: str = "10M"
    unit: str | None = None
    seconds: int = 5
    port: int = 5001


def require_addresses(nodes: Sequence[Any]) -> None:
    """Raise NotOfferedError if hosts of the fabric have no address, because ordinary programs cannot use them."""
    without = [node.name for node in nodes if isinstance(node, FabricNode) and node.IP() is None]
    if without:
        names = ", ".join(without[:3]) + (" ..." if len(without) > 3 else "")
        raise NotOfferedError(
            names,
            "no IP address, since only the MRC agent uses its ports",
            "build with `up --host-stack` or FabricTopo(host_stack=True)",
        )


def iperf(client: Any, server: Any, asked: Iperf) -> list[str]:
    """Return the speeds that iperf printed at the server and at the client; for UDP the requested one first.

    Raises TestbedError: iperf is not installed, does not listen, or has printed no speed.
    """
    if find_tool("iperf") is None:
        raise TestbedError("iperf is missing: install the package iperf")
    if asked.protocol not in ("TCP", "UDP"):
        raise TestbedError(f"iperf: {asked.protocol}: there are TCP and UDP")
    output("*** Iperf: testing", asked.protocol, "bandwidth between", client, "and", server, "\n")
    words = ["iperf", "-p", str(asked.port), *_options(server.IP(), asked)]
    with server.popen([*words, "-s"], stdout=PIPE) as listening:
        try:
            _wait_listening(listening, asked)
            bandwidth = ["-b", asked.bandwidth] if asked.protocol == "UDP" else []
            told = client.pexec([*words, "-t", str(asked.seconds), "-c", server.IP(), *bandwidth])
        finally:
            listening.terminate()
            heard = _ended(listening)
    speeds = [_speed(heard, "server"), _speed(told[0], "client", told[1])]
    result = [asked.bandwidth, *speeds] if asked.protocol == "UDP" else speeds
    output(f"*** Results: {result}\n")
    return result


def _options(address: str, asked: Iperf) -> list[str]:
    ipv6 = ["-V"] if ":" in address else []
    udp = ["-u"] if asked.protocol == "UDP" else []
    return ipv6 + udp + (["-f", asked.unit] if asked.unit else [])


def _wait_listening(server: "Popen[bytes]", asked: Iperf) -> None:
    """Wait until a socket of the server's namespace listens on the port. Raises TestbedError."""
    until = time.monotonic() + _LISTENS_WITHIN_S
    while not _listens(server.pid, asked):
        if server.poll() is not None or time.monotonic() > until:
            raise TestbedError(f"iperf does not listen on port {asked.port}")
        time.sleep(_POLL_S)


def _listens(pid: int, asked: Iperf) -> bool:
    name = asked.protocol.lower()
    rows = [line.split() for file in (name, f"{name}6") for line in _lines(Path(f"/proc/{pid}/net/{file}"))]
    ours = [row for row in rows if row[1].endswith(f":{asked.port:04X}")]
    return any(row[3] == _TCP_LISTEN or asked.protocol == "UDP" for row in ours)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()[1:]
    except OSError:
        return []


def _ended(process: "Popen[bytes]") -> str:
    """End a process and return its output; it is killed if it does not end."""
    try:
        return process.communicate(timeout=_SETTLES_S)[0].decode(errors="replace")
    except TimeoutExpired:
        process.kill()
        return process.communicate()[0].decode(errors="replace")


def _speed(text: str, end: str, errors: str = "") -> str:
    found: list[str] = _SPEED.findall(text)
    if not found:
        raise TestbedError(f"iperf has printed no speed at the {end}: {(errors or text).strip() or 'nothing'}")
    return found[-1]
