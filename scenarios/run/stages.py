"""Defines the stages of a run, each a function of what is known before it; `runner` has their order.

What a stage changes it registers to be undone, so that an error or a Ctrl-C in any later stage leaves nothing.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from agent.spraycheck.statistics.verdicts import Expectation
from faults.timing import Event
from results.detect_log import Said, lines_in
from results.files import run_dir
from results.files.event_log import Fields, Tail, read_records
from results.files.run_dir import RunDir
from results.files.user_files import invoker
from results.records.source_hash import SourceCode
from results.summary import CaptureResult
from results.text import count_text, fault_text
from scenarios.errors import LabStateError, OwnerFailedError, RunStalledError, ScenariosError
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, PlannedFault, checked_on, plan_of
from scenarios.isolated import own_code
from scenarios.lab import protocol
from scenarios.lab.client import Owner, not_up
from scenarios.lab.lab_dir import LabDir, read_state
from scenarios.lab.lifecycle import Launched, OwnerSettings, launch, take_down
from scenarios.lab.owner.captures import flaw_of, is_doubtful
from scenarios.lab.processes import fewer_workers_text
from scenarios.lab.start.capacity import full_disk_text, no_room
from scenarios.lab.start.requirements import (
    is_per_leaf,
    lacks_of_capture,
    lacks_of_faults_here,
    lacks_of_folder,
    lacks_of_lab,
    mechanism_for,
    no_room_for_leaf_processes,
    require,
)
from scenarios.run import collect
from scenarios.run.collect import Readings
from scenarios.run.disk_errors import Unwritten
from scenarios.run.judge.detection import unmeasured_text
from scenarios.run.judge.detector_demands import announced_sendings, measuring_of, verdicts_wanted
from scenarios.run.lab_changes import changes_text
from scenarios.run.progress import WAITS_AFTER_S, Samples, softnet_drops, waits_text
from scenarios.run.request import LabInUse, Listener, RunRequest, attached, idle_processes
from scenarios.workload.traffic import FlowProgress, Traffic

STALLED_AFTER_S = 60.0
"""Time without one more acknowledged byte after which a run gives up: all timeouts of the transport are shorter."""

JUDGED_WITHIN_S = 20.0
"""Timeout of verdicts: SprayCheck judges a flow tenths of a second after its last packet, also on slow machines."""

OTHER_WITHIN_S = 3.0
"""Additional time for the expectation that does not decide: a path that lost a flow's end is given up in 1 s."""

RECORDED_WITHIN_S = 2.0
"""Timeout of verdicts that decide nothing; on dead paths they may never come."""

POLL_S = 0.1

LOOK_EVERY_S = 1.0
"""Time between two checks of the lab's processes while the run waits for verdicts (our choice)."""

FIRST_PACKET_POLL_S = 0.005
"""Time between two polls until the first packet: timelines count from it, so this delays what is due at once."""


def plan_for(request: RunRequest) -> Plan:
    """Return the plan on the lab's fabric, or on the scenario's own.

    Raises `ScenarioRefusedError` when the scenario does not fit the lab, `EnvironmentLackingError` with all that this
    machine lacks for it.
    """
    scenario = request.scenario
    if request.attach:
        state = read_state(request.labdir)
        if state is None:
            raise LabStateError(not_up(request.labdir))
        counts = {name: getattr(state, name) for name in type(scenario.topology).model_fields}
        scenario = _by_engines_of(checked_on(scenario, counts), state.scapy_hosts)
    plan = plan_of(scenario)
    require(_lacks(request, plan))
    return plan


def _by_engines_of(scenario: Scenario, scapy_hosts: tuple[int, ...]) -> Scenario:
    """Return the scenario as a lab that is up runs it: hosts keep the engine that they have."""
    every = scapy_hosts == tuple(range(scenario.topology.host_count))
    chosen = {"engine": "scapy", "engine_hosts": None if every else scapy_hosts} if scapy_hosts else {}
    transport = scenario.transport.model_copy(update={"engine": "ring", "engine_hosts": None} | chosen)
    return scenario.model_copy(update={"transport": transport})


def _engines_text(scenario: Scenario) -> str:
    hosts = scenario.transport.scapy_hosts(scenario.topology.host_count)
    return f"{', '.join(f'h{host}' for host in hosts)} move packets by Scapy" if hosts else "all hosts have rings"


def _lacks(request: RunRequest, plan: Plan) -> Iterator[str]:
    yield from lacks_of_folder(request.runs, 2 * len(plan.captures), plan.scenario.limits.captures)
    if no_data := no_room(plan.region_bytes, "the flows' data"):
        yield no_data
    if request.attach:
        yield from lacks_of_capture() if plan.captures else ()
        yield no_room_for_leaf_processes(plan.fabric) if is_per_leaf(request.scenario) else ""
    else:
        held_bytes, per_leaf = 0 if no_data else plan.region_bytes, is_per_leaf(request.scenario)
        yield from lacks_of_lab(plan.fabric, request.workers, held_bytes, bool(plan.captures), per_leaf)
    yield from lacks_of_faults_here(plan.faults, request.mechanism)


def lab_for(request: RunRequest, plan: Plan, listener: Listener, undo: ExitStack) -> LabInUse:
    """Connect to the lab that is up, or build one that ends with this run."""
    if request.attach:
        if request.workers is not None:
            listener.note("--workers says nothing here: the engine workers are those of the lab that is up")
        if plan.scenario.topology != request.scenario.topology:
            listener.note(
                f"the lab is {plan.scenario.topology}, the scenario asks for {request.scenario.topology}: flows, "
                "packets per path and links that drop are those of the lab, and so the result may differ"
            )
        theirs, asked = _engines_text(plan.scenario), _engines_text(request.scenario)
        if theirs != asked:
            listener.note(f"in the lab that is up {theirs}, whatever transport.engine and --engine say")
    else:
        if fewer := fewer_workers_text(request.workers, plan.fabric.host_count):
            listener.note(fewer)
        launched = launch(_owner_settings(request, plan), listener.note)
        undo.callback(_end_lab, launched, request.labdir)
    lab = attached(request.labdir, undo)
    if other := _other_code(lab.code):
        listener.note(other)
    return lab


def _other_code(theirs: SourceCode | None) -> str:
    """State that the lab was started by another copy of the program, or before files changed; empty if not."""
    ours = own_code()
    if theirs is None or theirs.sha256 == ours.sha256:
        return ""
    return f"the lab runs other code than this command: it was started from {theirs.folder}, this is {ours.folder}"


def check_before(lab: LabInUse, request: RunRequest, listener: Listener) -> protocol.Checked | None:
    """Compare a lab that was up with its plan and warn of differences; None for a lab that this run has built."""
    if not request.attach:
        return None
    checked = check_after(lab)
    if checked.differences:
        listener.note(f"warning: {changes_text(checked.differences)}; `{request.labdir.command('check')}` shows all")
    return checked


def check_after(lab: LabInUse) -> protocol.Checked:
    """Compare the lab, as read from the kernel now, with its plan."""
    return lab.owner.ask(protocol.Check(), protocol.Checked)


def _owner_settings(request: RunRequest, plan: Plan) -> OwnerSettings:
    topology = plan.scenario.topology
    return OwnerSettings(
        lab=request.labdir.lab,
        planes=topology.planes,
        leaves=topology.leaves,
        spines=topology.spines,
        hosts_per_leaf=topology.hosts_per_leaf,
        workers=request.workers,
        scapy_hosts=plan.scenario.transport.scapy_hosts(plan.fabric.host_count),
        seed=plan.scenario.seed,
        measuring=measuring_of(plan),
        leased=True,
    )


def _end_lab(launched: Launched, labdir: LabDir) -> None:
    """End the lease, and so the lab; remove by their marks what an owner that was killed has left."""
    launched.release()
    if not launched.wait_ended():
        take_down(labdir)


def new_folder(request: RunRequest, plan: Plan) -> RunDir:
    """Create the run's folder."""
    return run_dir.create(request.runs, plan.scenario.name, str(plan.scenario.seed))


def start_captures(lab: LabInUse, plan: Plan, folder: RunDir, undo: ExitStack) -> None:
    """Record the links that the scenario names, from before the first packet."""
    if plan.captures:
        links = tuple(str(link) for link in plan.captures)
        undo.callback(_quietly, lab.owner, protocol.CaptureStop(_place_of(folder)), protocol.Captures)
        limits = plan.scenario.limits
        start = protocol.CaptureStart(
            links, _place_of(folder), invoker(), leased=True, snaplen=limits.snaplen, most_bytes=limits.captures
        )
        lab.owner.ask(start, protocol.Captures)


def end_captures(lab: LabInUse, plan: Plan, folder: RunDir, unwritten: Unwritten) -> tuple[CaptureResult, ...]:
    """End the captures and return their results; `unwritten` receives what their files lack."""
    if not plan.captures:
        return ()
    ended = lab.owner.ask(protocol.CaptureStop(_place_of(folder)), protocol.Captures)
    for each in ended.captures:
        if not each.ended and is_doubtful(each) and (flaw := flaw_of(each)):
            unwritten.texts[flaw] = None
    return tuple(
        CaptureResult(f"pcap/{Path(c.file).name}", c.captured, c.dropped, c.snaplen, c.full, c.ended)
        for c in ended.captures
    )


def _place_of(folder: RunDir) -> str:
    """Return the captures' folder for the owner, which stands in another folder and follows no link to this one."""
    return os.fspath(folder.path.resolve() / folder.pcap.name)


def faults_to_set(lab: LabInUse, plan: Plan) -> tuple[PlannedFault, ...]:
    """Return the scenario's faults without those that are in force already by hand, which the run leaves alone.

    Raises `LabStateError` when a direction has a different one of the same name.
    """
    faults = lab.owner.ask(protocol.FaultShow(), protocol.Faults).faults
    there = {(state.link, state.fault): state for state in faults}
    return tuple(planned for planned in plan.faults if not _is_there(planned, there))


def set_faults(lab: LabInUse, plan: Plan, request: RunRequest, mine: tuple[PlannedFault, ...], undo: ExitStack) -> None:
    """Set the faults of this run."""
    undo.callback(_quietly, lab.owner, protocol.FaultClear(leased=True), protocol.Faults)
    for planned in mine:
        mechanism = mechanism_for(planned, request.mechanism)
        words, seed = dict(planned.words), plan.scenario.seed
        fault_set = protocol.FaultSet(planned.chosen.text, words, mechanism, "scenario", seed, leased=True)
        lab.owner.ask(fault_set, protocol.Faults)


def _is_there(planned: PlannedFault, there: Mapping[tuple[str, str], protocol.FaultState]) -> bool:
    """Return whether a whole fault is in force. Raises `LabStateError` when another one is in its place."""
    same = []
    for way in planned.chosen.ways:
        for fault in planned.worded.faults:
            state = there.get((str(way), fault.name))
            if state is not None and state.requested_text != fault.amount:
                has = f"{way} has {fault_text(state.kind, state.requested_text)} already"
                raise LabStateError(f"{has}; `spraylab fault clear` it, or ask for the same")
            same.append(state is not None)
    return all(same)


def clear_faults(lab: LabInUse, mine: tuple[PlannedFault, ...]) -> None:
    """Take away what this run has ordered. Raises `OwnerFailedError` when a timeline could not be followed."""
    failed = lab.owner.ask(protocol.FaultClear(leased=True), protocol.Faults).failed
    if failed and mine:
        raise OwnerFailedError("faults were not in force as the scenario asks: " + "; ".join(map(str, failed)))


def _quietly(owner: Owner, request: protocol.Request, reply: type[object]) -> None:
    """Undo on the way out of an error; the owner may be gone, and then so is what is to be undone."""
    with suppress(ScenariosError):
        owner.ask(request, reply)


def open_traffic(lab: LabInUse, plan: Plan, listener: Listener, undo: ExitStack) -> Traffic:
    """Allocate memory and queue pairs for every flow."""

    def show_opened(opened: int, flows: int) -> None:
        if opened:
            listener.waiting(f"queue pairs: {opened:,} of {count_text(flows, 'flow')} opened")

    traffic = Traffic(lab.workers)
    undo.callback(_close_quietly, traffic)
    traffic.open(plan, show_opened)
    return traffic


def _close_quietly(traffic: Traffic) -> None:
    with suppress(ScenariosError):
        traffic.close()


def readings(lab: LabInUse, traffic: Traffic, labdir: LabDir, since_ns: int) -> Readings:
    """Read what this machine and the injector have counted, with the faults that went since a moment."""
    faults = lab.owner.ask(protocol.FaultShow(), protocol.Faults).faults
    gone = collect.gone_between(read_records(labdir.truth), since_ns)
    return Readings(time.monotonic_ns(), traffic.counters(), softnet_drops(), faults, gone)


def new_epoch(lab: LabInUse, labdir: LabDir, plan: Plan) -> tuple[int, Tail]:
    """Return a number for what will be announced, once SprayCheck is ready, and its records from then on.

    Before any fault: the owner may have to restart SprayCheck, and keeps no fault's times meanwhile.
    """
    epoch = lab.owner.ask(protocol.NewEpoch(measuring_of(plan)), protocol.Epoch).epoch
    said = Tail(labdir.detect)
    said.skip()
    return epoch, said


def start_writing(lab: LabInUse, plan: Plan, traffic: Traffic, epoch: int) -> None:
    """Start all flows, announced under an epoch; what is to be in force from the first packet on is, before."""
    lab.owner.ask(protocol.FaultEvent(Event.TRAFFIC, coming=True), protocol.Faults)
    traffic.post(epoch, time.monotonic_ns(), announced_sendings(plan))


def wait_ended(
    lab: LabInUse, plan: Plan, traffic: Traffic, folder: RunDir, listener: Listener, unwritten: Unwritten
) -> tuple[FlowProgress, ...]:
    """Wait until every flow is acknowledged or has failed, with samples meanwhile.

    Raises `RunStalledError`, and `OwnerFailedError` when one of the lab's processes has died.
    """
    acked, since = -1, time.monotonic()
    samples = Samples(folder.counters, folder.name, plan.scenario.seed, unwritten)
    ended_captures = set[str]()
    flows, all_bytes = traffic.flows, traffic.payload_bytes
    names = [f"h{item.flow.source}>h{item.flow.destination}" for item in flows]
    begun = False
    while True:
        due_ns = traffic.post_due(time.monotonic_ns())
        over = traffic.jobs.ended()  # before the progress is read, which then holds all that programs did
        progress = traffic.progress()
        begun = begun or _report_first_packet(lab, progress)
        ended = over and traffic.ended(progress)
        samples.note_progress(progress, ended)
        if samples.due(ended):
            status = lab.owner.ask(protocol.Status(), protocol.LabStatus)
            _require_running(status)
            _note_ended(status, folder, listener, ended_captures)
            samples.take(progress, traffic.counters(), status.faults)
        now_acked = sum(flow.acked_bytes for flow in progress)
        if now_acked != acked or due_ns is not None:
            acked, since = now_acked, time.monotonic()
        waited_s = time.monotonic() - since
        if begun and not ended and waited_s >= WAITS_AFTER_S and (text := waits_text(names, progress, waited_s)):
            listener.waiting(f"traffic: {text}")
        else:
            listener.progress(now_acked, all_bytes, sum(flow.packets_rtx for flow in progress))
        if ended:
            return progress
        if waited_s > STALLED_AFTER_S:
            waiting = sum(
                not done.ended or (done.state != "ERROR" and done.acked_bytes < item.flow.payload_bytes)
                for item, done in zip(flows, progress, strict=True)
            )
            text = f"{count_text(waiting, 'flow')} had nothing acknowledged for {STALLED_AFTER_S:.0f} s"
            raise RunStalledError("; ".join(filter(None, (text, changes_text(check_after(lab).differences)))))
        is_due = not begun and any(flow.posted_bytes for flow in progress)
        pause_s = FIRST_PACKET_POLL_S if is_due else POLL_S
        time.sleep(pause_s if due_ns is None else min(pause_s, max(0.0, due_ns / 1e9 - time.monotonic())))


def _report_first_packet(lab: LabInUse, progress: Sequence[FlowProgress]) -> bool:
    """Report to timelines when the first packet left, if it has: they count from then."""
    first_ns = min((flow.started_ns for flow in progress if flow.started_ns is not None), default=None)
    if first_ns is not None:
        lab.owner.ask(protocol.FaultEvent(Event.TRAFFIC, mono_ns=first_ns), protocol.Faults)
    return first_ns is not None


def _note_ended(status: protocol.LabStatus, folder: RunDir, listener: Listener, noted: set[str]) -> None:
    """Report each capture of the run that has ended early, once; the run goes on without it."""
    for each in status.captures:
        if each.ended and each.file not in noted and Path(each.file).parent == Path(_place_of(folder)):
            noted.add(each.file)
            listener.note(f"tcpdump of {each.link} at {each.node}: {each.ended}; its file ends there")


def wait_judged(lab: LabInUse, tail: Tail, plan: Plan, epoch: int, listener: Listener) -> tuple[Fields, ...]:
    """Return SprayCheck's records of this run, once it has concluded, or when it takes too long.

    Does not wait for flows that leaves do not measure, but reports them.
    Raises `OwnerFailedError` when it takes too long because a process has died.
    """
    expectations = [each for each in Expectation if plan.scenario.detector.counter_bits == 32 or each == "uniform"]
    said = {each: Said(each) for each in expectations}
    found = _verdicts_of(lab, tail, plan, epoch, listener, said)
    if lacking := len(said[Expectation(plan.scenario.judged_by)].unmeasured):
        listener.note(f"{unmeasured_text(lacking)}; `spraylab detect RUN` names them")
    return found


def _verdicts_of(
    lab: LabInUse, tail: Tail, plan: Plan, epoch: int, listener: Listener, said: Mapping[Expectation, Said]
) -> tuple[Fields, ...]:
    """Wait for all expectations; for the one that does not decide only briefly, since it is only recorded."""
    found, decides = list[Fields](), said[Expectation(plan.scenario.judged_by)]
    judged = plan.scenario.expect.detection == "judged"
    until = time.monotonic() + (JUDGED_WITHIN_S if judged else RECORDED_WITHIN_S)
    settled_at: float | None = None
    look_at = 0.0
    while True:
        fresh = collect.of_epoch(tail.fresh(), epoch)
        found += fresh
        for line in lines_in(fresh):
            for each in said.values():
                each.take(line)
        now, lacking = time.monotonic(), len(decides.unmeasured)
        wanted = max(0, verdicts_wanted(plan, len(decides.chosen)) - lacking * plan.fabric.spec.spines)
        if settled_at is None and collect.is_settled(decides, wanted):
            settled_at = now
        if settled_at is not None and (
            now > settled_at + OTHER_WITHIN_S or all(collect.is_settled(each, wanted) for each in said.values())
        ):
            return tuple(found)
        if settled_at is None and now > min(look_at, until):
            look_at = now + LOOK_EVERY_S
            _require_running(lab.owner.ask(protocol.Status(), protocol.LabStatus))
        if settled_at is None and now > until:
            listener.note(f"only {len(decides.flows):,} of {count_text(wanted, 'verdict')} on paths came")
            return tuple(found)
        if settled_at is None:
            listener.waiting(f"verdicts: {len(decides.flows):,} of {wanted:,} on paths")
        time.sleep(POLL_S)


def _require_running(status: protocol.LabStatus) -> None:
    """Check the lab's processes. Raises `OwnerFailedError` when one has ended, or is stopped."""
    if idle := idle_processes(status):
        said = "what was said last, if anything, is in the run's folder, in logs/"
        full = full_disk_text(LabDir(status.lab).path)  # then there may be no log
        raise OwnerFailedError(f"{idle} while the run went on; {f'{full}; ' if full else ''}{said}")
