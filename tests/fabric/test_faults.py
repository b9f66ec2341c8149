"""Faults of a whole fabric: programs leave no residue, shut switches come back exactly, timelines keep time."""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from faults.inject import Injector, injector_of
from faults.records import outstanding
from faults.targets import chosen_of
from results.files.event_log import read_records
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.injections import Injections
from scenarios.lab.protocol import FaultSet
from testbed.emulation.network import FabricNet
from testbed.errors import MissingFeatureError
from testbed.kernel.node_state import read_state
from testbed.kernel.ports.qdisc import Direction, attached_programs, qdisc_kinds
from testbed.kernel.ports.shaping import Netem, set_netem
from testbed.model.addressing import ifindex_of, paths_of
from testbed.model.fabric import FabricSpec
from testbed.model.node_config import node_config
from testbed.model.node_names import NodeId
from tests.support.backlog import until_delivered
from tests.support.namespaces import Tap, built, counters, needs_root, wait_until
from tests.support.probe_frames import frame_for

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

SPEC = FabricSpec(planes=2, leaves=2, spines=2)
PROGRAMS = 100


@dataclass
class Broken:
    net: FabricNet
    injections: Injections
    injector: Injector
    labdir: LabDir
    netem: bool

    def set(self, target: str, seed: int = 1, **words: object) -> None:
        self.injections.set(FaultSet(target, {k.replace("_", "-"): v for k, v in words.items()}, seed=seed))

    def follow(self, seconds: float) -> None:
        """Keep the timelines for a while, as the owner does."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            due = self.injections.due_in_s()
            time.sleep(min(left, 0.05 if due is None else due))
            self.injections.run()

    def state(self) -> dict[str, object]:
        """All that the kernel holds of every node, sorted: neither order is ours to keep."""
        return {str(node): (self._of(node), self._traffic_control(node)) for node in self.net.fabric.nodes()}

    def _of(self, node: NodeId) -> object:
        found = read_state(node_config(self.net.fabric, node), self.net.netns_path(node))
        parts = (found.interfaces, found.ready, found.addresses, found.neighbours, found.routes, found.dead)
        return tuple(frozenset(part) for part in parts)

    def _traffic_control(self, node: NodeId) -> object:
        with self.net.rtnl(node) as rtnl:
            ports = [ifindex_of(self.net.fabric, port) for port in self.net.fabric.ports_of(node)]
            sides = [(port, side) for port in ports for side in Direction]
            return (
                [qdisc_kinds(rtnl, port) for port in ports],
                [attached_programs(rtnl, port, side) for port, side in sides],
            )

    def ready(self) -> None:
        """Wait until every port can send, as after the start."""
        self.net.verify()


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    root: Path = tmp_path_factory.mktemp("run")
    with built(SPEC) as net:
        labdir = LabDir(net.lab, root)
        labdir.path.mkdir()
        with injector_of(labdir.path) as injector:
            yield Broken(net, Injections(labdir, net.fabric, injector), injector, labdir, _has_netem(net))


def _has_netem(net: FabricNet) -> bool:
    with net.rtnl(NodeId.host(0)) as rtnl:
        try:
            set_netem(rtnl, 1, Netem())
        except MissingFeatureError:
            return False
    return True


ANYWHERE = [
    "p0:leaf0>spine1", "p0:leaf1-spine0", "p*:leaf*>spine0", "p1:h0-leaf0", "h1:plane1", "any fabric link",
    "2 links of plane 1", "any access link", "p0-spine1", "p0:leaf0>h0,p1:leaf1>spine1", "p1",
]  # fmt: skip
SWITCHES = ["p0-spine1", "any spine", "p1-leaf0", "any leaf of plane 1"]
MAKEABLE = [
    {"drop": "1%"}, {"drop": "100%"}, {"gemodel": "p=1%,r=10%"}, {"one-in": "9"}, {"black-hole": "h1"},
    {"corrupt": "1%"}, {"duplicate": "2%"}, {"rate": "10Mbit"}, {"down": True}, {"drop": "5%", "only-control": True},
    {"drop": "5%", "only-qp": "7"}, {"one-in": "3", "only-last": "2"}, {"drop": "0%"}, {"rate": "0"},
    {"drop": "1%", "corrupt": "1%", "rate": "1Gbit"}, {"down": True, "for": "1ms"},
    {"flap": "period=20ms,duty=50%,count=2"}, {"drop": "2%", "for": "3ms", "every": "6ms", "times": "2"},
]  # fmt: skip
BY_NETEM = [
    {"delay": "2ms", "jitter": "1ms"}, {"reorder": "1%", "ahead": "1ms"}, {"delay": "0"},
    {"delay": "1ms", "drop": "1%", "rate": "1Gbit"},
]  # fmt: skip
OF_SWITCHES = [{"hang": True}, {"crash": True}, {"reboot": "5ms"}]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_random_programs_leave_nothing(broken: Broken) -> None:
    rng = np.random.default_rng(4)
    before = broken.state()
    kinds, failed = MAKEABLE + (BY_NETEM if broken.netem else []), []
    for program in range(PROGRAMS):
        for step in range(int(rng.integers(1, 4))):
            of_switch = rng.random() < 0.2
            words = (OF_SWITCHES if of_switch else kinds)[int(rng.integers(len(OF_SWITCHES if of_switch else kinds)))]
            targets = SWITCHES if of_switch else ANYWHERE
            broken.set(targets[int(rng.integers(len(targets)))], seed=1000 * program + step, **words)
            if rng.random() < 0.3:
                broken.injections.run()
        failed += [each for each in broken.injections.failed() if "too late" not in each.error]
        if rng.random() < 0.5:
            broken.injections.clear(ANYWHERE[int(rng.integers(4))])
        broken.injections.clear(None)
        assert broken.injections.states() == ()
        assert broken.injections.planned() == ()
        if program % 10 == 9:
            broken.ready()
            assert broken.state() == before
    assert broken.injections.clear(None).faults == ()
    assert failed == []
    assert broken.injections.failed() == ()
    assert outstanding(broken.labdir.path / "faults.jsonl") == ()
    assert all_paths_carry(broken)


def all_paths_carry(broken: Broken) -> bool:
    """Whether no packet is lost between the hosts, over every spine of every plane."""
    net, sent, arrived = broken.net, 0, 0
    before = received(net)
    with Tap.open(net.netns_path(NodeId.host(0))) as tap:
        for path in paths_of(net.fabric, 0, 1):
            for _ in range(20):
                tap.send(frame_for(net, path, 0, 1), path.links[0].egress.interface)
                sent += 1
    wait_until(lambda: received(net) - before >= sent, "all packets arrive")
    arrived = received(net) - before
    return arrived == sent > 0


def received(net: FabricNet) -> int:
    """Packets that reached host 1."""
    ports = counters(net.netns_path(NodeId.host(1)))
    return sum(got for name, (got, _) in ports.items() if name.startswith("plane"))


def seconds_to_shut(broken: Broken, target: str) -> float:
    """What shutting and opening these ports takes by itself; a machine that is busy with others takes long."""
    began = time.monotonic()
    broken.set(target, down=True)
    broken.injections.clear(target)
    broken.ready()
    return time.monotonic() - began


@pytest.mark.parametrize("target", ["p0-spine1", "p1-leaf0"])
def test_a_rebooted_switch_comes_back_with_its_static_table(broken: Broken, target: str) -> None:
    before = broken.state()
    for _ in range(3):  # others may be at work here
        slack = 0.15 + 5 * seconds_to_shut(broken, target)
        began = time.monotonic()
        broken.set(target, reboot="200ms")
        assert broken.state() != before
        while broken.injections.planned() and time.monotonic() < began + 60:
            broken.follow(0.01)
        took = time.monotonic() - began
        broken.ready()
        assert broken.state() == before
        assert took >= 0.2
        if took < 0.2 + slack:
            break
    assert took < 0.2 + slack
    assert [record["event"] for record in of(broken, target)][-1] == "FAULT_CLEAR"


def of(broken: Broken, target: str) -> list[dict[str, object]]:
    names = {str(way) for way in chosen_of(target, broken.net.fabric).ways}
    return [record for record in read_records(broken.labdir.truth) if record["link"] in names]


def test_a_crashed_leaf_stays_down_until_it_is_cleared(broken: Broken) -> None:
    before = broken.state()
    broken.set("p0-leaf1", crash=True)
    broken.follow(0.05)
    assert {state.in_force_text for state in broken.injections.states()} == {""}
    broken.injections.clear("p0-leaf1")
    broken.ready()
    assert broken.state() == before


def test_a_plane_and_a_transceiver_go_down_and_come_back(broken: Broken) -> None:
    before = broken.state()
    for target, ports in (("p1", 12), ("h0:plane0,h1:plane0", 2)):
        broken.set(target, down=True)
        assert len(broken.injections.states()) == ports
        assert len(broken.injections.clear(target).faults) == ports
        broken.ready()
        assert broken.state() == before


def test_a_flap_keeps_its_times_and_all_ports_flap_together(broken: Broken) -> None:
    """Never early; late by 25 ms and what shutting takes at most, at one of three goes: others may be at work here."""
    for _ in range(3):
        slack_ms = 25 + 5000 * seconds_to_shut(broken, "h0:plane0,h1:plane0")
        late = ms_late_of_a_flap(broken, "h0:plane0,h1:plane0")
        assert min(late) >= 0
        if max(late) < slack_ms:
            break
    assert max(late) < slack_ms


def ms_late_of_a_flap(broken: Broken, target: str) -> list[float]:
    """How late after its time each edge of each of the ports was."""
    began, late = time.monotonic_ns(), []
    broken.set(target, flap="period=100ms,duty=40%,count=3")
    until = time.monotonic() + 60
    while broken.injections.planned() and time.monotonic() < until:
        broken.follow(0.05)
    assert broken.injections.planned() == ()
    for port in target.split(","):
        flaps = (record for record in of(broken, port) if record["kind"] == "flap")
        acts = [record for record in flaps if record["mono_ns"] >= began]
        if len(acts) < 6:  # a busy machine came to an edge when the next was due, and left it out
            return [math.inf]
        assert [record["event"] for record in acts] == ["FAULT_SET", "FAULT_CLEAR"] * 3
        edges_ms = (0, 40, 100, 140, 200, 240)
        late += [(act["mono_ns"] - began) / 1e6 - ms for act, ms in zip(acts, edges_ms, strict=True)]
    return late


def test_a_fault_ends_when_its_link_is_detected(broken: Broken) -> None:
    broken.set("p0:leaf0>spine0", drop="50%", until="detected")
    broken.set("p0:leaf0>spine1", drop="50%", until="detected")
    broken.follow(0.1)
    with broken.labdir.detect.open("a") as log:
        said = {"v": 1, "event": "LOCALIZE", "ts": "t", "mono_ns": 1, "node": "monitor", "epoch": 1, "state": "named"}
        log.write(json.dumps(said | {"links": ["p0:leaf0>spine0"], "candidates": [], "pending": 0}) + "\n")
    until = time.monotonic() + 60
    while len(broken.injections.states()) > 1 and time.monotonic() < until:
        broken.follow(0.1)
    broken.follow(0.1)
    assert [state.link for state in broken.injections.states()] == ["p0:leaf0>spine1"]
    broken.injections.clear(None)


def test_what_a_shut_port_costs_is_counted(broken: Broken) -> None:
    """The leaf has no route to its shut port; the kernel counts what it cannot forward."""
    broken.set("p0:leaf0>spine0", down=True)
    path = next(path for path in paths_of(broken.net.fabric, 0, 1) if "p0:leaf0>spine0" in map(str, path.links))
    with Tap.open(broken.net.netns_path(NodeId.host(0))) as tap:
        for _ in range(25):
            tap.send(frame_for(broken.net, path, 0, 1), "plane0")
    until_delivered()
    (cleared,) = broken.injections.clear(None).faults
    assert cleared.dropped == 25
    broken.ready()
