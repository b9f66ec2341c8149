"""The faults of a lab over a made-up kernel: what a refused or failed order leaves in force, and what it tells."""

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from faults.errors import MechanismError, TargetError
from faults.inject import Injector
from faults.kinds import By, Fault, RandomDrop
from faults.mechanisms.base import Applied, Tally, Target
from faults.records import Journal
from faults.timing import Event
from results.files.event_log import read_records
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.injections import Injections
from scenarios.lab.protocol import FaultSet
from testbed.errors import KernelError, MissingFeatureError
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import Placed
from tests.support.run_schemas import problems_in

UP, BACK = "p0:leaf0>spine0", "p0:spine0>leaf0"
BOTH = "p0:leaf0-spine0"


class Kernel:
    """A mechanism whose faults are entries of a dict."""

    def __init__(self, name: By, missing: bool = False) -> None:
        self.name, self._missing = name, missing
        self.held: dict[tuple[str, str], Fault] = {}
        self.refuses: set[str] = set()

    def check(self) -> None:
        if self._missing:
            raise MissingFeatureError(self.name.value, "enable it")

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        if target.link in self.refuses:
            raise KernelError(target.node, "attach", 16)
        key = target.link, fault.name
        self.held[key] = fault
        return Held(self.held, key)


class Held:
    def __init__(self, held: dict[tuple[str, str], Fault], key: tuple[str, str]) -> None:
        self._held, self._key = held, key

    def in_force(self) -> Fault | None:
        fault = self._held.get(self._key)
        return RandomDrop(fault.rate + Fraction(1, 2**33), fault.only) if isinstance(fault, RandomDrop) else fault

    def is_seeded(self) -> bool:
        return True

    def placed(self) -> Placed:
        return Placed()

    def tally(self) -> Tally:
        return Tally(1000, 10, 9)

    def revert(self) -> Tally:
        self._held.pop(self._key, None)
        return Tally(1000, 10, 9)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Injections, Kernel, LabDir]:
    monkeypatch.setattr(LabDir, "path", tmp_path)
    labdir, kernel = LabDir("unit"), Kernel(By.EBPF)
    injector = Injector(Journal(tmp_path / "faults.jsonl"), [Kernel(By.NETEM, missing=True), kernel])
    return Injections(labdir, Fabric.of(FabricSpec(planes=1, leaves=2, spines=2)), injector), kernel, labdir


def order(target: str, rate: str, mechanism: str = "auto", **words: str | bool) -> FaultSet:
    return FaultSet(target, {"drop": rate, **words}, mechanism, seed=1)


def test_a_refused_order_changes_nothing(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, _, labdir = lab
    injections.set(order(UP, "5%"))
    for refused in (order(BOTH, "1%", "netem"), order(BOTH, "101%"), order("p0:leaf0-spine9", "1%")):
        with pytest.raises(Exception, match=r"netem|more than everything|no such link"):
            injections.set(refused)
        assert [(state.link, state.requested) for state in injections.states()] == [(UP, 0.05)]
    assert [record["event"] for record in read_records(labdir.truth)] == ["FAULT_SET"]


@pytest.mark.parametrize("fails", [UP, BACK])
def test_what_an_order_replaced_stands_again_when_it_fails_midway(
    lab: tuple[Injections, Kernel, LabDir], fails: str
) -> None:
    injections, kernel, labdir = lab
    injections.set(order(UP, "5%"))
    seed = injections.states()[0].seed
    once = refusing_once(kernel, fails)
    with pytest.raises(KernelError):
        injections.set(order(BOTH, "1%"))
    assert once()
    (state,) = injections.states()
    assert (state.link, state.requested, state.by, state.seed) == (UP, 0.05, "hand", seed)
    assert list(kernel.held) == [(UP, "drop")]
    assert injections.failed() == ()
    last = [record for record in read_records(labdir.truth) if record["link"] == UP][-1]
    assert (last["event"], last["requested"]) == ("FAULT_SET", 0.05)


def refusing_once(kernel: Kernel, link: str) -> Callable[[], bool]:
    real, refused = kernel.apply, []

    def apply(target: Target, fault: Fault, seed: int) -> Applied:
        if target.link == link and not refused:
            refused.append(link)
            raise KernelError(target.node, "attach", 16)
        return real(target, fault, seed)

    kernel.apply = apply  # type: ignore[method-assign]
    return lambda: bool(refused)


def test_every_window_of_a_timeline_drops_other_packets_and_an_order_repeats_them(
    lab: tuple[Injections, Kernel, LabDir],
) -> None:
    injections, _, labdir = lab
    first, again = (seeds_of_windows(injections, labdir) for _ in range(2))
    both = min(len(first), len(again))  # a machine that stands still leaves edges out
    assert first[:both] == again[:both]
    assert len({*first, *again}) == max(len(first), len(again)) > 1


def seeds_of_windows(injections: Injections, labdir: LabDir) -> list[int]:
    """Of a fault that is set three times, a moment each."""
    before = len(list(read_records(labdir.truth))) if labdir.truth.exists() else 0
    words = {"drop": "5%", "for": "20ms", "every": "50ms", "times": "3"}
    injections.set(FaultSet(UP, words, seed=1))
    until = time.monotonic() + 30
    while injections.planned() and time.monotonic() < until:
        time.sleep(injections.due_in_s() or 0)
        injections.run()
    told = list(read_records(labdir.truth))[before:]
    return [record["fault_seed"] for record in told if record["event"] == "FAULT_SET"]


def test_a_timeline_goes_on_when_the_order_that_replaces_it_fails(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, _ = lab
    injections.set(order(UP, "5%", at="1min"))
    kernel.refuses = {UP}
    with pytest.raises(KernelError):
        injections.set(order(UP, "1%"))
    (plan,) = injections.planned()
    assert (plan.link, plan.fault, plan.requested_text, plan.act, plan.event) == (UP, "drop", "5%", "set", None)
    assert plan.in_s is not None
    assert 50 < plan.in_s <= 60


def test_what_cannot_be_put_back_is_told(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, _ = lab
    injections.set(order(UP, "5%"))
    kernel.refuses = {UP}
    with pytest.raises(KernelError):
        injections.set(order(UP, "1%"))
    assert injections.states() == ()
    assert "put back p0:leaf0>spine0 drop" in str(injections.failed()[0])
    injections.clear(UP)
    assert injections.failed() == (), "told once it is cleared"


def test_an_order_that_nobody_heard_of_is_taken_back_and_what_stood_before_stands_again(
    lab: tuple[Injections, Kernel, LabDir],
) -> None:
    injections, kernel, _ = lab
    injections.set(order(UP, "5%"))
    injections.set(order("p0:leaf1>spine0", "1%", at="1min"))
    injections.set(FaultSet("p0:leaf*-spine*", {"drop": "2%"}, seed=1))
    assert len(kernel.held) == 8
    injections.take_back_last()
    assert [(state.link, state.requested) for state in injections.states()] == [(UP, 0.05)]
    assert [(plan.link, plan.act) for plan in injections.planned()] == [("p0:leaf1>spine0", "set")]
    injections.take_back_last()
    assert len(kernel.held) == 1, "an order is taken back once"


def test_what_a_client_has_leased_goes_with_it_and_nothing_else(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, labdir = lab
    injections.set(order(UP, "5%"))
    injections.set(order(BACK, "1%"), client=7)
    injections.set(order(UP, "2%", only_control=True), client=7)
    injections.set(order("p0:leaf1>spine0", "3%", at="1min"), client=7)
    injections.set(order("p0:leaf1>spine1", "3%"), client=8)
    injections.left(9)
    assert len(injections.states()) == 4
    injections.left(7)
    assert sorted(kernel.held) == [(UP, "drop"), ("p0:leaf1>spine1", "drop")]
    assert injections.planned() == ()
    injections.left(7)
    (mine,) = injections.clear(None, client=8).faults
    assert mine.link == "p0:leaf1>spine1"
    assert [state.link for state in injections.states()] == [UP]
    records = list(read_records(labdir.truth))
    cleared = [record["link"] for record in records if record["event"] == "FAULT_CLEAR"]
    assert sorted(cleared) == sorted([BACK, UP, "p0:leaf1>spine1"])
    assert problems_in("truth.jsonl", records) == []


def test_an_order_does_not_answer_for_what_falls_due_beside_it(lab: tuple[Injections, Kernel, LabDir]) -> None:
    """Another timeline's act, though it fails, neither fails this order nor is told as its own."""
    injections, kernel, _ = lab
    injections.set(order(BACK, "1%", at="1ns"))
    kernel.refuses = {BACK}
    told = injections.set(order(UP, "2%", **{"for": "1min"}))
    assert [(state.link, state.requested) for state in told.faults] == [(UP, 0.02)]
    assert [(failed.link, failed.act) for failed in injections.failed()] == [(BACK, "set")]


def test_a_timeline_that_cannot_be_kept_is_told_and_goes_on_from_now(
    lab: tuple[Injections, Kernel, LabDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that was busy for a second does not run after a hundred edges."""
    injections, _, labdir = lab
    began = time.monotonic_ns()
    injections.set(order(UP, "5%", every="20ms", **{"for": "10ms"}))
    monkeypatch.setattr("scenarios.lab.owner.injections.time.monotonic_ns", lambda: began + 10**9)
    injections.run()
    assert len(list(read_records(labdir.truth))) <= 4
    (failed,) = injections.failed()
    assert "too late for" in failed.error
    assert len(injections.planned()) == 1
    injections.clear(BACK)
    assert injections.failed() == (failed,)
    injections.clear(UP, "drop")
    assert injections.failed() == ()


def test_what_failed_is_told_until_it_is_cleared_also_when_its_timeline_has_ended(
    lab: tuple[Injections, Kernel, LabDir],
) -> None:
    injections, kernel, _ = lab
    kernel.refuses = {UP}
    injections.set(order(UP, "5%", at="1ns", **{"for": "1ms"}), client=3)
    time.sleep(0.002)
    injections.run()
    injections.run()
    assert injections.planned() == ()
    assert len(injections.failed(3)) == 1
    injections.clear(None, client=4)
    assert len(injections.failed()) == 1
    injections.left(3)
    assert injections.failed() == ()


def test_what_was_chosen_by_chance_is_cleared_by_its_name(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, _ = lab
    injections.set(order("any fabric direction", "5%"))
    ((link, _),) = kernel.held
    with pytest.raises(TargetError, match="would be chosen again"):
        injections.clear("any fabric direction")
    assert len(kernel.held) == 1
    injections.clear(link)
    assert kernel.held == {}


def test_a_line_of_a_detector_that_cannot_be_read_harms_nobody(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, labdir = lab
    injections.set(order(UP, "5%", until="detected"))
    said = (
        '{"v":1,"event":"LOCALIZE","links":["p0:leaf0>spine0"],"mono_ns":1,"ts":"t",'
        '"node":"monitor","epoch":1,"state":"named","candidates":[],"pending":0}'
    )
    labdir.detect.write_text(f"garbage\n{said}\n")
    injections.run()
    injections.run()
    assert kernel.held == {}, "what stands behind the bad line counts"


def test_what_was_detected_before_an_order_does_not_end_it(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, labdir = lab
    said = (
        '{"v":1,"event":"LOCALIZE","links":["p0:leaf0>spine0"],"mono_ns":1,"ts":"t",'
        '"node":"monitor","epoch":1,"state":"named","candidates":[],"pending":0}\n'
    )
    labdir.detect.write_text(said)
    injections.set(order(UP, "5%", until="detected"))
    injections.run()
    assert list(kernel.held) == [(UP, "drop")]
    with labdir.detect.open("a") as log:
        log.write(said)
    injections.run()
    assert kernel.held == {}


def test_replacing_and_zero_tell_the_last_counters_of_what_went(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, _, _ = lab
    injections.set(order(UP, "5%"))
    told = injections.set(order(UP, "1%"))
    assert [(state.in_force_text, state.dropped) for state in told.faults] == [("removed", 10), ("1%", 10)]
    (gone,) = injections.set(order(UP, "0%")).faults
    assert (gone.requested, gone.in_force, gone.in_force_text) == (0.01, None, "removed")


def test_a_mechanism_that_cannot_make_the_kind_is_refused(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, _, _ = lab
    injections.set(order(UP, "5%"))
    with pytest.raises(MechanismError):
        injections.set(FaultSet(UP, {"delay": "10ms"}, "ebpf"))
    assert len(injections.states()) == 1


def test_an_order_is_told_alone_and_the_others_on_request(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, _, _ = lab
    injections.set(order(BACK, "1%", at="1min"))
    told = injections.set(order(UP, "2%", **{"for": "1min"}))
    assert [state.link for state in told.faults] == [plan.link for plan in told.planned] == [UP]
    assert {plan.link for plan in injections.planned()} == {UP, BACK}


def test_ports_that_take_long_to_break_are_mended_together(
    lab: tuple[Injections, Kernel, LabDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`for` counts from when the last one is in force: none is broken for less. Others meanwhile keep their time."""
    injections, kernel, _ = lab
    now_ns, apply = [10**18], kernel.apply

    def takes_long(target: Target, fault: Fault, seed: int) -> Applied:
        now_ns[0] += 3 * 10**8
        return apply(target, fault, seed)

    monkeypatch.setattr("scenarios.lab.owner.injections.time.monotonic_ns", lambda: now_ns[0])
    kernel.apply = takes_long  # type: ignore[method-assign]
    injections.set(order(BACK, "2%", **{"for": "500ms"}))
    told = injections.set(order("p0:leaf*>spine*", "1%", **{"for": "1s"}))
    assert len(kernel.held) == 4
    assert (BACK, "drop") not in kernel.held
    assert {plan.in_s for plan in told.planned} == {1.0}


def test_a_timeline_that_only_waited_is_told_when_it_goes(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, _, _ = lab
    injections.set(order(BOTH, "1%", at="1min"))
    (replaced,) = injections.set(order(UP, "0%")).faults
    assert (replaced.link, replaced.in_force_text, replaced.mechanism) == (UP, "removed", "")
    assert [state.link for state in injections.clear(BOTH).faults] == [BACK]
    assert injections.clear(BOTH).faults == ()


def test_clearing_tells_what_failed_there_and_only_there(lab: tuple[Injections, Kernel, LabDir]) -> None:
    injections, kernel, _ = lab
    kernel.refuses = {UP, BACK}
    injections.set(order(BOTH, "5%", at="1ns", **{"for": "1ms"}))
    time.sleep(0.002)
    injections.run()
    assert [failed.link for failed in injections.clear(UP).failed] == [UP]
    assert [failed.link for failed in injections.failed()] == [BACK]


class Gate:
    """One switch of several faults, and how often it was written."""

    def __init__(self) -> None:
        self.on, self.writes = False, 0


class Gated(Held):
    def __init__(self, held: dict[tuple[str, str], Fault], key: tuple[str, str], gate: Gate) -> None:
        super().__init__(held, key)
        self._gate = gate

    def held(self) -> Fault | None:
        return super().in_force()

    def in_force(self) -> Fault | None:
        return self.held() if self._gate.on else None

    def switch(self, on: bool) -> None:
        self._gate.on, self._gate.writes = on, self._gate.writes + 1

    def is_on(self) -> bool:
        return self._gate.on

    def prepare(self, seed: int) -> None:
        assert not self._gate.on


class ArmingKernel(Kernel):
    """A mechanism that can bring faults on many ports into force in one step."""

    def __init__(self) -> None:
        super().__init__(By.EBPF)
        self.gates: list[Gate] = []

    def arm(self, targets: Sequence[Target], fault: Fault, seeds: Sequence[int]) -> list[Gated]:
        self.gates.append(Gate())
        keys = [(target.link, fault.name) for target in targets]
        self.held |= dict.fromkeys(keys, fault)
        return [Gated(self.held, key, self.gates[-1]) for key in keys]


@pytest.fixture
def arming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Injections, ArmingKernel, LabDir]:
    monkeypatch.setattr(LabDir, "path", tmp_path)
    labdir, kernel = LabDir("unit"), ArmingKernel()
    injector = Injector(Journal(tmp_path / "faults.jsonl"), [kernel])
    return Injections(labdir, Fabric.of(FabricSpec(planes=1, leaves=2, spines=2)), injector), kernel, labdir


ALL = "p0:leaf*-spine*"


def follow(injections: Injections, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(min(0.01, injections.due_in_s() or 0))
        injections.run()
    assert until()


def edges(labdir: LabDir, event: str) -> list[int]:
    return [record["mono_ns"] for record in read_records(labdir.truth) if record["event"] == event]


def test_a_timeline_on_many_ports_counts_from_the_first_packet_and_each_edge_is_one_step(
    arming: tuple[Injections, ArmingKernel, LabDir],
) -> None:
    injections, kernel, labdir = arming
    injections.set(FaultSet(ALL, {"drop": "5%", "at": "0ms", "for": "50ms", "on": "traffic"}, seed=1))
    assert (len(kernel.held), len(kernel.gates), kernel.gates[0].writes) == (8, 1, 0), "ready, not in force"
    assert injections.states() == ()
    injections.coming(Event.TRAFFIC)
    assert kernel.gates[0].on, "in force before the first packet"
    assert len(injections.states()) == 8
    time.sleep(0.1)
    injections.run()
    assert kernel.gates[0].on, "no clock runs before the first packet"
    first_ns = time.monotonic_ns()
    injections.happened(Event.TRAFFIC, first_ns)
    follow(injections, lambda: not kernel.gates[0].on)
    assert kernel.held, "taking programs off ports takes its time, one by one"
    injections.clear(None)
    assert not kernel.held
    assert kernel.gates[0].writes == 2, "one write an edge, whatever the number of ports"
    sets, clears = edges(labdir, "FAULT_SET"), edges(labdir, "FAULT_CLEAR")
    assert (len(sets), len(set(sets)), len(clears), len(set(clears))) == (8, 1, 8, 1)
    assert sets[0] < first_ns
    assert clears[0] >= first_ns + 50_000_000
    assert problems_in("truth.jsonl", list(read_records(labdir.truth))) == []
    assert injections.placed() == {}


def test_windows_by_hand_begin_when_all_ports_do_and_one_port_can_be_cleared_alone(
    arming: tuple[Injections, ArmingKernel, LabDir],
) -> None:
    injections, kernel, labdir = arming
    told = injections.set(FaultSet(ALL, {"drop": "5%", "for": "20ms", "every": "40ms"}, seed=1))
    assert [state.in_force is not None for state in told.faults] == [True] * 8
    follow(injections, lambda: len(edges(labdir, "FAULT_SET")) >= 24)
    seeds = [record["fault_seed"] for record in read_records(labdir.truth) if record["event"] == "FAULT_SET"]
    assert len(set(seeds)) == len(seeds), "each time and port loses other packets"
    follow(injections, lambda: kernel.gates[0].on)
    (state,) = injections.clear(UP).faults
    assert state.link == UP
    assert len(kernel.held) == 7
    seen = len(edges(labdir, "FAULT_SET"))
    follow(injections, lambda: len(edges(labdir, "FAULT_SET")) > seen)
    later = list(read_records(labdir.truth))[-7:]
    assert UP not in {record["link"] for record in later}
    injections.clear(None)
    assert kernel.held == {}
    assert injections.failed() == ()


def test_an_order_taken_back_leaves_nothing_armed_and_what_replaces_it_stands_alone(
    arming: tuple[Injections, ArmingKernel, LabDir],
) -> None:
    injections, kernel, _ = arming
    injections.set(order(UP, "9%"))
    injections.set(FaultSet(ALL, {"drop": "5%", "at": "30min"}, seed=1))
    injections.take_back_last()
    assert {link: str(fault.rate) for (link, _), fault in kernel.held.items() if isinstance(fault, RandomDrop)} == {
        UP: "9/100"
    }
    assert injections.planned() == ()
    injections.set(FaultSet(ALL, {"drop": "5%", "for": "30min"}, seed=1))
    injections.set(order(UP, "1%"))
    assert {(state.link, state.requested) for state in injections.states()} >= {(UP, 0.01), (BACK, 0.05)}
    injections.set(order(ALL, "0%"))
    assert kernel.held == {}
