"""The injector over a made-up kernel: order of acts, choice of mechanism, what an error leaves."""

import json
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from faults.errors import MechanismError, NotInForceError
from faults.inject import Injector
from faults.kinds import BlackHole, By, Delay, RandomDrop
from faults.mechanisms.base import Tally, Target, target_of
from faults.quantities import parse_rate
from faults.records import FaultClear, FaultSet, Journal, outstanding
from testbed.errors import KernelError, MissingFeatureError
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link

UP, OTHER = (
    Target(link, "p0-leaf3", Path("/run/netns/spraylab-x-p0-leaf3"), interface, ifindex)
    for link, interface, ifindex in (("p0:leaf3>spine5", "spine5", 105), ("p0:leaf3>spine6", "spine6", 106))
)
ONE = RandomDrop(parse_rate("1%"))


class FakeKernel:
    """A mechanism whose faults are entries of a dict; `acts` tells what was done in which order."""

    def __init__(self, name=By.NETEM, missing=False, holds=None):
        self.name, self._missing, self._holds = name, missing, holds
        self.taken = False
        self.acts, self.rates = [], {}
        self.fail_revert = False

    def check(self):
        self.acts.append(("check", ""))
        if self._missing:
            raise MissingFeatureError(self.name.value, f"enable CONFIG_{self.name.upper()}")

    def apply(self, target, fault, seed):
        self.acts.append(("apply", target.link))
        if self.taken:
            raise MechanismError(self.name, "taken", "clear it")
        self.rates[target.link, type(fault)] = self._holds or fault
        return FakeFault(self, target.link, type(fault))


class FakeFault:
    def __init__(self, kernel, link, kind):
        self._kernel, self._key = kernel, (link, kind)

    def in_force(self):
        return self._kernel.rates.get(self._key)

    def is_seeded(self):
        return True

    def tally(self):
        return Tally(1000, 10, 9, 12)

    def revert(self):
        self._kernel.acts.append(("revert", self._key[0]))
        if self._kernel.fail_revert:
            raise KernelError("p0-leaf3", "detach", 16)
        self._kernel.rates.pop(self._key, None)
        return Tally(1000, 10, 9, 12)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "faults.jsonl")


def acts(journal):
    return [json.loads(line)["act"] for line in journal.path.read_text().splitlines()]


def test_set_then_clear_gives_both_records(journal):
    injector = Injector(journal, [FakeKernel()])
    (made,) = injector.set(UP, ONE)
    assert isinstance(made, FaultSet)
    assert (made.link, made.node, made.interface, made.requested, made.in_force) == (
        "p0:leaf3>spine5",
        "p0-leaf3",
        "spine5",
        0.01,
        0.01,
    )
    (cleared,) = injector.clear(UP.link)
    assert isinstance(cleared, FaultClear)
    assert (cleared.seen, cleared.dropped, cleared.dropped_writes, cleared.hit) == (1000, 10, 9, 12)
    assert made.mono_ns == cleared.set_mono_ns <= cleared.mono_ns
    assert acts(journal) == ["applying", "in-force", "cleared"]
    assert msgspec.json.decode(msgspec.json.encode(made))["event"] == "FAULT_SET"
    assert msgspec.json.decode(msgspec.json.encode(cleared))["event"] == "FAULT_CLEAR"


def test_the_journal_is_written_before_the_kernel_is_touched(journal):
    class Crash(FakeKernel):
        def apply(self, target, fault, seed):
            assert acts(journal) == ["applying"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Injector(journal, [Crash()]).set(UP, ONE)


def test_setting_again_replaces(journal):
    kernel = FakeKernel()
    injector = Injector(journal, [kernel])
    injector.set(UP, ONE)
    cleared, made = injector.set(UP, RandomDrop(Fraction(1, 200)))
    assert (cleared.dropped, made.requested) == (10, 0.005)
    assert [act for act, _ in kernel.acts] == ["check", "apply", "revert", "apply"]


def test_zero_removes_and_zero_on_nothing_does_nothing(journal):
    kernel = FakeKernel()
    injector = Injector(journal, [kernel])
    assert injector.set(UP, RandomDrop(Fraction(0))) == ()
    injector.set(UP, ONE)
    (cleared,) = injector.set(UP, RandomDrop(Fraction(0)))
    assert cleared.link == UP.link
    assert kernel.rates == {}
    assert injector.status() == ()


def test_what_is_missing_is_asked_for_only_once(journal):
    absent, present = FakeKernel(By.NETEM, missing=True), FakeKernel(By.EBPF)
    injector = Injector(journal, [absent, present])
    for target in (UP, OTHER):
        (made,) = injector.set(target, ONE)
        assert made.mechanism == "ebpf"
    assert absent.acts == [("check", "")]


def test_a_mechanism_asked_for_and_missing_is_an_error_with_advice(journal):
    injector = Injector(journal, [FakeKernel(By.NETEM, missing=True), FakeKernel(By.EBPF)])
    injector.set(UP, ONE)
    with pytest.raises(MechanismError) as caught:
        injector.set(OTHER, ONE, "netem")
    assert str(caught.value) == "fault mechanism netem: netem is missing; choose ebpf, or: enable CONFIG_NETEM"
    with pytest.raises(MechanismError, match="choose netem or ebpf"):
        injector.set(OTHER, ONE, "magic")
    assert [status.link for status in injector.status()] == [UP.link]


def test_the_only_mechanism_of_a_fault_is_told_as_what_is_missing(journal):
    injector = Injector(journal, [FakeKernel(By.NETEM, missing=True), FakeKernel(By.EBPF)])
    with pytest.raises(MechanismError) as caught:
        injector.set(UP, Delay(10_000_000))
    assert str(caught.value) == "fault mechanism netem: netem is missing; enable CONFIG_NETEM"


def test_without_any_mechanism_every_reason_is_told(journal):
    injector = Injector(journal, [FakeKernel(By.NETEM, missing=True), FakeKernel(By.EBPF, missing=True)])
    with pytest.raises(MechanismError) as caught:
        injector.set(UP, ONE)
    assert str(caught.value) == (
        "fault mechanism netem and ebpf: none can be used here; "
        "netem: netem is missing: enable CONFIG_NETEM; ebpf: ebpf is missing: enable CONFIG_EBPF"
    )
    assert outstanding(journal.path) == ()


def test_a_rate_the_kernel_does_not_hold_is_taken_back(journal):
    kernel = FakeKernel(holds=RandomDrop(Fraction(1, 50)))
    injector = Injector(journal, [kernel])
    with pytest.raises(NotInForceError) as caught:
        injector.set(UP, ONE)
    assert str(caught.value) == "p0:leaf3>spine5: asked for drop 1%, the kernel holds drop 2%"
    assert kernel.rates == {}
    assert injector.status() == ()
    assert outstanding(journal.path) == ()


def test_everything_is_cleared_at_the_end_though_one_fails(journal):
    good, bad = FakeKernel(By.NETEM), FakeKernel(By.EBPF)
    bad.fail_revert = True
    injector = Injector(journal, [good, bad])
    injector.set(UP, ONE, "ebpf")
    injector.set(OTHER, ONE, "netem")
    with pytest.raises(KernelError):
        injector.__exit__(None, None, None)
    assert good.rates == {}
    assert [each.link for each in outstanding(journal.path)] == [UP.link]
    bad.fail_revert = False
    assert [record.link for record in injector.clear_all()] == [UP.link]


def test_faults_of_one_link_stand_side_by_side_and_are_cleared_by_name(journal):
    injector = Injector(journal, [FakeKernel()])
    injector.set(UP, ONE)
    injector.set(UP, Delay(10))
    assert [status.name for status in injector.status()] == ["drop", "delay"]
    assert [record.kind for record in injector.clear(UP.link, "delay")] == ["delay"]
    assert injector.clear(UP.link, "delay") == ()
    assert [status.name for status in injector.status()] == ["drop"]


def test_a_fault_that_cannot_be_made_changes_nothing(journal):
    injector = Injector(journal, [FakeKernel(By.NETEM, missing=True), FakeKernel(By.EBPF)])
    injector.set(UP, ONE)
    for fault, mechanism in ((ONE, "netem"), (Delay(10), None), (BlackHole(1), "netem")):
        with pytest.raises(MechanismError):
            injector.set(UP, fault, mechanism)
    assert [status.name for status in injector.status()] == ["drop"]
    assert acts(journal) == ["applying", "in-force"]


def test_a_place_that_is_taken_is_left_to_the_next_mechanism(journal):
    full, free = FakeKernel(By.NETEM), FakeKernel(By.EBPF)
    full.taken = True
    (made,) = Injector(journal, [full, free]).set(UP, ONE)
    assert made.mechanism == "ebpf"
    with pytest.raises(MechanismError, match="taken"):
        Injector(journal, [full]).set(UP, ONE)


def test_the_target_of_a_link_is_its_sending_port():
    fabric = Fabric.of(FabricSpec(planes=1, leaves=8, spines=8))
    (link,) = parse_link("p0:spine5>leaf3", fabric)
    target = target_of("lab", fabric, link)
    assert (target.link, target.node, target.interface) == ("p0:spine5>leaf3", "p0-spine5", "leaf3")
    assert target.ifindex == ifindex_of(fabric, link.egress)
    assert target.namespace == Path("/run/netns/spraylab-lab-p0-spine5")
