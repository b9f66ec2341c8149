"""Programs on a port's way in without a qdisc: what the kernel lists, and what a packet meets."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenarios.lab.lab_dir import LabDir
from scenarios.lab.start import deploy
from testbed.emulation.network import FabricNet
from testbed.errors import KernelError
from testbed.kernel.bpf import tcx
from testbed.kernel.bpf.tcx import load_smallest_program, program_id
from testbed.kernel.features import probe_features
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import inside
from testbed.kernel.ports import qdisc
from testbed.kernel.ports.qdisc import Direction
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import FabricSpec
from testbed.model.node_names import NodeId, PortId
from tests.support.namespaces import built, needs_root
from tests.support.veth_pair import End, veth_pair

pytestmark = [pytest.mark.root, needs_root]


@pytest.fixture
def programs() -> Iterator[tuple[int, int]]:
    descriptors = load_smallest_program(), load_smallest_program()
    yield descriptors
    for each in descriptors:
        os.close(each)


@pytest.fixture
def end() -> Iterator[End]:
    with veth_pair(links=1) as (near, _):
        yield near


@pytest.fixture(scope="module")
def needs_tcx() -> None:
    if "TCX" not in {feature.name for feature in probe_features() if feature.present}:
        pytest.skip("this kernel has no TCX (Linux 6.6)")


@pytest.fixture
def port(end, needs_tcx) -> int:
    """A port of a kernel that knows TCX; the test's thread is not in its namespace."""
    return end.ifindex()


def test_programs_stand_in_the_order_they_came(end, port, programs):
    first, second = programs
    with inside(end.path):
        assert tcx.attached(end.name, port) == ()
        assert tcx.attach(end.name, port, first)
        assert tcx.attach(end.name, port, second)
        assert tcx.attached(end.name, port) == (program_id(first), program_id(second))


def test_a_program_stays_without_its_descriptor_and_makes_no_qdisc(end, port):
    descriptor = load_smallest_program()
    number = program_id(descriptor)
    with inside(end.path), Rtnl.here(end.name) as rtnl:
        tcx.attach(end.name, port, descriptor)
        os.close(descriptor)
        assert tcx.attached(end.name, port) == (number,)
        assert qdisc.qdisc_kinds(rtnl, port) == ("noqueue",)


def test_clsact_beside_it_comes_and_goes_alone(end, port, programs):
    with inside(end.path), Rtnl.here(end.name) as rtnl:
        tcx.attach(end.name, port, programs[0])
        qdisc.attach_program(rtnl, port, Direction.EGRESS, 1, programs[1], "beside")
        qdisc.remove_clsact(rtnl, port)
        assert tcx.attached(end.name, port) == (program_id(programs[0]),)


def test_a_program_that_is_there_or_a_port_that_is_not_is_an_error_of_its_node(end, port, programs):
    with inside(end.path):
        tcx.attach("p0-leaf3", port, programs[0])
        with pytest.raises(KernelError, match=f"p0-leaf3: attach a program to port {port} by TCX: EEXIST"):
            tcx.attach("p0-leaf3", port, programs[0])
        with pytest.raises(KernelError, match="p0-leaf3: attach a program to port 4242 by TCX: ENODEV"):
            tcx.attach("p0-leaf3", 4242, programs[0])
        with pytest.raises(KernelError, match="p0-leaf3: read programs of port 4242: ENODEV"):
            tcx.attached("p0-leaf3", 4242)


def test_a_kernel_without_it_is_told_from_a_refusal(monkeypatch, programs):
    monkeypatch.setattr(tcx, "_TCX_INGRESS", 4000)  # as 46 is to an older kernel
    assert not tcx.attach("h0", 1, programs[0])
    assert tcx.attached("h0", 1) == ()


def test_what_is_taken_off_is_gone_and_twice_is_safe(end, port, programs):
    with inside(end.path):
        for each in programs:
            tcx.attach(end.name, port, each)
        for _ in range(2):
            tcx.detach(end.name, port, programs[0])
        assert tcx.attached(end.name, port) == (program_id(programs[1]),)
        tcx.detach(end.name, 4242, programs[1])


@contextmanager
def no_short_grace_periods(note: Path) -> Iterator[bool]:
    """As on a machine on which they cannot be made short."""
    yield False


@pytest.mark.parametrize(
    ("most", "short", "wanted", "by_tcx"),
    [(0, True, True, True), (64, False, True, True), (0, False, True, False), (64, True, False, False)],
    ids=["many ports", "few ports and long waits", "many ports and long waits", "not wanted"],
)
@pytest.mark.usefixtures("needs_tcx")
def test_a_lab_counts_by_tcx_where_the_kernel_need_not_wait_long(monkeypatch, tmp_path, most, short, wanted, by_tcx):
    monkeypatch.setattr(deploy, "MOST_BY_TCX", most)
    if not short:
        monkeypatch.setattr(deploy, "short_grace_periods", no_short_grace_periods)
    with built(FabricSpec(planes=1, leaves=2, spines=2, hosts_per_leaf=1)) as net:
        labdir = LabDir(net.lab, tmp_path)
        labdir.path.mkdir()
        with deploy.measured_leaves(net.fabric, labdir, narrow=False, tcx_wanted=wanted) as leaves:
            numbers = {
                (leaf.node, port): [leaf.by_peer[port.peer.role].id]
                for leaf in leaves
                for port in net.fabric.ports_of(leaf.node)
            }
            assert {key: on_port(net, *key) for key in numbers} == {
                key: (number, []) if by_tcx else ([], number) for key, number in numbers.items()
            }
        assert {bool(on_port(net, *key)[0]) for key in numbers} == {by_tcx and not short}


def on_port(net: FabricNet, leaf: NodeId, port: PortId) -> tuple[list[int], list[int]]:
    """Programs on a port's way in, by TCX and in clsact."""
    ifindex = ifindex_of(net.fabric, port)
    with inside(net.netns_path(leaf)), Rtnl.here(str(leaf)) as rtnl:
        by_tc = [one.id for one in qdisc.attached_programs(rtnl, ifindex, Direction.INGRESS)]
        return list(tcx.attached(str(leaf), ifindex)), by_tc
