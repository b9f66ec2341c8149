"""The witnesses of a run side by side, each held against what the injector counted. Pure.

SprayCheck's words are taken from its records, by both expectations; MRC's from `ev_witness`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from results.files.event_log import Fields
from results.metrics import NS, precision, recall
from results.numbers_text import count_text
from results.records.witnesses import Witness, WitnessedLink
from scenarios.file.model import Scenario
from scenarios.run.judge.expect import Accused, Conclusion, unmeasured_text
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric
from testbed.model.names import parse_link

SILENT = Conclusion("silent", (), (), {}, 0)
"""Of a witness that has nothing to go by."""


@dataclass(frozen=True)
class Truth:
    """What really happened."""

    dropping: frozenset[str]
    """Directions between switches, and from hosts up to leaves, that lost data."""
    possible: frozenset[str]
    """Directions that may have, uncounted: to name them is right, not to name them is no miss."""
    since_ns: Mapping[str, int]
    """When each direction's first fault was in force; monotonic."""
    first_packet_ns: int | None
    changed: frozenset[str] = frozenset()
    """Directions that somebody else changed: to name them is neither right nor wrong."""


def in_force_since(records: Iterable[Fields]) -> dict[str, int]:
    """When the first fault of each direction was in force, by the truth's records."""
    since: dict[str, int] = {}
    for record in records:
        if record["event"] == "FAULT_SET":
            since[record["link"]] = min(record["mono_ns"], since.get(record["link"], record["mono_ns"]))
    return since


def witness_of(name: str, said: Conclusion, truth: Truth, fabric: Fabric, decides: bool, note: str = "") -> Witness:
    """One witness beside the truth."""
    named = tuple(_witnessed(each, truth, fabric) for each in (*said.accused, *said.common))
    links = {link for each in named for link in spelt_out(each.link, fabric)}
    open_sets = (*said.candidates, *said.common_candidates)
    suspects = {link for names in open_sets for name in names for link in spelt_out(name, fabric)}
    unsettled = truth.dropping & suspects - links
    right = truth.dropping | (truth.possible & links)
    scored = links - (truth.changed - right)
    found = [each for each in named if each.right and each.after_s is not None]
    first = min(found, key=lambda each: each.after_s or 0.0, default=None)
    return Witness(
        witness=name,
        decides=decides,
        state=said.state,
        named=named,
        candidates=open_sets,
        missed=tuple(sorted(truth.dropping - links - unsettled)),
        suspected=tuple(sorted(unsettled)),
        false_alarms=len(scored - right),
        precision=precision(set(scored), set(right)),
        recall=recall(links, set(truth.dropping - unsettled)),
        seconds=None if first is None else first.after_s,
        packets=None if first is None else first.packets,
        note=note,
    )


def _witnessed(said: Accused, truth: Truth, fabric: Fabric) -> WitnessedLink:
    links = spelt_out(said.link, fabric)
    after = None
    if said.named_ns is not None and truth.first_packet_ns is not None:
        in_force = [truth.since_ns[link] for link in links if link in truth.since_ns]
        begin = max(truth.first_packet_ns, min(in_force, default=truth.first_packet_ns))
        after = max(0, said.named_ns - begin) / NS
    right = truth.dropping | truth.possible
    changed = not links <= right and links <= right | truth.changed
    return WitnessedLink(said.link, links <= right, after, said.packets, said.paths, changed)


def spelt_out(name: str, fabric: Fabric) -> frozenset[str]:
    """The directions that a name stands for: itself, or all of a pattern."""
    try:
        return frozenset(map(str, parse_link(name, fabric)))
    except UnknownNameError:
        return frozenset((name,))


def silence_of_events(scenario: Scenario) -> str:
    """Why MRC's events say nothing in this scenario; empty if they can."""
    if scenario.transport.ev.loss_policy == "off":
        return "no events (loss policy off)"
    return "no events (events: off)" if scenario.events == "off" else ""


def note_on(said: Conclusion, scenario: Scenario) -> str:
    """What is to be known of SprayCheck's word by one expectation."""
    if said.expectation == "declared" and scenario.detector.counter_bits == 16:
        return "not judged: with 16-bit counters nothing is declared"
    if said.unmeasured:
        return unmeasured_text(sum(said.unmeasured.values()))
    if said.undecided:
        return f"{len(said.undecided):,} of {count_text(said.links_wanted, 'link')} undecided"
    return f"{count_text(said.added_up, 'path')} judged by several flows together" if said.added_up else ""
