"""Witnesses of a run, each compared with what the injector counted: SprayCheck by both expectations, and MRC's events.

What MRC's events (entropy values of many hosts that left GOOD) say of links follows from their intersection. Each
flow's path is a witness of its own. It accuses its two links from the moment on at which losses took one of its entropy
values out of use (EV_STATE to ASSUMED_BAD by LOST). It clears them if none was when the flow had ended, if it had
carried so many packets that a drop of the requested rate would have cost it one with all but the allowed probability
of a miss, and if it was under way while the other lost packets: from that one's first loss to its end. If more than
half of the paths that a flow used in a plane were retired, they have a common cause, and they accuse nothing. The rest
goes through the localiser of SprayCheck, without counts. Pure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log

from agent.spraycheck.accuse.localization import Evidence, Finding, Localization, localize
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.flow_times import LossTime, Span, share_needed
from agent.spraycheck.statistics.verdicts import Requirements, Verdict
from results.files.event_log import Fields
from results.metrics import NS, precision, recall
from results.records.witnesses import Witness, WitnessedLink
from results.text import count_text
from scenarios.file.model import Scenario
from scenarios.run.judge.detection import Accused, Conclusion, unmeasured_text
from scenarios.workload.traffic import FlowProgress, OpenFlow, WorkerCounts
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric
from testbed.model.name_parsing import parse_link

MOST_MOMENTS = 256
"""Most moments at which a spine's evidence is weighed again, evenly spread if there are more. Our choice: seconds of
work."""

_WORST_FIRST = (Finding.UNEXPLAINED, Finding.AMBIGUOUS, Finding.NAMED)

SILENT = Conclusion("silent", (), (), {}, 0)
"""The conclusion of a witness without evidence."""


@dataclass(frozen=True)
class Truth:
    """Ground truth of the links of a run."""

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
    """Return when the first fault of each direction was in force, from the truth's records."""
    since: dict[str, int] = {}
    for record in records:
        if record["event"] == "FAULT_SET":
            since[record["link"]] = min(record["mono_ns"], since.get(record["link"], record["mono_ns"]))
    return since


def witness_of(name: str, said: Conclusion, truth: Truth, fabric: Fabric, decides: bool, note: str = "") -> Witness:
    """Compare one witness with the truth."""
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
    """Return the directions that a name stands for: itself, or all of a pattern."""
    try:
        return frozenset(map(str, parse_link(name, fabric)))
    except UnknownNameError:
        return frozenset((name,))


def silence_of_events(scenario: Scenario) -> str:
    """State why MRC's events say nothing in this scenario; empty if they can."""
    if scenario.transport.ev.loss_policy == "off":
        return "no events (loss policy off)"
    return "no events (events: off)" if scenario.events == "off" else ""


def note_on(said: Conclusion, scenario: Scenario) -> str:
    """Return a note for readers of SprayCheck's result by one expectation."""
    if said.expectation == "declared" and scenario.detector.counter_bits == 16:
        return "not judged: with 16-bit counters nothing is declared"
    if said.unmeasured:
        return unmeasured_text(sum(said.unmeasured.values()))
    if said.undecided:
        return f"{len(said.undecided):,} of {count_text(said.links_wanted, 'link')} undecided"
    return f"{count_text(said.added_up, 'path')} judged by several flows together" if said.added_up else ""


@dataclass(frozen=True)
class EvPath:
    """One path of a flow, with all copies of its entropy values."""

    path: FabricPath
    qpn: int
    source: int
    sent: int
    """First transmissions in all."""
    began_ns: int | None
    """When its first packet left."""
    ended_ns: int | None
    """When the flow had all acknowledged."""
    left_ns: int | None
    """When losses first took one of its entropy values out of use."""
    sent_until: int
    """First transmissions until then, on the entropy values that were retired."""


def ev_paths(
    flows: Sequence[OpenFlow],
    progress: Sequence[FlowProgress],
    workers: Iterable[WorkerCounts],
    records: Iterable[Fields],
    fabric: Fabric,
) -> list[EvPath]:
    """Return all paths between leaves that the flows' sources used."""
    mine = {(item.source.host, item.source.qpn): (item, how) for item, how in zip(flows, progress, strict=True)}
    left = _first_losses(records)
    values: dict[tuple[int, int, FabricPath], list[Fields]] = defaultdict(list)
    for row in (row for worker in workers for row in worker.evs):
        item, _ = mine.get((row["host"], row["qpn"]), (None, None))
        if item is None or row["spine"] is None:
            continue
        ends = fabric.leaf_of(item.flow.source), fabric.leaf_of(item.flow.destination)
        values[row["host"], row["qpn"], FabricPath(row["plane"], ends[0], row["spine"], ends[1])].append(row)
    found = []
    for (host, qpn, path), rows in values.items():
        sent = sum(row["tx_first"] for row in rows)
        retired = [left[key] for row in rows if (key := (f"h{host}", qpn, row["ev"])) in left]
        if sent or retired:
            how = mine[host, qpn][1]
            first = min((at for at, _ in retired), default=None)
            found.append(
                EvPath(
                    path, qpn, host, sent, how.started_ns, how.finished_ns, first, sum(count for _, count in retired)
                )
            )
    return found


def _first_losses(records: Iterable[Fields]) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Return when losses first retired each entropy value (by host and queue pair), and what it had carried."""
    left: dict[tuple[str, int, int], tuple[int, int]] = {}
    for record in records:
        if record["event"] == "EV_STATE" and (record["state"], record["signal"]) == ("ASSUMED_BAD", "LOST"):
            for ev, sent in zip(record["evs"], record["sent"], strict=True):
                left.setdefault((record["node"], record["qpn"], int(ev, 16)), (record["mono_ns"], sent))
    return left


def conclusion_of_events(paths: Sequence[EvPath], asked: Requirements) -> Conclusion:
    """Return what MRC's events accuse in the end, and since when without a break."""
    verdicts = _verdicts(paths, asked)
    spines = {(each.path.plane, each.path.spine) for each in paths if verdicts[each] is Verdict.FAILED}
    accused, candidates, findings = list[Accused](), list[tuple[str, ...]](), set[Finding]()
    # Paths over different spines share no link, so each spine is a matter of its own.
    for spine in sorted(spines):
        mine = [each for each in paths if (each.path.plane, each.path.spine) == spine]
        last, since = _history(mine, verdicts, asked)
        findings.add(last.finding)
        accused += [_accused(link, since[link], mine, verdicts) for link in last.links]
        candidates += [tuple(map(str, each)) for each in last.candidates]
    return Conclusion(
        state=next((each.value for each in _WORST_FIRST if each in findings), Finding.NONE.value),
        accused=tuple(accused),
        candidates=tuple(candidates),
        verdicts=dict(Counter(verdict.value for verdict in verdicts.values())),
        verdicts_wanted=len(paths),
        expectation="events",
    )


def _verdicts(paths: Sequence[EvPath], asked: Requirements) -> dict[EvPath, Verdict]:
    used = Counter((each.source, each.qpn, each.path.plane) for each in paths)
    retired = Counter((each.source, each.qpn, each.path.plane) for each in paths if each.left_ns is not None)
    return {
        each: _verdict(each, 2 * retired[key] > used[key], asked)
        for each in paths
        for key in [(each.source, each.qpn, each.path.plane)]
    }


def _verdict(path: EvPath, have_one_cause: bool, asked: Requirements) -> Verdict:
    if path.left_ns is not None:
        return Verdict.INSUFFICIENT if have_one_cause else Verdict.FAILED
    is_enough = path.ended_ns is not None and (1 - asked.min_rate) ** path.sent <= asked.miss
    return Verdict.HEALTHY if is_enough else Verdict.INSUFFICIENT


def _history(
    paths: Sequence[EvPath], verdicts: Mapping[EvPath, Verdict], asked: Requirements
) -> tuple[Localization, dict[FabricLink, int]]:
    """Return what is accused in the end, and since when each link was."""
    known = [(_known_ns(each), _evidence(each, verdicts[each], asked)) for each in paths if _says(each, verdicts)]
    known.sort(key=lambda item: (item[0], item[1].path, item[1].verdict, item[1].qpn))
    moments = sorted({at for at, _ in known})
    step = -(-len(moments) // MOST_MOMENTS)
    since: dict[FabricLink, int] = {}
    for moment in moments[::-step][::-1]:
        located = localize([evidence for at, evidence in known if at <= moment])
        since = {link: since.get(link, moment) for link in located.links}
    return located, since


def _evidence(path: EvPath, verdict: Verdict, asked: Requirements) -> Evidence:
    """Return what a path says, and of which time: of all its flow's, or from its first loss on."""
    if path.began_ns is None or path.ended_ns is None:
        return Evidence(path.path, verdict, path.qpn)
    span, needs = Span(path.began_ns, path.ended_ns), share_needed(_enough(asked), path.sent)
    lossy = None
    if path.left_ns is not None:
        lossy = LossTime(Span(path.left_ns, path.left_ns), Span(path.left_ns, max(path.left_ns, path.ended_ns)))
    return Evidence(path.path, verdict, path.qpn, span=span, lossy=lossy, needs=needs)


def _enough(asked: Requirements) -> int:
    """Return the packets of which a drop of the requested rate takes one, except for the allowed miss probability."""
    return 1 if asked.min_rate >= 1 else ceil(log(asked.miss) / log(1 - asked.min_rate))


def _says(path: EvPath, verdicts: Mapping[EvPath, Verdict]) -> bool:
    return verdicts[path] is not Verdict.INSUFFICIENT


def _known_ns(path: EvPath) -> int:
    """Return when the verdict is known: at the path's loss, else at the flow's end."""
    known = path.ended_ns if path.left_ns is None else path.left_ns
    assert known is not None, "a path without a loss says something only when its flow has ended"
    return known


def _accused(link: FabricLink, since_ns: int, paths: Sequence[EvPath], verdicts: Mapping[EvPath, Verdict]) -> Accused:
    over = [each for each in paths if link in each.path.links and verdicts[each] is Verdict.FAILED]
    before = [each for each in over if _known_ns(each) <= since_ns]
    hosts = tuple(sorted({f"h{each.source}" for each in over}))
    return Accused(str(link), hosts, None, since_ns, sum(each.sent_until for each in before), len(before))
