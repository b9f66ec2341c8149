"""Faults in the kernel: the rate they really have, the direction, the counters, and that nothing stays behind."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from scipy.stats import binom

from agent.wire.constants import Opcode
from faults.errors import MechanismError, NotInForceError
from faults.inject import Injector, injector_of
from faults.kinds import By, RandomDrop
from faults.mechanisms.base import Target
from faults.mechanisms.ebpf import PRIORITY, PacketMechanism
from faults.mechanisms.port_queue import PortQueues, QueueMechanism
from faults.quantities import parse_rate
from faults.records import Journal, outstanding
from testbed.errors import KernelError, MissingFeatureError
from testbed.kernel.bpf.programs import load
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.ports import qdisc
from testbed.kernel.ports.qdisc import Direction, detach_program
from testbed.kernel.ports.shaping import read_netem, remove_netem
from tests.support.netem import needs_netem
from tests.support.veth_pair import End, veth_pair
from tests.support.wire_frames import write_frame

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and eBPF")]

needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF")

PLAIN = b"\x02" * 12 + b"\x88\xb5" + bytes(100)  # local experimental EtherType, IEEE 802
WRITE = write_frame()
SACK = write_frame(opcode=Opcode.SACK)

BOTH = [pytest.param("ebpf", marks=needs_clang), pytest.param("netem", marks=needs_netem)]


def target(end: End, port: int = 0, link: str = "p0:leaf3>spine5") -> Target:
    return Target(link, end.name, end.path, f"wire{port}", end.ifindex(port))


def drop(text: str) -> RandomDrop:
    return RandomDrop(parse_rate(text))


@contextmanager
def faulty(tmp_path: Path, mechanism: str, rate: str) -> Iterator[tuple[End, End, Injector]]:
    """A pair whose end a drops on its way out."""
    with veth_pair() as (a, b), injector_of(tmp_path) as injector:
        (record,) = injector.set(target(a), drop(rate), mechanism, seed=7)
        assert record.mechanism == mechanism
        yield a, b, injector


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("rate", ["1%", "0.5%", "50%", "0.001%"])
def test_the_drop_rate_is_the_asked_one(tmp_path, mechanism, rate):
    sent = 20_000
    with faulty(tmp_path, mechanism, rate) as (a, b, injector):
        a.send(PLAIN for _ in range(sent))
        lost = sent - b.received()
        (cleared,) = injector.clear("p0:leaf3>spine5")
    assert (cleared.seen, cleared.dropped) == (sent, lost)
    low, high = binom.ppf([1e-6, 1 - 1e-6], sent, float(parse_rate(rate)))  # netem's chance takes no seed
    assert low <= lost <= high


@pytest.mark.parametrize("mechanism", BOTH)
def test_everything_means_everything(tmp_path, mechanism):
    with faulty(tmp_path, mechanism, "100%") as (a, b, injector):
        a.send(PLAIN for _ in range(5000))
        assert b.received() == 0
        (status,) = injector.status()
        assert (status.tally.seen, status.tally.dropped, status.in_force) == (5000, 5000, drop("100%"))


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_other_direction_is_untouched(tmp_path, mechanism):
    with faulty(tmp_path, mechanism, "100%") as (a, b, injector):
        b.send(PLAIN for _ in range(1000))
        assert a.received() == 1000
        assert injector.status()[0].tally.seen == 0


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_sender_is_not_told(tmp_path, mechanism):
    """The loss is silent: a packet socket gets no ENOBUFS, as it would from a full queue."""
    with faulty(tmp_path, mechanism, "100%") as (a, _, _):
        a.send(PLAIN for _ in range(100))


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("rate", ["1%", "0.001%", "0.0000001%", "33.3%", "100%"])
def test_what_is_in_force_is_read_back_and_exact_to_32_bits(tmp_path, mechanism, rate):
    with faulty(tmp_path, mechanism, rate) as (_, _, injector):
        (status,) = injector.status()
        assert isinstance(status.in_force, RandomDrop)
        assert abs(status.in_force.rate - parse_rate(rate)) <= Fraction(3, 2 * 2**32)


@pytest.mark.parametrize("mechanism", BOTH)
def test_zero_removes_and_leaves_the_kernel_as_it_was(tmp_path, mechanism):
    with veth_pair() as (a, b), injector_of(tmp_path) as injector:
        before = a.kernel_state(), b.kernel_state()
        injector.set(target(a), drop("100%"), mechanism)
        assert a.kernel_state() != before[0]
        assert b.kernel_state() == before[1]
        (cleared,) = injector.set(target(a), drop("0%"))
        assert (cleared.seen, cleared.dropped) == (0, 0)
        assert (a.kernel_state(), b.kernel_state()) == before
        a.send([PLAIN] * 100)
        assert b.received() == 100
        assert injector.set(target(a), drop("0%")) == ()


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_new_rate_replaces_the_old_one_and_counts_anew(tmp_path, mechanism):
    with faulty(tmp_path, mechanism, "100%") as (a, _, injector):
        a.send([PLAIN] * 10)
        cleared, again = injector.set(target(a), drop("0.5%"), mechanism)
        assert (cleared.dropped, again.requested) == (10, 0.005)
        (status,) = injector.status()
        assert (status.tally.seen, status.fault) == (0, drop("0.5%"))
        a.send([PLAIN] * 10)
        assert injector.status()[0].tally.seen == 10


@pytest.mark.parametrize("mechanism", BOTH)
def test_all_faults_end_with_the_injector(tmp_path, mechanism):
    with veth_pair(links=3) as (a, _):
        before = [a.kernel_state(port) for port in range(3)]
        with injector_of(tmp_path) as injector:
            for port in range(3):
                injector.set(target(a, port, f"p0:leaf3>spine{port}"), drop("1%"), mechanism)
            assert [status.link for status in injector.status()] == [f"p0:leaf3>spine{port}" for port in range(3)]
        assert [a.kernel_state(port) for port in range(3)] == before


@needs_clang
def test_dropped_writes_are_told_from_other_packets(tmp_path):
    with faulty(tmp_path, "ebpf", "100%") as (a, _, injector):
        a.send([WRITE] * 30 + [SACK] * 20 + [PLAIN] * 10 + [b"\x02" * 14])
        (cleared,) = injector.clear("p0:leaf3>spine5")
    assert (cleared.seen, cleared.dropped, cleared.dropped_writes) == (61, 61, 30)


@needs_clang
def test_clsact_and_programs_of_others_stay(tmp_path):
    with veth_pair() as (a, _), Rtnl.inside(a.name, a.path) as rtnl, injector_of(tmp_path) as injector:
        qdisc.ensure_clsact(rtnl, a.ifindex())
        before = a.kernel_state()
        injector.set(target(a), drop("1%"), "ebpf")
        injector.clear_all()
        assert a.kernel_state() == before


@needs_clang
def test_clsact_stays_while_another_program_came_to_use_it(tmp_path):
    with veth_pair(links=2) as (a, _), Rtnl.inside(a.name, a.path) as rtnl, injector_of(tmp_path) as injector:
        injector.set(target(a), drop("1%"), "ebpf")
        object_file = PacketMechanism(tmp_path)._object_file
        with other_program(rtnl, a.ifindex(), object_file):
            injector.clear_all()
            assert len(qdisc.attached_programs(rtnl, a.ifindex(), Direction.INGRESS)) == 1
            assert qdisc.attached_programs(rtnl, a.ifindex(), Direction.EGRESS) == ()


@contextmanager
def other_program(rtnl: Rtnl, ifindex: int, object_file: Path) -> Iterator[None]:
    with load(object_file) as loaded:
        qdisc.attach_program(rtnl, ifindex, Direction.INGRESS, 1, loaded.program("fault").fd, "other")
        yield


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_fault_that_someone_removed_is_reported_as_not_in_force(tmp_path, mechanism):
    with faulty(tmp_path, mechanism, "1%") as (a, _, injector), Rtnl.inside(a.name, a.path) as rtnl:
        if mechanism == "ebpf":
            detach_program(rtnl, a.ifindex(), Direction.EGRESS, PRIORITY)
        else:
            remove_netem(rtnl, a.ifindex())
        assert injector.status()[0].in_force is None


@needs_clang
def test_what_the_kernel_does_not_hold_is_an_error_and_leaves_nothing(tmp_path):
    class Liar(PacketMechanism):
        def apply(self, target, fault, seed):
            return super().apply(target, RandomDrop(fault.rate / 2), seed)

    with veth_pair() as (a, _), Injector(Journal(tmp_path / "j"), [Liar(tmp_path)]) as injector:
        before = a.kernel_state()
        with pytest.raises(NotInForceError, match=r"asked for drop 1%, the kernel holds drop 0\.49"):
            injector.set(target(a), drop("1%"))
        assert a.kernel_state() == before
        assert injector.status() == ()
        assert outstanding(tmp_path / "j") == ()


@needs_clang
def test_without_netem_the_first_mechanism_that_works_is_taken(tmp_path, monkeypatch):
    class Missing(QueueMechanism):
        def check(self):
            raise MissingFeatureError("netem", "this kernel needs CONFIG_NET_SCH_NETEM (module sch_netem)")

    mechanisms = (Missing(By.NETEM, PortQueues()), PacketMechanism(tmp_path))
    with veth_pair() as (a, _), Injector(Journal(tmp_path / "j"), mechanisms) as injector:
        (record,) = injector.set(target(a), drop("1%"))
        assert record.mechanism == "ebpf"
        before = a.kernel_state()
        with pytest.raises(MechanismError, match=r"netem is missing; choose ebpf, or: .*CONFIG_NET_SCH_NETEM"):
            injector.set(target(a), drop("2%"), "netem")
        assert (a.kernel_state(), len(injector.status())) == (before, 1)
        with pytest.raises(MechanismError, match="choose netem or ebpf"):
            injector.set(target(a), drop("1%"), "magic")


@needs_clang
def test_a_port_that_does_not_exist_is_an_error_and_journalled_as_cleared(tmp_path):
    with veth_pair() as (a, _), injector_of(tmp_path) as injector:
        with pytest.raises(KernelError):
            injector.set(target(a, port=7), drop("1%"), "ebpf")
        assert injector.status() == ()
    assert outstanding(tmp_path / "faults.jsonl") == ()


@needs_netem
def test_netem_is_preferred_where_the_kernel_has_it(tmp_path):
    with veth_pair() as (a, _), injector_of(tmp_path) as injector:
        (record,) = injector.set(target(a), drop("1%"))
        assert record.mechanism == "netem"
        with Rtnl.inside(a.name, a.path) as rtnl:
            found = read_netem(rtnl, a.ifindex())
        assert found is not None
        assert found[0].loss_u32 == drop("1%").threshold - 1


@needs_clang
def test_faults_that_were_armed_together_come_and_go_in_one_step_and_hit_other_packets_each_time(tmp_path):
    names, fault = ("p0:leaf3>spine5", "p0:leaf3>spine6"), drop("50%")
    keys = [(name, "drop") for name in names]
    with veth_pair(2) as (a, b), injector_of(tmp_path) as injector:
        before = [a.kernel_state(port) for port in range(2)]
        targets = [target(a, port, name) for port, name in enumerate(names)]
        assert injector.arm(targets, fault, "ebpf", [7, 8]) == ()
        assert outstanding(tmp_path / "faults.jsonl") != ()
        assert injector.status() == ()
        lost = []
        for seeds in ([17, 18], [27, 28]):
            assert all(sent_through(a, b, port) == 200 for port in range(2)), "armed is not in force"
            records = injector.fire(keys)
            assert len({record.mono_ns for record in records}) == 1
            assert [status.in_force is not None for status in injector.status()] == [True, True]
            arrived = [sent_through(a, b, port) for port in range(2)]
            gone = injector.rest(keys, seeds)
            assert len({record.mono_ns for record in gone}) == 1
            assert [(record.seen, record.dropped) for record in gone] == [(200, 200 - each) for each in arrived]
            assert all(50 < each < 150 for each in arrived)
            lost.append([record.fault_seed for record in records])
        assert lost == [[7, 8], [17, 18]]
        injector.fire(keys)
        (one,) = injector.clear(names[0])
        assert one.link == names[0]
        assert [status.link for status in injector.status()] == [names[1]], "the other goes on"
        assert len(injector.clear_all()) == 1
        assert injector.placed() == {}
        assert [a.kernel_state(port) for port in range(2)] == before
        assert outstanding(tmp_path / "faults.jsonl") == ()


def sent_through(a: End, b: End, port: int) -> int:
    """Of 200 packets, how many arrive."""
    before = b.received(port)
    a.send((PLAIN for _ in range(200)), port)
    return b.received(port) - before
