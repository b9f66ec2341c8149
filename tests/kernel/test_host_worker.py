"""Two engine workers, each in charge of one host, over two planes of bare veth between throwaway namespaces.

No routers: a tap sees a frame whatever its address, so this is the worker process alone, sockets and rings included.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host.queue_pairs.flow_announcements import CLOSING_COPIES

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and AF_PACKET"),
]

PLANES = 2
DEADLINE_S = 30
NAMES = (f"spraylab-host-{os.getpid()}-a", f"spraylab-host-{os.getpid()}-b")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def mac(host: int, plane: int) -> str:
    return f"02:3{plane}:00:0{host}:20:00"


class Client:
    """A connection to a worker's control socket."""

    def __init__(self, path: Path) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not path.exists():
            assert time.monotonic() < deadline, "the worker did not start"
            time.sleep(0.02)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rb")

    def ask(self, op: str, **fields) -> dict:
        self.socket.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
        reply = json.loads(self.lines.readline())
        assert reply.pop("ok"), reply
        return reply


@pytest.fixture
def engines() -> tuple[str, str]:
    """Of both hosts."""
    return "ring", "ring"


@pytest.fixture
def workers(tmp_path, engines) -> Iterator[tuple[Client, Client]]:
    with contextlib.ExitStack() as undo:
        for name in NAMES:
            ip("netns", "add", name)
            undo.callback(ip, "netns", "del", name)
            ip("netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for plane in range(PLANES):
            ends = [
                ["name", f"plane{plane}", "mtu", "9000", "address", mac(host, plane), "netns", name]
                for host, name in enumerate(NAMES)
            ]
            ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            for name in NAMES:
                ip("-n", name, "link", "set", f"plane{plane}", "up")
        yield tuple(undo.enter_context(worker(tmp_path, host, engines[host])) for host in range(2))


@contextlib.contextmanager
def worker(folder: Path, host: int, engine: str) -> Iterator[Client]:
    settings = folder / f"worker{host}.json"
    settings.write_text(json.dumps(settings_of(folder, host, engine)))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-m", "agent.host", str(settings)], env=environment) as process:
        try:
            client = Client(folder / f"worker{host}.sock")
            yield client
            client.ask("shutdown")
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()


def settings_of(folder: Path, host: int, engine: str) -> dict:
    ports = [
        {"plane": p, "interface": f"plane{p}", "mac": mac(host, p), "leaf_mac": mac(1 - host, p)} for p in range(PLANES)
    ]
    places = [{"host": number, "address": f"fd5f::{number}", "leaf": number, "slot": 0} for number in range(2)]
    return {
        "lab": "test",
        "control_socket": str(folder / f"worker{host}.sock"),
        "event_log": str(folder / f"agent{host}.jsonl"),
        "older_event_log": str(folder / f"agent{host}.older.jsonl"),
        "cpu": sorted(os.sched_getaffinity(0))[host % len(os.sched_getaffinity(0))],
        "fabric": {"planes": PLANES, "leaves": 2, "spines": 4, "hosts_per_leaf": 1},
        "hosts": [{**places[host], "netns": f"/run/netns/{NAMES[host]}", "ports": ports, "engine": engine}],
        "peers": places,
    }


def post(workers: tuple[Client, Client], source: int, size: int, window_pkts: int = 512) -> dict:
    """Connect the hosts, register memory and post a write of `size` bytes from `source` to the other."""
    target = 1 - source
    config = {"core": {"pmtu": 1024, "window_pkts": window_pkts}}
    ends = [
        {"host": host, **workers[host].ask("create_qp", host=host, peer_host=1 - host, config=config)}
        for host in (source, target)
    ]
    for end, other in (ends, ends[::-1]):
        workers[end["host"]].ask("connect_qp", host=end["host"], qpn=end["qpn"], peer=other)
    sent = workers[source].ask("register_region", host=source, bytes=size, seed=source, role="source")
    received = workers[target].ask("register_region", host=target, bytes=size, seed=source, role="target")
    remote = {"remote_va": received["va"], "remote_rkey": received["rkey"], "message_bytes": 1 << 20}
    write = {"host": source, "qpn": ends[0]["qpn"], "rkey": sent["rkey"], "offset": 0, "bytes": size, "epoch": 1}
    workers[source].ask("post_write", **write, **remote)
    return {"host": target, "rkey": received["rkey"], "seed": source}


def finish(workers: tuple[Client, Client]) -> list[dict]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        qps = [qp for worker in workers for qp in worker.ask("progress")["qps"]]
        if all(qp["acked_bytes"] == qp["posted_bytes"] for qp in qps):
            return qps
        assert time.monotonic() < deadline, qps
        time.sleep(0.02)


def rejections(counters: dict) -> list[tuple[str, int]]:
    return [(row["reason"], row["packets"]) for row in counters["rejected"]]


def settled_counters(client: Client) -> dict:
    """The counters once all announcements are in.

    On each of 8 paths one opens the flow and some close it; as often each of two planes is told of the other.
    """
    deadline = time.monotonic() + DEADLINE_S
    wanted = [("ANNOUNCEMENT", 8 + (8 + 2) * CLOSING_COPIES)]
    counters = client.ask("counters")
    while [
        row for row in rejections(counters) if row[0] != "OLD_PORT_STATUS"
    ] != wanted:  # copies of one that was heard
        assert time.monotonic() < deadline, counters["rejected"]
        time.sleep(0.02)
        counters = client.ask("counters")
    return counters


def test_both_write_to_each_other_at_once_and_every_byte_is_right(workers, tmp_path):
    size = 12_345_678
    regions = [post(workers, source, size) for source in range(2)]
    qps = finish(workers)
    for region in regions:
        assert workers[region["host"]].ask("verify", **region) == {"bytes": size, "wrong": 0, "first_wrong": None}
    for qp, client in zip(qps, workers, strict=False):
        counters = settled_counters(client)
        assert all(port["rx_drops"] == port["tx_errors"] == 0 for port in counters["ports"])
        assert counters["cpu_ns"] > 0
        assert qp["state"] == "RTS"
    log = [json.loads(line)["event"] for line in (tmp_path / "agent0.jsonl").read_text().splitlines()]
    assert {"QP_STATE", "MESSAGE_COMPLETE"} <= set(log)


def test_a_port_that_goes_down_and_up_again_is_ridden_out(workers):
    region = post(workers, 0, 40_000_000)
    ip("-n", NAMES[0], "link", "set", "plane1", "down")
    time.sleep(0.1)
    ip("-n", NAMES[0], "link", "set", "plane1", "up")
    finish(workers)
    assert workers[1].ask("verify", **region)["wrong"] == 0


@pytest.mark.parametrize("engines", [("scapy", "ring")], ids=["scapy and ring"])
def test_scapy_and_rings_write_to_each_other_and_ride_out_a_port_that_goes_down(workers, capsys):
    size, began = 600_000, time.monotonic()
    regions = [post(workers, source, size, window_pkts=64) for source in range(2)]
    ip("-n", NAMES[0], "link", "set", "plane1", "down")
    time.sleep(0.2)
    ip("-n", NAMES[0], "link", "set", "plane1", "up")
    finish(workers)
    for region in regions:
        assert workers[region["host"]].ask("verify", **region) == {"bytes": size, "wrong": 0, "first_wrong": None}
    with capsys.disabled():
        frames = [port["rx_frames"] + port["tx_frames"] for port in workers[0].ask("counters")["ports"]]
        print(f"Scapy: {sum(frames)} frames in {time.monotonic() - began:.1f} s")
