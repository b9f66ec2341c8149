"""Records of a lab to what one run needs."""

from typing import Any

import pytest

from results.summary import Injected
from scenarios.lab.protocol import FaultState
from scenarios.run import collect
from scenarios.workload.traffic import PortCounts, WorkerCounts
from testbed.model.fabric import Fabric, FabricSpec
from tests.unit.scenarios.run.test_detection import RECORDS, UP, detect


def test_only_the_runs_own_epoch_counts() -> None:
    assert collect.of_epoch([*RECORDS, detect(9, 9, "failed") | {"epoch": 1}], 2) == RECORDS


def test_truth_is_what_was_in_force_and_what_changed() -> None:
    def act(event: str, mono_ns: int, link: str) -> dict[str, Any]:
        return {"event": event, "mono_ns": mono_ns, "link": link, "fault": "drop 1%"}

    records = [
        act("FAULT_SET", 1, "a"),
        act("FAULT_SET", 2, "b"),
        act("FAULT_CLEAR", 3, "a"),
        act("FAULT_SET", 11, "c"),
        act("FAULT_CLEAR", 12, "c"),
    ]
    assert [(r["event"], r["link"]) for r in collect.truth_of(records, 10)] == [
        ("FAULT_SET", "b"),
        ("FAULT_SET", "c"),
        ("FAULT_CLEAR", "c"),
    ]


def test_a_fault_counts_only_what_it_did_during_the_run() -> None:
    def fault(link: str, since: str, seen: int, dropped: int) -> FaultState:
        return FaultState(link, "random-drop", 0.01, 0.01, "ebpf", "hand", since, seen, dropped, dropped)

    before = (fault("a", "t0", 1000, 10), fault("b", "t0", 500, 5))
    after = (fault("a", "t0", 3000, 31), fault("b", "t1", 200, 2))
    injected = collect.injected_since(before, after)
    assert [(each.seen, each.dropped, each.dropped_writes) for each in injected] == [(2000, 21, 21), (200, 2, 2)]


def test_a_fault_cleared_during_the_run_keeps_what_it_did() -> None:
    def act(event: str, mono_ns: int, **counts: Any) -> dict[str, Any]:
        return {
            "event": event, "mono_ns": mono_ns, "ts": f"t{mono_ns}", "link": UP, "kind": "random-drop",
            "mechanism": "ebpf", "by": "hand", "fault": "drop 1%", "fault_in_force": "drop 1.0000000009%",
            "requested": 0.01, "in_force": 0.010000000009,
        } | counts  # fmt: skip

    rest = {"hit": 9, "dropped_reverse": None, "overlimits": 0}
    records = [
        act("FAULT_SET", 1),
        act("FAULT_CLEAR", 5, seen=9, dropped=9, dropped_writes=9, **rest),
        act("FAULT_SET", 6),
        act("FAULT_CLEAR", 20, seen=3000, dropped=31, dropped_writes=30, **rest),
        act("FAULT_SET", 21),
    ]
    (gone,) = collect.gone_between(records, 10)
    assert (gone.since, gone.requested, gone.in_force_text, gone.dropped) == ("t6", 0.01, "1%", 31)
    before = (FaultState(UP, "random-drop", 0.01, 0.01, "ebpf", "hand", "t6", 1000, 10, 10),)
    (injected,) = collect.injected_since(before, (), (gone,))
    assert (injected.link, injected.seen, injected.dropped, injected.dropped_writes) == (UP, 2000, 21, 20)


@pytest.mark.parametrize(
    ("asked", "found", "told"),
    [
        ("corrupt 4%", "corrupt 4.0000000037%", "4%"),
        ("gemodel p=1%,r=20%", "gemodel p=1.0000000009%,r=19.9999999953%", "p=1%,r=20%"),
        ("duplicate 2% of what goes to h1", "duplicate 2.0000000019% of what goes to h1", "2% of what goes to h1"),
        ("corrupt 4%", "corrupt 4.001%", "4.001%"),
        ("duplicate 2% of what goes to h1", "duplicate 2%", "2%"),
        ("delay 10ms", "delay 11ms", "11ms"),
    ],
)
def test_a_cleared_fault_was_as_asked_up_to_the_step_of_the_kernels_rates(asked: str, found: str, told: str) -> None:
    counts = {"seen": 163, "dropped": 0, "dropped_writes": 0, "hit": 7, "dropped_reverse": None, "overlimits": 0}
    record = {"link": UP, "kind": "k", "mechanism": "ebpf", "by": "hand", "fault": asked, "ts": "t"}
    rates = {"fault_in_force": found, "requested": None, "in_force": None}
    records = [record | rates | {"event": "FAULT_SET", "mono_ns": 1}]
    records += [record | counts | {"event": "FAULT_CLEAR", "mono_ns": 20}]
    (gone,) = collect.gone_between(records, 10)
    assert (gone.in_force_text, gone.hit) == (told, 7)


def test_what_is_spoilt_or_lost_the_other_way_explains_retransmissions() -> None:
    def state(kind: str, **counts: Any) -> FaultState:
        return FaultState(UP, kind, None, None, "ebpf", "hand", "t", 100, 0, None, **counts)

    spoilt, shut = collect.injected_since((), (state("corrupt", hit=7), state("down", hit=0, dropped_reverse=5)))
    assert (spoilt.explains, shut.explains) == (7, 5)
    assert (spoilt.dropped_reverse, shut.dropped_reverse) == (None, 5)


def test_only_links_between_switches_that_lost_data_have_to_be_named() -> None:
    fabric = Fabric.of(FabricSpec(planes=1, leaves=2, spines=1))

    def did(link: str, dropped: int, writes: int | None) -> Injected:
        return Injected(link, "random-drop", 0.01, 0.01, "ebpf", "hand", 100, dropped, writes)

    drops = did("p0:leaf0>spine0", 5, 5), did("p0:spine0>leaf0", 5, 0), did("p0:h0>leaf0", 5, 5), did(UP, 0, None)
    assert collect.dropping_links(drops, fabric) == {"p0:leaf0>spine0"}


def test_machine_counts_are_differences() -> None:
    def worker(drops: int, errors: int, cpu: int, wait: int) -> WorkerCounts:
        return WorkerCounts((PortCounts(3, 0, drops, errors), PortCounts(3, 1, 1, 1)), cpu, wait, ())

    before, after = [worker(1, 0, 100, 10)], [worker(4, 2, 300, 60)]
    loads = [{"event": "PROGRESS"}, {"sched_wait_worst": None}, {"sched_wait_worst": 0.4}, {"sched_wait_worst": 0.3}]
    counts = collect.machine_counts(before, after, 7, 9, samples=loads)
    assert (counts.ring_drops, counts.tx_errors, counts.softnet_drops) == (3, 2, 2)
    assert (counts.engine_ns, counts.wait_ns, counts.wait_share, counts.wait_worst) == (200, 50, 0.2, 0.4)
    assert collect.machine_counts(before, after, 7, 9, frozenset({(3, 1)})).tx_errors == 2
    assert collect.machine_counts(before, after, 7, 9, frozenset({(3, 0)})).tx_errors == 0, "refused on purpose"


def test_what_a_shut_port_may_have_cost() -> None:
    fabric = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2))

    def shut(link: str, kind: str = "flap") -> Injected:
        return Injected(link, kind, 1.0, 1.0, "link", "hand", 0, 0, None)

    faults = (shut("p0:leaf0>spine1"), shut("p1:h1>leaf1", "down"), shut("p1:leaf1>spine0", "random-drop"))
    assert collect.possibly_dropping(faults, fabric) == {"p0:leaf0>spine1", "p0:spine1>leaf0"}
    assert collect.shut_ports(faults, fabric) == {(1, 1)}
    assert collect.shut_ports((shut("p0:leaf0>h0"),), fabric) == frozenset()
