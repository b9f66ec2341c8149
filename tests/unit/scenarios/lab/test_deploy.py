"""What the processes of a lab are told: every host once, addresses that match the fabric's."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.host.settings import load_settings
from agent.spraycheck.settings import LeafSettings, Settings
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.processes import fewer_workers_text, worker_count, worker_of
from scenarios.lab.start.deploy import leaf_process_settings, spraycheck_processes, worker_settings
from testbed.model.addressing import mac_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, PortId

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=3, spines=2, hosts_per_leaf=2))


@pytest.mark.parametrize(
    ("asked", "hosts", "cpus", "count"),
    [(None, 8, 2, 2), (None, 1, 4, 1), (3, 8, 2, 3), (9, 4, 2, 4), ("per-host", 8, 2, 8)],
)
def test_worker_count(asked: int | str | None, hosts: int, cpus: int, count: int) -> None:
    assert worker_count(asked, hosts, cpus) == count  # type: ignore[arg-type]


def test_every_host_has_one_worker_that_accepts_its_settings(tmp_path: Path) -> None:
    settings = worker_settings(FABRIC, LabDir("x"), 2, [0, 1], seed=5)
    assert [host.host for each in settings for host in each.hosts] == [0, 2, 4, 1, 3, 5]
    assert all(worker_of(host.host, 2) == at for at, each in enumerate(settings) for host in each.hosts)
    for each in settings:
        file = tmp_path / "settings.json"
        file.write_bytes(msgspec.json.encode(each))
        assert load_settings(file) == each


def test_workers_are_pinned_only_when_each_has_its_core() -> None:
    assert [each.cpu for each in worker_settings(FABRIC, LabDir("x"), 2, [4, 7], 1)] == [4, 7]
    assert [each.cpu for each in worker_settings(FABRIC, LabDir("x"), 3, [4, 7], 1)] == [None, None, None]


def test_a_host_knows_its_leaf_in_every_plane() -> None:
    host = worker_settings(FABRIC, LabDir("x"), 1, [0], 1)[0].hosts[3]
    assert (host.host, host.leaf, host.slot, host.address) == (3, 1, 1, "fd5f::3")
    assert host.netns == "/run/netns/spraylab-x-h3"
    assert [port.interface for port in host.ports] == ["plane0", "plane1"]
    for port in host.ports:
        leaf_port = PortId(NodeId.leaf(port.plane, 1), NodeId.host(3), port.plane)
        assert port.leaf_mac == mac_of(FABRIC, leaf_port)


def test_a_worker_of_one_host_runs_in_its_hosts_namespace() -> None:
    settings = worker_settings(FABRIC, LabDir("x"), FABRIC.host_count, [0, 1], 1, inside=True)
    assert [[host.host for host in each.hosts] for each in settings] == [[host] for host in range(6)]
    assert {host.netns for each in settings for host in each.hosts} == {None}, "none but the worker's own"


def test_each_leafs_process_is_told_of_its_own_leaf_only() -> None:
    leaves = tuple(
        LeafSettings(plane, leaf, (0, 1), 1, 2, 3, 4, 5, 6, f"/x/{leaf}") for plane in (0, 1) for leaf in (0, 1)
    )
    monitor = Settings(lab="x", detect_log="/x/detect.jsonl", leaves=leaves, min_rate=0.02, copies=3)
    told = leaf_process_settings(monitor)
    assert [each.leaves for each in told] == [(leaf,) for leaf in leaves]
    assert {(each.serves, each.min_rate, each.copies) for each in told} == {(True, 0.02, 3)}
    assert spraycheck_processes(Fabric.of(FabricSpec(1, 2, 1))) == (
        "spraycheck-p0-leaf0", "spraycheck-p0-leaf1", "spraycheck",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "hosts", "told"),
    [
        (99, 8, "--workers 99: at most one per host, so 8 engine workers for 8 hosts"),
        (2, 1, "--workers 2: at most one per host, so 1 engine worker for 1 host"),
        (8, 8, ""),
        (None, 1, ""),
        ("per-host", 1, ""),
    ],
)
def test_fewer_workers_than_asked_for_are_told(asked: Any, hosts: int, told: str) -> None:
    assert fewer_workers_text(asked, hosts) == told
    if told:
        assert worker_count(asked, hosts, 4) == hosts
