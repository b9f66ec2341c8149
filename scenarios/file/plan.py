"""Resolves a scenario on its fabric before anything starts: every flow, faulty direction and captured link.

It also lists what does not fit together. A plan is a value; nothing here touches the machine.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent.wire.constants import PSN_BITS, PSN_SPACE
from faults.errors import TargetError, WordingError
from faults.quantities import parse_bit_rate, parse_duration
from faults.request import Worded, worded
from faults.targets import Chosen, chosen_of, require_fits
from faults.timing import TIMING_WORDS
from results.files.yaml_document import Place
from scenarios.errors import Problem, ScenarioRefusedError
from scenarios.file.collective_plan import PlannedCollective, collective_of, misfits_of, pattern_of
from scenarios.file.collective_plan import misfits_on as collective_misfits_on
from scenarios.file.model import Detector, FaultEntry, Scenario, Topology, Workload
from scenarios.file.qp_settings import fitting_window, window_for_scapy
from scenarios.file.transport import Transport
from scenarios.file.transport_checks import engine_misfits, misfits, misfits_on
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link
from testbed.model.node_names import DirectedLink, LinkId, Role, those_there_are

M = TypeVar("M", bound=BaseModel)

MAX_FLOWS_PER_HOST = 4095
"""Queue pair numbers are `host << 12 | n`, n from 1."""


AUTO = "auto"
"""Name of any mechanism that the machine has."""


@dataclass(frozen=True)
class Complaint:
    """A problem at a place of the document."""

    place: Place
    wrong: str
    right: str


@dataclass(frozen=True)
class Flow:
    """Writes of one queue pair from one host to another."""

    source: int
    destination: int
    payload_bytes: int
    """Payload bytes that it will post."""
    message_bytes: int
    workload: str = "write"
    at_ns: int = 0
    """Start, after the start of traffic."""
    rate_bps: int | None = None
    """Requested payload bits per second; None: no limit."""


@dataclass(frozen=True)
class PlannedFault:
    """One order of faults, with its directions."""

    chosen: Chosen
    words: Mapping[str, str | bool]
    worded: Worded
    mechanism: str
    """`AUTO`, or the one that the scenario names."""


@dataclass(frozen=True)
class Plan:
    """Everything that a run will do."""

    scenario: Scenario
    fabric: Fabric
    flows: tuple[Flow, ...]
    """Flows of writes."""
    collectives: tuple[PlannedCollective, ...]
    faults: tuple[PlannedFault, ...]
    captures: tuple[LinkId, ...]
    detected: tuple[DirectedLink, ...] | None
    """Links that must be named; None: those that drop during the run."""
    retired: tuple[DirectedLink, ...] | None = None
    """Links whose entropy values must be retired, and no others; None: no requirement."""

    @property
    def fault_texts(self) -> tuple[tuple[str, str], ...]:
        """Return every direction and its fault."""
        return tuple(
            (str(way), f"{fault}{_when(order.words)}")
            for order in self.faults
            for way in order.chosen.ways
            for fault in order.worded.faults
        )

    @property
    def fault_lines(self) -> tuple[str, ...]:
        """Describe the faults for people: a line per fault of an order, with its directions counted where they are
        many.
        """
        return tuple(
            f"{_target_text(order.chosen)} {fault}{_when(order.words)}{_count_of(order.chosen)}"
            for order in self.faults
            for fault in order.worded.faults
        )

    @property
    def region_bytes(self) -> int:
        """Return the memory of all source and destination regions of flows and collectives."""
        collectives = sum(collective.memory_bytes for collective in self.collectives)
        return 2 * sum(flow.payload_bytes for flow in self.flows) + collectives

    @property
    def window_pkts(self) -> int:
        """Return the scenario's window, or the largest that rings (or Scapy) can handle for the host with most
        queue pairs.
        """
        transport = self.scenario.transport
        leading = Counter(flow.destination for flow in self.flows)
        for collective in self.collectives:
            leading.update(collective.queue_pairs())
        most = max(leading.values(), default=1)
        window = fitting_window(transport.window_pkts, most, self.fabric.spec.planes)
        if not (by_scapy := transport.scapy_hosts(self.fabric.host_count)):
            return window
        ends = leading + Counter(flow.source for flow in self.flows)
        for collective in self.collectives:
            ends.update(collective.queue_pairs())  # as many lead from a host as to it
        return window_for_scapy(window, max(ends[host] for host in by_scapy), transport.ack_timeout_ms)


@dataclass(frozen=True)
class Parts:
    """Return the parts of a document that are valid by themselves, by their position in it."""

    topology: Topology | None = None
    transport: Transport | None = None
    workloads: Mapping[int, Workload] = field(default_factory=dict)
    faults: Mapping[int, FaultEntry] = field(default_factory=dict)
    targets: Mapping[int, FaultEntry] = field(default_factory=dict)
    """Return only the targets of the other faults."""
    detector: Detector | None = None
    capture: Mapping[int, str] = field(default_factory=dict)
    detected: Mapping[int, str] = field(default_factory=dict)
    retired: Mapping[int, str] = field(default_factory=dict)


def parts_of(values: Mapping[str, Any]) -> Parts:
    """Return the items of `values` that can be read."""
    expect = values.get("expect")
    return Parts(
        _sound(Topology, values.get("topology", {})),
        _sound(Transport, values.get("transport", {})),
        _all_sound(Workload, values.get("workloads")),
        faults := _all_sound(FaultEntry, values.get("faults")),
        _targets(values.get("faults"), faults),
        _sound(Detector, values.get("detector", {})),
        _texts(values.get("capture")),
        _texts(expect.get("detected")) if isinstance(expect, Mapping) else {},
        _texts(expect.get("retired")) if isinstance(expect, Mapping) else {},
    )


def spec_of(topology: Topology) -> FabricSpec:
    """Return the fabric that a scenario's topology describes."""
    return FabricSpec(topology.planes, topology.leaves, topology.spines, topology.hosts_per_leaf)


def plan_of(scenario: Scenario, fabric: Fabric | None = None) -> Plan:
    """Plan a valid scenario on its own fabric or on one that is up."""
    fabric = fabric or Fabric.of(spec_of(scenario.topology))
    return Plan(
        scenario,
        fabric,
        tuple(flow for work in scenario.workloads for flow in _flows(work, scenario.transport, fabric)),
        tuple(found for work in scenario.workloads if (found := collective_of(work, fabric.host_count))),
        tuple(_planned(entry, fabric, scenario.seed) for entry in scenario.faults),
        tuple(dict.fromkeys(way.link for text in scenario.capture for way in parse_link(text, fabric))),
        _ways(scenario.expect.detected, fabric),
        _ways(scenario.expect.retired, fabric),
    )


def _target_text(chosen: Chosen) -> str:
    """Return the target as written, unless it is one direction or random."""
    if len(chosen.ways) == 1:
        return str(chosen.ways[0])
    return str(chosen) if chosen.by_chance else chosen.text


def _count_of(chosen: Chosen) -> str:
    return f" ({len(chosen.ways):,} directions)" if len(chosen.ways) > 1 else ""


def _ways(texts: tuple[str, ...] | None, fabric: Fabric) -> tuple[DirectedLink, ...] | None:
    return None if texts is None else tuple(way for text in texts for way in parse_link(text, fabric))


def checked_on(scenario: Scenario, counts: Mapping[str, int]) -> Scenario:
    """Move the scenario to a fabric of other counts. Raises `ScenarioRefusedError` when it does not fit there."""
    moved = scenario.model_copy(update={"topology": Topology.model_validate(dict(counts))})
    values = moved.model_dump(exclude_none=True, by_alias=True)
    complaints = list(complaints_of(parts_of(values)))
    if complaints:
        where = f"{scenario.name} on a lab of {moved.topology}"
        raise ScenarioRefusedError([Problem(where, ".".join(map(str, c.place)), c.wrong, c.right) for c in complaints])
    return moved


def complaints_of(parts: Parts) -> Iterator[Complaint]:
    """List everything that does not fit together."""
    for at, work in parts.workloads.items():
        yield from _volume_complaints(("workloads", at), work, parts.transport)
    if parts.transport is not None:
        yield from (Complaint(("transport", *key), wrong, right) for key, wrong, right in misfits(parts.transport))
    if parts.detector is not None:
        yield from _detector_complaints(parts.detector)
    if parts.topology is not None:
        yield from _fabric_complaints(parts, Fabric.of(spec_of(parts.topology)))


def _fabric_complaints(parts: Parts, fabric: Fabric) -> Iterator[Complaint]:
    for at, work in parts.workloads.items():
        yield from _pair_complaints(("workloads", at), work, fabric)
        if parts.transport is not None:
            yield from _length_complaints(("workloads", at), work, parts.transport.pmtu, fabric)
    yield from _crowd_complaints(parts.workloads, fabric)
    if parts.transport is not None:
        found = misfits_on(parts.transport, fabric.spec.planes, fabric.spec.spines)
        found = chain(found, engine_misfits(parts.transport, fabric.host_count))
        yield from (Complaint(("transport", *key), wrong, right) for key, wrong, right in found)
    for at, text in parts.capture.items():
        yield from _link_complaints(("capture", at), text, fabric)
    for at, text in parts.detected.items():
        yield from _link_complaints(("expect", "detected", at), text, fabric)
    for at, text in parts.retired.items():
        yield from _switch_link_complaints(("expect", "retired", at), text, fabric)
    yield from _fault_complaints(parts.faults, fabric)
    for at, entry in parts.targets.items():
        if isinstance(chosen := _chosen(entry, fabric), Complaint):
            yield replace(chosen, place=("faults", at, *chosen.place))


def _detector_complaints(detector: Detector) -> Iterator[Complaint]:
    if detector.counter_bits == 16 and detector.expectation == "declared":
        wrong = "16-bit counters have no room for what senders declare"
        yield Complaint(("detector", "expectation"), wrong, "`uniform`, or `counter_bits: 32`")


def _volume_complaints(place: Place, work: Workload, transport: Transport | None) -> Iterator[Complaint]:
    yield from (Complaint((*place, key), wrong, right) for key, wrong, right in misfits_of(work))
    if pattern_of(work) is not None:
        return
    if (work.packets is None) == (work.bytes is None):
        yield Complaint(place, _one_of(work.packets is None, "packets", "bytes"), "give the size of a flow, once")
    if (work.strides is None) == (work.pairs is None):
        yield Complaint(place, _one_of(work.strides is None, "strides", "pairs"), "give source and destination, once")
    if transport is not None:
        yield from _multiple_complaints(place, work, transport.pmtu)


def _multiple_complaints(place: Place, work: Workload, pmtu: int) -> Iterator[Complaint]:
    """Check that packets are full and messages whole, so that packet counts are known before the run."""
    volume, message = _volume(work, pmtu), work.message_bytes
    if work.bytes is not None and work.bytes % pmtu:
        yield Complaint((*place, "bytes"), *_not_packets(work.bytes, pmtu))
    elif message is not None and message % pmtu:
        yield Complaint((*place, "message_bytes"), *_not_packets(message, pmtu))
    elif message is not None and volume is not None and volume % message:
        key, unit = ("packets", pmtu) if work.bytes is None else ("bytes", 1)
        wrong = f"{volume // unit} is not a whole number of messages of {message} bytes"
        yield Complaint((*place, key), wrong, f"for example {_nearest(volume, message) // unit}")


def _not_packets(size: int, pmtu: int) -> tuple[str, str]:
    return f"{size} is not a multiple of the PMTU, {pmtu}", f"full packets only, for example {_nearest(size, pmtu)}"


def _nearest(size: int, unit: int) -> int:
    return max(1, round(size / unit)) * unit


def _one_of(neither: bool, first: str, second: str) -> str:
    return f"neither `{first}` nor `{second}` is given" if neither else f"both `{first}` and `{second}` are given"


def _volume(work: Workload, pmtu: int) -> int | None:
    return work.bytes if work.bytes is not None else work.packets and work.packets * pmtu


def _length_complaints(place: Place, work: Workload, pmtu: int, fabric: Fabric) -> Iterator[Complaint]:
    """Check that a PSN stands for one packet of a flow; otherwise leaves cannot assign packets."""
    key, packets, smaller = "bytes", 0, "fewer bytes or rounds"
    if (pattern := pattern_of(work)) is None:
        key = "packets" if work.bytes is None else "bytes"
        packets = (_volume(work, pmtu) or 0) // pmtu
        smaller = f"at most `{key}: {PSN_SPACE if key == 'packets' else PSN_SPACE * pmtu}` (each; `qps` makes several)"
    elif not [*misfits_of(work), *collective_misfits_on(work, fabric.host_count)]:
        planned = collective_of(work, fabric.host_count)
        alike = [] if planned is None else replace(planned, groups=planned.groups[:1]).sendings(pmtu)
        packets = max((sent.packets for sent in alike), default=0)
        key = "iterations" if pattern and work.iterations else "bytes"
    if packets > PSN_SPACE:
        wrong = f"{packets} packets of a queue pair are more than a flow can number (PSNs have {PSN_BITS} bits)"
        yield Complaint((*place, key), wrong, f"{smaller}, or a larger `pmtu`")


def _useful_strides(hosts: int) -> str:
    if hosts == 1:
        return "a host alone has nobody to write to: ask for more `leaves` or `hosts_per_leaf`"
    return "with 2 hosts, only 1 is useful" if hosts == 2 else f"with {hosts} hosts, 1 to {hosts - 1} are useful"


def _pair_complaints(place: Place, work: Workload, fabric: Fabric) -> Iterator[Complaint]:
    hosts = fabric.host_count
    yield from (Complaint((*place, key), wrong, right) for key, wrong, right in collective_misfits_on(work, hosts))
    for at, stride in enumerate(work.strides or ()):
        if stride % hosts == 0:
            wrong = f"a stride of {stride} makes hosts write to themselves"
            yield Complaint((*place, "strides", at), wrong, _useful_strides(hosts))
    for at, pair in enumerate(work.pairs or ()):
        if max(pair) >= hosts:
            wrong = f"there is no h{max(pair)}"
            yield Complaint((*place, "pairs", at), wrong, those_there_are("host", "h", hosts))
        elif pair[0] == pair[1]:
            yield Complaint((*place, "pairs", at), f"h{pair[0]} would write to itself", "name two different hosts")


def _crowd_complaints(workloads: Mapping[int, Workload], fabric: Fabric) -> Iterator[Complaint]:
    ends: dict[int, int] = {}
    for at, work in workloads.items():
        for source, destination in _pairs(work, fabric.host_count):
            ends[source] = ends.get(source, 0) + work.qps
            ends[destination] = ends.get(destination, 0) + work.qps
        if not [*misfits_of(work), *collective_misfits_on(work, fabric.host_count)]:
            collective = collective_of(work, fabric.host_count)
            for host, count in collective.queue_pairs().items() if collective else ():
                ends[host] = ends.get(host, 0) + count
        if max(ends.values(), default=0) > MAX_FLOWS_PER_HOST:
            wrong = f"some host would have {max(ends.values())} queue pairs"
            yield Complaint(("workloads", at), wrong, f"at most {MAX_FLOWS_PER_HOST} per host")
            return


def _planned(entry: FaultEntry, fabric: Fabric, seed: int) -> PlannedFault:
    return PlannedFault(chosen_of(entry.where, fabric, seed), entry.words, worded(entry.words), entry.mechanism)


def _fault_complaints(faults: Mapping[int, FaultEntry], fabric: Fabric) -> Iterator[Complaint]:
    taken: dict[tuple[DirectedLink, str], int] = {}
    for at, entry in faults.items():
        place = ("faults", at)
        said = _worded(entry)
        if isinstance(said, WordingError):
            yield from (Complaint((*place, _key(word)), wrong, right) for word, wrong, right in said.problems)
        chosen = _chosen(entry, fabric)
        if isinstance(chosen, Complaint):
            yield replace(chosen, place=(*place, *chosen.place))
        if not isinstance(said, WordingError) and isinstance(chosen, Chosen):
            yield from _fit_complaints(at, said, chosen, taken, fabric)


def _fit_complaints(
    at: int, said: Worded, chosen: Chosen, taken: dict[tuple[DirectedLink, str], int], fabric: Fabric
) -> Iterator[Complaint]:
    for fault in said.faults:
        place = ("faults", at, _key(fault.word))
        if fault.is_nothing:
            verb = "drops" if fault.word == "drop" else "does"
            yield Complaint(place, f"0 {verb} nothing", "leave the fault out")
        try:
            require_fits(chosen, fault, fabric)
        except TargetError as error:
            yield Complaint(place, error.reason, error.hint)
        except WordingError as error:
            yield from (Complaint(("faults", at, _key(word)), *problem) for word, *problem in error.problems)
        for way in chosen.ways:
            if (way, fault.name) in taken:
                wrong = f"{way} already has the fault of faults.{taken[way, fault.name]}"
                yield Complaint(("faults", at, "link"), wrong, "one fault of a kind a direction")
                break
            taken[way, fault.name] = at


def _worded(entry: FaultEntry) -> Worded | WordingError:
    try:
        return worded(entry.words)
    except WordingError as error:
        return error


def _chosen(entry: FaultEntry, fabric: Fabric) -> Chosen | Complaint:
    """Resolve the target of an entry, or state its error, at a place below the entry."""
    if (entry.link is None) == (entry.target is None):
        return Complaint((), _one_of(entry.link is None, "link", "target"), "name the target, once")
    place = ("link",) if entry.target is None else ("target",)
    try:
        return chosen_of(entry.where, fabric)
    except UnknownNameError as error:
        return Complaint(place, f"{error.text!r}: {error.reason}", _right(error))
    except TargetError as error:
        return Complaint(place, f"{error.text!r}: {error.reason}", error.hint)


def _right(error: UnknownNameError) -> str:
    return f"did you mean {', '.join(error.near)}?" if error.near else error.right


def _when(words: Mapping[str, str | bool]) -> str:
    """Return the timeline in its own words, with a space before it."""
    return "".join(f" {word.name} {words[word.name]}" for word in TIMING_WORDS if word.name in words)


def _key(word: str) -> str:
    """Return a word as a scenario writes it."""
    return word.replace("-", "_")


def _link_complaints(place: Place, text: str, fabric: Fabric) -> Iterator[Complaint]:
    try:
        parse_link(text, fabric)
    except UnknownNameError as error:
        yield Complaint(place, f"{text!r}: {error.reason}", _right(error))


def _switch_link_complaints(place: Place, text: str, fabric: Fabric) -> Iterator[Complaint]:
    yield from (unknown := list(_link_complaints(place, text, fabric)))
    if not unknown and any(Role.HOST in (way.sender.role, way.receiver.role) for way in parse_link(text, fabric)):
        yield Complaint(place, f"{text!r} reaches a host", "name a link between leaf and spine")


def _pairs(work: Workload, hosts: int) -> Iterator[tuple[int, int]]:
    yield from work.pairs or ()
    for stride in work.strides or ():
        yield from ((host, (host + stride) % hosts) for host in range(hosts))


def _flows(work: Workload, transport: Transport, fabric: Fabric) -> Iterator[Flow]:
    if pattern_of(work) is not None:
        return
    volume = _volume(work, transport.pmtu) or 0
    at_ns, rate_bps = parse_duration(work.at), None if work.rate is None else parse_bit_rate(work.rate)
    for source, destination in _pairs(work, fabric.host_count):
        flow = Flow(source, destination, volume, work.message_bytes or volume, at_ns=at_ns, rate_bps=rate_bps)
        yield from [flow] * work.qps


def _sound(model: type[M], values: Any) -> M | None:
    try:
        return model.model_validate(values)
    except ValidationError:
        return None


def _all_sound(model: type[M], items: Any) -> dict[int, M]:
    listed = enumerate(items) if isinstance(items, tuple) else ()
    return {at: part for at, values in listed if (part := _sound(model, values)) is not None}


def _targets(items: Any, sound: Mapping[int, FaultEntry]) -> dict[int, FaultEntry]:
    """Return entries that are invalid elsewhere, reduced to `link` or `target`."""
    listed = enumerate(items) if isinstance(items, tuple) else ()
    targets = {at: {key: values[key] for key in ("link", "target") if key in values}
            for at, values in listed if at not in sound and isinstance(values, Mapping)}  # fmt: skip
    return {at: entry for at, where in targets.items() if (entry := _sound(FaultEntry, where)) is not None}


def _texts(items: Any) -> dict[int, str]:
    return {at: text for at, text in enumerate(items) if isinstance(text, str)} if isinstance(items, tuple) else {}
