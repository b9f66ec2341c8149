"""Collectives of a scenario: who does what, what each queue pair will send, what does not fit."""

from collections import Counter
from dataclasses import replace

import pytest

from agent.host.control.program_requests import CollectiveOrder
from agent.host.programs.patterns import Pattern, pairs_of
from scenarios.errors import ScenarioRefusedError
from scenarios.file.collective_plan import Group, collective_of, groups_of
from scenarios.file.load import scenario_from
from scenarios.file.model import Workload
from scenarios.file.plan import plan_of
from scenarios.run.judge.plan_warnings import power_of, warnings_of
from tests.unit.agent.host.programs.job_in_memory import Lab
from tests.unit.agent.host.programs.test_collective import HOSTS, memory_of
from tests.unit.scenarios.file.test_load import LEAST

TOPOLOGY = "topology: {planes: 2, leaves: 4, spines: 2, hosts_per_leaf: 2}\n"


def scenario_with(*workloads: str):
    head = LEAST.split("workloads")[0]
    return scenario_from(
        head + TOPOLOGY + "workloads:\n" + "".join(f"  - {{{work}}}\n" for work in workloads), "it.yaml"
    )


@pytest.mark.parametrize(
    ("work", "pattern", "groups"),
    [
        ("type: all-reduce, bytes: 1MiB", Pattern.ALL_REDUCE, (tuple(range(8)),)),
        ("type: incast, bytes: 3072, hosts: [5, 0, 3]", Pattern.INCAST, ((5, 0, 3),)),
        ("group: tp, group_size: 4, bytes: 64KiB", Pattern.ALL_REDUCE, ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("group: pp, group_size: 4, bytes: 64KiB", Pattern.SENDRECV, ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("group: ep, type: all-to-all, bytes: 64KiB", Pattern.ALL_TO_ALL, (tuple(range(8)),)),
    ],
)
def test_a_workload_becomes_groups_with_a_pattern(work: str, pattern: Pattern, groups: tuple) -> None:
    (planned,) = plan_of(scenario_with(work)).collectives
    assert (planned.pattern, planned.groups) == (pattern, groups)


@pytest.mark.parametrize(
    ("work", "wrong"),
    [
        ("type: all-reduce", "bytes: is missing"),
        ("type: all-reduce, bytes: 1MiB, strides: [1]", "strides: is for writes"),
        ("type: all-reduce, bytes: 1MiB, packets: 5", "packets: is for writes"),
        ("type: sendrecv, group: tp, bytes: 1MiB", "type: tp is all-reduce, not sendrecv"),
        ("group: tp, group_size: 3, bytes: 1MiB", "group_size: 3 does not divide 8 hosts; one of 2, 4, 8"),
        ("type: sendrecv, group_size: 2, bytes: 1MiB", "group_size: is for a `group`"),
        ("type: incast, bytes: 1MiB, hosts: [0, 8]", "hosts: there is no h8"),
        ("type: incast, bytes: 1MiB, hosts: [1, 1]", "hosts: a host is named twice"),
        ("type: incast, bytes: 1MiB, hosts: [1, 2, 3]", "bytes: 1048576 are no whole float32 numbers for 3 hosts"),
        ("type: sendrecv, bytes: 6", "bytes: 6 are no whole float32 numbers"),
        ("type: all-reduce, bytes: 16", "bytes: 16 are less than a number for each host"),
        ("strides: [1], packets: 4, iterations: 3", "iterations: is for collectives"),
    ],
)
def test_what_does_not_go_together_is_told(work: str, wrong: str) -> None:
    with pytest.raises(ScenarioRefusedError) as refused:
        scenario_with(work)
    assert f"workloads.0.{wrong}" in str(refused.value)


@pytest.mark.parametrize("qps", [1, 3])
@pytest.mark.parametrize("pattern", Pattern)
def test_what_a_queue_pair_sends_is_what_its_program_will_send(pattern: Pattern, qps: int) -> None:
    work = Workload(type=pattern.value, hosts=HOSTS, bytes=40_000, iterations=2, qps=qps)
    planned = collective_of(work, 4)
    lab, count = Lab(), planned.count
    pairs = planned.queue_pairs()
    with lab.job(HOSTS, pairs_of(pattern, 4), qps=qps, memory=memory_of(pattern, 4, count)) as job:
        job.start(CollectiveOrder(pattern, count, iterations=2, warmup=0, check=True))
        lab.run(job)
        rows = {(qp["host"], qp["qpn"]): qp for qp in lab.ask_progress()}
        sent, packets, ends = Counter(), Counter(), Counter()
        for way in job.ways():
            sent[way.source, way.destination] += rows[way.source, way.source_qpn]["acked_bytes"]
            packets[way.source, way.destination] += rows[way.source, way.source_qpn]["packets_tx"]
            ends[way.source] += 1
    assert ends == pairs
    told = [Counter(), Counter()]
    for each in planned.sendings(pmtu=256):
        told[0][each.source, each.destination] += each.bytes
        told[1][each.source, each.destination] += each.packets
    assert told == [+sent, +packets]


def test_queue_pairs_that_send_too_little_are_told_and_barriers_are_not() -> None:
    short = plan_of(scenario_with("group: dp, group_size: 4, bytes: 64KiB, iterations: 1"))
    assert power_of(short).packets_a_path == 192, "around the ring of each of two groups; barriers do not count"
    assert "192 packets per path, but a drop of 1%" in next(iter(warnings_of(short)))
    long = plan_of(scenario_with("group: dp, group_size: 4, bytes: 2MiB, iterations: 9"))
    assert list(warnings_of(long)) == []


def test_many_queue_pairs_make_windows_smaller_and_that_is_said() -> None:
    plan = plan_of(scenario_with("type: all-to-all, bytes: 64KiB, qps: 8"))
    assert plan.window_pkts == 2048 * 3 // 4 // (7 * 8)
    recorded = plan.scenario.model_copy(
        update={"expect": plan.scenario.expect.model_copy(update={"detection": "recorded"})}
    )
    for each in (plan, replace(plan, scenario=recorded)):
        assert any("window_pkts 256" in text and f"{plan.window_pkts} are used" in text for text in warnings_of(each))
    assert plan_of(scenario_with("strides: [1, 3], packets: 64")).window_pkts == 256


def test_queue_pairs_of_writes_are_flows() -> None:
    plan = plan_of(scenario_with("pairs: [[0, 3]], packets: 64, qps: 3"))
    assert [(flow.source, flow.destination) for flow in plan.flows] == [(0, 3)] * 3


EIGHT = range(8)


@pytest.mark.parametrize(
    ("group", "size", "groups"),
    [
        (None, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
        (Group.TP, 2, ((0, 1), (2, 3), (4, 5), (6, 7))),
        (Group.EP, 4, ((0, 1, 2, 3), (4, 5, 6, 7))),
        (Group.DP, 4, ((0, 2, 4, 6), (1, 3, 5, 7))),
        (Group.PP, 2, ((0, 4), (1, 5), (2, 6), (3, 7))),
        (Group.DP, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
    ],
)
def test_groups_are_neighbours_or_strided(group: Group | None, size: int | None, groups: tuple) -> None:
    assert groups_of(group, size, EIGHT) == groups


@pytest.mark.parametrize("size", [2, 4])
def test_tensor_and_data_groups_cross_in_one_host(size: int) -> None:
    for tensor in groups_of(Group.TP, size, EIGHT):
        for data in groups_of(Group.DP, 8 // size, EIGHT):
            assert len(set(tensor) & set(data)) == 1
