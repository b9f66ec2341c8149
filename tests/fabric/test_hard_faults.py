"""Faults that are harder or gentler than a link that drops one in a hundred, and many flows too small for a verdict.

What all three witnesses say: SprayCheck by equal shares and by what senders declare, and MRC's own events. Under the
loss policy `off` there are no events, under `paper` no equal shares; so what drops is run under both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from results.files.event_log import read_records
from testbed.kernel.features import probe_features
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

LINK, BACK = "p0:leaf2>spine1", "p0:spine1>leaf2"
SPINES = 4
SMALL_FLOWS = 28
"""Of a pair of hosts, 32 packets a path each: the fewest whose sum tells a drop of 20 % under random spraying."""


@dataclass(frozen=True)
class Runs:
    """A lab, and where its scenarios and runs are kept."""

    lab: Lab
    folder: Path

    def __call__(self, name: str, **parts: Any) -> dict[str, Any]:
        """The summary of a run."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"version": 1, "name": name, **parts}))
        summary: dict[str, Any] = trusted(self.lab, "run", "--attach", str(file))
        return summary

    def records(self, event: str, expectation: str) -> list[dict[str, Any]]:
        """What SprayCheck said in the last run."""
        found = read_records((self.folder / "runs" / "latest").resolve() / "detect.jsonl")
        return [each for each in found if (each["event"], each.get("expectation")) == (event, expectation)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("hard")
    with own_lab(folder / "runs") as lab:
        lab("up", "--planes", "1", "--leaves", "4", "--spines", str(SPINES))
        yield Runs(lab, folder)


def under(loss_policy: str, packets_a_path: int, **fault: Any) -> dict[str, Any]:
    """Parts of a scenario in which one link is crossed by two leaf pairs, and each of their paths by healthy flows."""
    return {
        "transport": {"pmtu": 256, "window_pkts": 512, "ev": {"loss_policy": loss_policy}},
        "workloads": [{"strides": [1, 3], "packets": packets_a_path * SPINES}],
        "faults": [{"link": LINK, **fault}],
        "detector": {"min_rate": "10%", "expectation": "declared"},
    }


def accused(witness: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Who is named, and who is left open."""
    return sorted(each["link"] for each in witness["named"]), witness["candidates"]


@pytest.mark.parametrize("drop", ["100%", "20%"])
def test_a_link_that_loses_much_or_all_is_named_by_every_witness_and_no_other_is(runs: Runs, drop: str) -> None:
    _, uniform, declared = runs("even", **under("off", 416, drop=drop))["witnesses"]
    assert accused(uniform) == accused(declared) == ([LINK], [])
    events, uniform, declared = runs("uneven", **under("paper", 416, drop=drop))["witnesses"]
    assert accused(events) == accused(declared) == ([LINK], [])
    assert events["seconds"] < declared["seconds"], "a loss is known at once, counts when the flow has ended"
    assert accused(uniform) == ([], []), "packets that were moved elsewhere leave it without an expectation"


def test_a_link_that_flaps_is_accused_and_no_healthy_one(runs: Runs) -> None:
    """A port that is shut takes both directions of its link down."""
    flap = {"flap": {"period": "400ms", "duty": "25%", "count": 20}}
    for policy in ("off", "paper"):
        parts = under(policy, 3072, **flap)
        del parts["detector"]["expectation"]  # so SprayCheck is started anew, which must not cost the flap its times
        summary = runs(f"flap-{policy}", **parts)
        assert sum(fault["dropped"] for fault in summary["injected"]) > 0, "it was down while there was traffic"
        told = [witness for witness in summary["witnesses"] if accused(witness) != ([], [])]
        assert {"SprayCheck declared", "SprayCheck uniform" if policy == "off" else "MRC events"} <= {
            witness["witness"] for witness in told
        }
        for witness in told:
            named, candidates = accused(witness)
            assert set(named) <= {LINK, BACK}, witness
            assert all({LINK, BACK} & set(links) for links in candidates), witness
            assert LINK in {*named, *(link for links in candidates for link in links)}, witness


def test_a_path_that_is_only_late_is_accused_by_nobody(runs: Runs) -> None:
    """Packets wait for a slow link, and others overtake them."""
    assert_only_late(runs("slow", **in_no_hurry(under("paper", 1024, rate="20Mbit", queue="1MiB"))))


@pytest.mark.timeout(600)
def test_ten_milliseconds_of_delay_are_accused_by_nobody(runs: Runs) -> None:
    netem = next(feature for feature in probe_features() if feature.name == "netem")
    if not netem.present:
        pytest.skip(f"this kernel has no netem: {netem.advice}")
    assert_only_late(runs("delay", **in_no_hurry(under("paper", 416, delay="10ms"))))


def in_no_hurry(parts: dict[str, Any]) -> dict[str, Any]:
    """With a timer that no queue of the faults outlasts, which holds up to 0.42 s of packets."""
    return {**parts, "transport": {**parts["transport"], "ack_timeout_ms": 5000}}


def assert_only_late(summary: dict[str, Any]) -> None:
    """Packets over the link come late, none is lost, every path is healthy, nobody accuses anything.

    What is sent again is what a busy machine loses by itself or has too late, which the run allows.
    """
    assert all(accused(witness) == ([], []) for witness in summary["witnesses"])
    assert [witness["state"] for witness in summary["witnesses"]] == ["none"] * 3, "all three could speak"
    assert summary["detected"]["verdicts"] == {"healthy": 8 * SPINES}
    assert summary["totals"]["retransmissions"] <= summary["load"]["unexplained_limit"]
    late = [sum(flow["reordering"]["late"]) for flow in summary["flows"] if flow["source"] == "h2"]
    assert min(late) > 0


def last_of_paths(runs: Runs, expectation: str) -> list[dict[str, Any]]:
    """The last conclusion on each path; the monitor writes another one when more flows have ended."""
    names = ("plane", "src_leaf", "spine", "dst_leaf")
    return list({tuple(map(each.get, names)): each for each in runs.records("PATH", expectation)}.values())


def test_flows_too_small_for_a_verdict_name_the_link_when_they_are_added_up(runs: Runs) -> None:
    """S6: a flow of 32 packets a path is below its threshold of 15.5 with probability 1 % if one in five is lost."""
    parts = {
        "transport": {"pmtu": 256, "spray": "random"},
        "workloads": [{"pairs": [[2, 3], [2, 1], [0, 1], [0, 3]], "qps": SMALL_FLOWS, "packets": 32 * SPINES}],
        "detector": {"min_rate": "20%"},
    }
    summary = runs("small", **parts, faults=[{"link": LINK, "drop": "20%"}])
    assert [each["link"] for each in summary["detected"]["named"]] == [LINK]
    alone = [each["verdict"] for each in runs.records("DETECT", "uniform")]
    assert alone.count("insufficient") >= len(alone) - 5, "of 56 paths one in a hundred fails alone"
    paths = last_of_paths(runs, "uniform")
    assert {each["flows"] for each in paths} == {SMALL_FLOWS}
    failed = {(each["src_leaf"], each["spine"], each["dst_leaf"]) for each in paths if each["verdict"] == "failed"}
    assert failed == {(2, 1, 1), (2, 1, 3)}
    assert [each["verdict"] for each in paths].count("healthy") == 4 * SPINES - 2
    links = {each["link"]: each["verdict"] for each in runs.records("LINK", "declared")}
    assert {link for link, verdict in links.items() if verdict != "healthy"} <= {LINK}
    assert summary["detected"]["links"] == {"failed": 1, "healthy": 4 * SPINES - 1}
    assert runs.records("LOCALIZE", "declared")[-1]["links"] == [LINK]
    parts["detector"]["expectation"] = "declared"
    summary = runs("small-and-well", **parts)
    assert all(accused(witness) == ([], []) for witness in summary["witnesses"])
    assert {each["verdict"] for each in runs.records("DETECT", "uniform")} == {"insufficient"}
    assert {(each["verdict"], each["by"]) for each in last_of_paths(runs, "uniform")} == {("healthy", "flows")}
    assert {each["verdict"] for each in runs.records("DETECT", "declared")} == {"insufficient"}
    assert {each["verdict"] for each in runs.records("LINK", "declared")} == {"healthy"}
    paths = 4 * SPINES
    assert (summary["detected"]["verdicts"], summary["detected"]["added_up"]) == ({"healthy": paths}, paths)


def test_small_queue_pairs_of_collectives_are_announced_and_added_up(runs: Runs) -> None:
    """Eight queue pairs of every two hosts send 130 packets a path each; alone it takes 400."""
    parts = {
        "transport": {"pmtu": 256},
        "workloads": [{"type": "all-to-all", "bytes": "416KiB", "iterations": 9, "qps": 8}],
        "detector": {"min_rate": "20%"},
    }
    summary = runs("exchange", **parts, faults=[{"link": LINK, "drop": "20%"}])
    assert [each["link"] for each in summary["detected"]["named"]] == [LINK]
    assert summary["detected"]["unannounced"] == 0
    assert summary["detected"]["verdicts"] == {"healthy": 12 * SPINES - 3, "failed": 3}
    assert summary["detected"]["links"] == {"healthy": 2 * 4 * SPINES - 1, "failed": 1}
    assert "insufficient" in {each["verdict"] for each in runs.records("DETECT", "uniform")}
