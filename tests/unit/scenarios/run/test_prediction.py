"""Links that no number of packets would name are told before the run, with the flow that would."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.spraycheck.accuse.localization import Evidence, localize
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Verdict
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.run.judge.plan_warnings import MOST_LINKS_SHOWN, warnings_of
from scenarios.run.judge.prediction import predict
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(2, 5, 3, 1))
WAYS = [way for link in FABRIC.links() for way in link.directions if "spine" in str(way)]
OPEN = "p0:leaf3>spine5: only flows from leaf3 to leaf4 cross it, so it stays open whether it fails or p0:spine5>leaf4"


def told(pairs: tuple[tuple[int, int], ...] = (), **parts: Any) -> list[str]:
    work: dict[str, Any] = {"type": "write", "packets": 32768}
    work |= {"pairs": pairs} if pairs else {"strides": (1,)}
    values = {"version": 1, "name": "x", "workloads": (work,), "faults": ({"link": "p0:leaf3>spine5", "drop": "1%"},)}
    return list(warnings_of(plan_of(Scenario.model_validate(values | parts))))


def test_one_leaf_pair_leaves_both_links_of_its_path_open() -> None:
    (warning,) = told()
    assert warning.startswith(OPEN)
    assert warning.endswith("write strides: [1, 3], or one more flow, as from h0 to h4")


def test_the_flow_that_is_told_settles_it() -> None:
    ring = tuple((host, (host + 1) % 8) for host in range(8))
    assert told((*ring, (0, 4))) == []


@pytest.mark.parametrize(
    ("parts", "ending"),
    [
        ({"topology": {"leaves": 2, "spines": 6}}, "ask for more leaves, or write expect.detection: recorded"),
        ({"topology": {"leaves": 3, "spines": 6}}, "write one more flow, as from h0 to h2"),
    ],
)
def test_where_the_fabric_is_small_other_help_is_told(parts: dict[str, Any], ending: str) -> None:
    (warning,) = told(faults=({"link": "p0:spine5>leaf1", "drop": "1%"},), **parts)
    assert warning.endswith(ending)


def test_a_single_pair_is_helped_by_a_flow_to_a_leaf_that_sends_nothing_yet() -> None:
    faults = ({"link": "p0:leaf0>spine1", "drop": "1%"},)
    for pair in ((0, 2), (0, 1)):
        (warning,) = told((pair,), faults=faults, topology={"leaves": 4, "spines": 4})
        assert "no other flow" not in warning
        more = tuple(map(int, warning.rpartition("as from h")[2].split(" to h")))
        assert told((pair, more), faults=faults, topology={"leaves": 4, "spines": 4}) == []


@pytest.mark.parametrize(
    "parts",
    [
        {"expect": {"detection": "recorded"}},
        {"faults": ({"link": "p0:leaf3>spine5", "drop": "1%", "only_to": "h4"},)},
        {"workloads": ({"type": "write", "strides": (1, 3), "packets": 32768},)},
    ],
    ids=["recorded", "some flows only", "two strides"],
)
def test_what_needs_no_name_or_gets_one_is_not_told(parts: dict[str, Any]) -> None:
    assert [text for text in told(**parts) if "stays open" in text] == []


def test_flows_that_are_too_short_settle_nothing() -> None:
    short = {"type": "write", "pairs": ((0, 4),), "packets": 64}
    long = {"type": "write", "strides": (1,), "packets": 32768}
    assert any(text.startswith(OPEN) for text in told(workloads=(long, short)))


def test_a_link_that_will_be_named_wrongly_is_told() -> None:
    faults = tuple({"link": f"p0:spine5>leaf{leaf}", "drop": "1%"} for leaf in (1, 2))
    missed, also_missed, wrong = told(((0, 1), (0, 2), (3, 4)), faults=faults)
    assert wrong.startswith("p0:leaf0>spine5 will be named, which drops nothing")
    assert "will be missed" in missed
    assert "will be missed" in also_missed


def test_many_are_told_together() -> None:
    faults = ({"link": "p0:leaf3>spine*", "drop": "1%"}, {"link": "p0:leaf5>spine1", "drop": "1%"})
    several = ({"link": f"p0:leaf3>spine{spine}", "drop": "1%"} for spine in range(5))
    warnings = told(faults=tuple(several))
    assert len(warnings) == MOST_LINKS_SHOWN + 1
    assert warnings[-1] == "2 more links with faults stay open likewise"
    assert not any("stays open" in text for text in told(faults=faults))  # the whole switch is told instead


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda p: p[0] != p[1]), min_size=1),
       st.sets(st.sampled_from(WAYS), min_size=1, max_size=3))  # fmt: skip
def test_silence_means_that_localisation_names_all_that_fails_and_is_crossed(pairs, faulty) -> None:
    faults = tuple({"link": str(way), "drop": "1%"} for way in faulty)
    topology = {"planes": 2, "leaves": 5, "spines": 3}
    if told(tuple(pairs), faults=faults, topology=topology):
        return
    broken, paths = set(map(str, faulty)), [FabricPath(p, a, s, b) for p in (0, 1) for s in range(3) for a, b in pairs]
    evidence = [
        Evidence(path, Verdict.HEALTHY if broken.isdisjoint(map(str, path.links)) else Verdict.FAILED, 0)
        for path in paths
    ]
    found = localize(evidence)
    assert found.candidates == ()
    assert set(map(str, found.links)) == broken.intersection(str(link) for path in paths for link in path.links)


def test_a_link_behind_another_that_fails_is_told() -> None:
    faults = ({"link": "p0:leaf0>spine5", "drop": "1%"}, {"link": "p0:spine5>leaf1", "drop": "1%"})
    (warning,) = told(((0, 1), (0, 2), (3, 2)), faults=faults)
    assert warning.startswith("p0:spine5>leaf1 will be missed")


def test_a_link_that_is_not_wanted_is_not_told() -> None:
    faults = ({"link": "p0:leaf1>spine0", "drop": "1%"},)
    assert [text for text in told(((1, 2),), faults=faults, expect={"detected": ()}) if "stays open" in text] == []
    assert len([text for text in told(((1, 2),), faults=faults) if "stays open" in text]) == 1


@pytest.mark.parametrize(
    ("expectation", "packets", "need"),
    [("uniform", 8192, "needs 1,799"), ("declared", 4096, "needs 1,321")],
)
def test_links_that_too_few_packets_cross_are_told(expectation: str, packets: int, need: str) -> None:
    """Strides 1 and 3: two flows over each link, which add up by declaration."""
    work = ({"strides": (1, 3), "packets": packets},)
    (text,) = told(workloads=work, faults=(), detector={"expectation": expectation})
    assert f"(detector.min_rate) {need}: undecided, and the run fails" in text
    more = int(re.findall(r"send ([\d,]+) packets", text)[0].replace(",", ""))
    enough = ({"strides": (1, 3), "packets": more},)
    assert told(workloads=enough, faults=(), detector={"expectation": expectation}) == []


def weak(**parts: Any) -> list[str]:
    return [text for text in told(**parts) if "undecided" in text]


def test_small_flows_of_a_pair_are_added_up_before_the_run_as_in_it() -> None:
    small: dict[str, Any] = {"strides": (1, 3), "packets": 16 * 700, "qps": 10}
    assert weak(workloads=(small,), faults=()) == []
    assert weak(workloads=(small | {"qps": 2},), faults=()) != []
    tiny = small | {"packets": 16 * 100, "qps": 60}
    assert weak(workloads=(tiny,), faults=()) != [], "what their ends blur is more than a loss takes"


def test_collectives_of_small_queue_pairs_are_judged_by_their_sums() -> None:
    """130 packets a path each, of eight queue pairs between any two of four hosts."""
    work = ({"type": "all-to-all", "bytes": "416KiB", "iterations": 9, "qps": 8},)
    parts: dict[str, Any] = {"workloads": work, "topology": {"planes": 1, "leaves": 4, "spines": 4}}
    parts |= {"transport": {"pmtu": 256}, "faults": ({"link": "p0:leaf2>spine1", "drop": "20%"},)}
    assert [text for text in told(**parts, detector={"min_rate": "20%"}) if "window_pkts" not in text] == []
    assert "needs 1,955: undecided" in told(**parts, detector={"min_rate": "1%"})[0]


def test_too_many_flows_to_be_tried_are_not() -> None:
    many = Scenario.model_validate({"version": 1, "name": "x", "topology": {"planes": 1, "leaves": 64, "spines": 64},
                                    "workloads": ({"strides": tuple(range(1, 40)), "packets": 64},)})  # fmt: skip
    assert predict(plan_of(many), plan_of(many).flows, {}) is None
