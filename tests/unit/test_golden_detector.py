"""What leaves' counters returned in real runs, played to the detector again: it concludes what it concluded before.

`make golden` records the runs anew; `python -m tests.unit.test_golden_detector` writes the conclusions alone.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from agent.wire.detect_records import LinkConclusion
from results.detect_log import path_text, said_in
from scenarios.file.load import load_scenario
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.run.judge.checks import checks_of
from scenarios.run.judge.detection import conclusion_of, detected_of
from scenarios.run.judge.detector_demands import links_to_judge, measured_pairs
from tests.support.leaf_recording import load, replayed

GOLDEN = Path(__file__).parent.parent / "golden" / "detector"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.xz"))


def conclusions(name: str) -> dict[str, Any]:
    """By both expectations, without times."""
    records = replayed(load(GOLDEN / f"{name}.xz"))
    scenario = load_scenario(GOLDEN / f"{name}.yaml")
    return {each: _by(each, records, scenario) for each in ("uniform", "declared")}


def _by(expectation: str, records: list[dict[str, Any]], scenario: Scenario) -> dict[str, Any]:
    plan, told = plan_of(scenario), said_in(records, expectation)
    links = links_to_judge(plan, told.chosen)
    paths = len(measured_pairs(plan)) * plan.fabric.spec.planes * plan.fabric.spec.spines
    dropping = {str(way) for order in plan.faults for way in order.chosen.ways}
    said = conclusion_of(told, None, links, paths, "", dropping)
    found = detected_of(said, dropping, right_causes=dropping)
    checks = checks_of(scenario.expect, dropping, found, (), (), by_cause=dropping)
    flows: dict[str, Counter[str]] = defaultdict(Counter)
    for each in told.flows:
        flows[path_text(each)][each.verdict] += 1
    return {
        "state": said.state,
        "named": sorted(each.link for each in said.accused),
        "candidates": said.candidates,
        "common": sorted(each.link for each in said.common),
        "common_candidates": said.common_candidates,
        "untimely": said.untimely,
        "unmeasured": said.unmeasured,
        "checks": {each.name: each.detail if each.ok else f"FAILS: {each.detail}" for each in checks[:2]},
        "flows": {path: dict(sorted(flows[path].items())) for path in sorted(flows)},
        "paths": {path: f"{each.verdict} by {each.by}" for path, each in sorted(told.paths.items())},
        "links": {link: _words(each) for link, each in sorted(told.links.items())},
    }


def _words(link: LinkConclusion) -> str:
    others = f" or {', '.join(link.alternatives)}" if link.alternatives else ""
    return f"{link.verdict}{f' ({link.doubt})' if link.doubt else ''}{others}"


def _text(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1) + "\n"


def write_conclusions() -> None:
    """Of all recordings."""
    for path in sorted(GOLDEN.glob("*.xz")):
        path.with_suffix(".json").write_text(_text(conclusions(path.stem)))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_leads_to_the_same_conclusions(name: str) -> None:
    assert json.loads((GOLDEN / f"{name}.json").read_text()) == json.loads(_text(conclusions(name)))


def test_recordings_are_there_and_small() -> None:
    assert len(NAMES) >= 7
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 1 << 20


if __name__ == "__main__":
    write_conclusions()
