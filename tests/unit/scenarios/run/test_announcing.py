"""Which queue pairs of collectives are announced: those that are enough alone, or for certain with others."""

import json
import random
from typing import Any

import numpy as np
import pytest

from agent.core.config import SprayPolicy
from agent.spraycheck.aggregate import LeafPair, PairTotals
from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.declared import judge_declared
from agent.spraycheck.detector import Asked, Verdict
from agent.spraycheck.localize import Evidence
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.together import link_sums
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run import announcing
from scenarios.run.announcing import announced_ends, announced_sendings, least_packets
from scenarios.run.crossing import crossing_sendings
from scenarios.run.power import warnings_of
from scenarios.study.simulate import sent_by_path

KIB = 1024


def plan(qps: int, kib: int, *others: dict[str, Any], planes: int = 1, spray: str = "rotation", **parts: Any) -> Plan:
    """An all-to-all of four hosts below four leaves; each queue pair sends `kib` / 4 / `qps` KiB ten times."""
    values = {
        "version": 1, "name": "x", "topology": {"planes": planes, "leaves": 4, "spines": 4},
        "transport": {"pmtu": 256, "spray": spray}, "detector": {"min_rate": "20%"},
        "workloads": [{"type": "all-to-all", "bytes": kib * KIB, "iterations": 9, "qps": qps}, *others],
    }  # fmt: skip
    return plan_of(Scenario.model_validate_json(json.dumps(values | parts)))


def test_small_queue_pairs_are_announced_where_they_are_enough_together() -> None:
    many = plan(8, 416)
    assert least_packets(many) == 4 * 400 > max(sent.packets for sent in crossing_sendings(many))
    assert len(announced_sendings(many)) == len(announced_ends(many)) == 12 * 8
    assert not any("collectives" in told for told in warnings_of(many))
    few = plan(1, 52)
    assert announced_sendings(few) == []
    assert any(told.startswith("12 of 12 queue pairs of collectives are not") for told in warnings_of(few))


def test_only_as_many_as_fill_sums_are_announced() -> None:
    whole, odd = plan(6, 312), plan(7, 364)
    assert len(announced_sendings(whole)) == 12 * 6
    assert 0 < len(announced_sendings(odd)) < 12 * 7


@pytest.mark.parametrize("spray", ["rotation", "random"])
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("qps", [5, 9, 16])
def test_in_whatever_order_they_end_no_flow_is_left_over(qps: int, planes: int, spray: str) -> None:
    """The monitor's own sums, of parts of a plane that differ as much as a schedule makes them."""
    made, rng = plan(qps, 80 * qps * planes, planes=planes, spray=spray), random.Random(qps)
    told = [each for each in announced_sendings(made) if (each.source, each.destination) == (0, 1)]
    assert told
    deviation = told[0].packets ** 0.5 / 2 if spray == "random" else 2
    for _ in range(20):
        totals, members = PairTotals[int](Asked(0.2)), 0
        for sent in rng.sample(told, len(told)):
            packets = sent.packets // planes + (round(deviation * rng.gauss()) if planes > 1 else 0)
            counts = np.full(4, packets // 4)
            total = totals.add(LeafPair(0, 0, 1), FlowShape(SprayPolicy(spray).code, packets, 4), counts, 1)
            members += len(total.members) if total else 0
        assert members == len(told)


def test_writes_between_the_same_leaves_keep_their_sums_to_themselves() -> None:
    small = {"type": "write", "pairs": [[0, 1]], "packets": 600}
    assert {(0, 1)} == set(announced_ends(plan(8, 416))) - set(announced_ends(plan(8, 416, small)))
    large = {"type": "write", "pairs": [[0, 1]], "packets": 6000}
    assert announced_ends(plan(8, 416)) == announced_ends(plan(8, 416, large))


def test_a_leaf_is_not_filled_with_small_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "MOST_SMALL_FLOWS", 3 * 8 - 1)
    assert announced_sendings(plan(8, 416)) == []


def test_what_is_added_up_nowhere_is_not_announced() -> None:
    assert announced_sendings(plan(8, 208, detector={"min_rate": "5%", "select": "one"})) == []
    paper: Any = {"transport": {"pmtu": 256, "ev": {"loss_policy": "paper"}}}
    assert announced_sendings(plan(8, 208, detector={"min_rate": "5%", "expectation": "declared"}, **paper)) == []


DECLARED: Any = {"min_rate": "5%", "expectation": "declared"}


@pytest.mark.parametrize("spray", ["rotation", "random"])
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("failed", [(), ("p0:leaf1>spine2",)])
def test_by_declaration_what_is_announced_clears_every_link_that_is_whole(
    planes: int, spray: str, failed: tuple[str, ...]
) -> None:
    """The monitor's own sums of what the senders' schedules put on each path; 5 % takes 267 packets a path alone."""
    made = plan(8, 256 * planes, planes=planes, spray=spray, detector=DECLARED)
    sendings, rng = announced_sendings(made), np.random.default_rng(1)
    assert len(sendings) == 12 * 8
    assert max(sent.packets for sent in sendings) < (least_packets(made) or 0)
    asked, evidence = Asked(0.05), list[Evidence]()
    for number, sent in enumerate(sendings):
        counts = sent_by_path(SprayPolicy(spray), planes, 4, sent.packets, rng)
        for plane, by_spine in enumerate(counts):
            lost = [
                int(count) if f"p{plane}:leaf{sent.source}>spine{at}" in failed else 0
                for at, count in enumerate(by_spine)
            ]
            verdicts = judge_declared(by_spine, by_spine - np.array(lost), asked)
            paths = [FabricPath(plane, sent.source, spine, sent.destination) for spine in range(4)]
            evidence += [
                Evidence(path, each.verdict, number, int(by_spine[each.path]), lost[each.path])
                for path, each in zip(paths, verdicts, strict=True)
            ]
    accused = {link for each in evidence for link in each.path.links if str(link) in failed}
    verdicts_of = {str(each.link): each.verdict for each in link_sums(evidence, asked, accused)}
    assert {link for link, verdict in verdicts_of.items() if verdict is not Verdict.HEALTHY} == set(failed)
    assert len(verdicts_of) == 2 * 4 * 4 * planes


def test_by_declaration_small_ones_need_others_over_both_their_links() -> None:
    few = plan(1, 256 // 8, detector=DECLARED)
    assert announced_sendings(few) == []
    assert any("queue pairs of collectives are not announced" in told for told in warnings_of(few))
    incast = {"type": "sendrecv", "bytes": 96 * KIB, "iterations": 9}
    assert announced_sendings(plan(1, 256 // 8, incast, detector=DECLARED)) != []
