"""Programs on a port's way in without a qdisc: what the kernel lists, and what a packet meets."""

import os
from collections.abc import Iterator

import pytest

from agent.spraycheck import dataplane
from scenarios.lab import deploy
from scenarios.lab.lab_dir import LabDir
from testbed.errors import KernelError
from testbed.kernel import qdisc, tcx
from testbed.kernel.bpf_syscall import load_smallest_program, program_id
from testbed.kernel.netns import inside
from testbed.kernel.qdisc import Direction
from testbed.kernel.rtnl import Rtnl
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import FabricSpec
from testbed.model.ids import Role
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


@pytest.fixture
def port(end, programs) -> int:
    """A port of a kernel that knows TCX; the test's thread is not in its namespace."""
    with inside(end.path):
        if not tcx.attach(end.ifindex(), programs[0]):
            pytest.skip("this kernel has no TCX (Linux 6.6)")
        tcx.detach(end.ifindex(), programs[0])
    return end.ifindex()


def test_programs_stand_in_the_order_they_came_and_leave_one_by_one(end, port, programs):
    first, second = programs
    with inside(end.path):
        assert tcx.attached(port) == ()
        assert tcx.attach(port, first)
        assert tcx.attach(port, second)
        assert tcx.attached(port) == (program_id(first), program_id(second))
        tcx.detach(port, first)
        tcx.detach(port, first)  # twice is no error
        assert tcx.attached(port) == (program_id(second),)


def test_a_program_stays_without_its_descriptor_and_makes_no_qdisc(end, port):
    descriptor = load_smallest_program()
    number = program_id(descriptor)
    with inside(end.path), Rtnl.here(end.name) as rtnl:
        tcx.attach(port, descriptor)
        os.close(descriptor)
        assert tcx.attached(port) == (number,)
        assert qdisc.qdisc_kinds(rtnl, port) == ("noqueue",)


def test_clsact_beside_it_comes_and_goes_alone(end, port, programs):
    with inside(end.path), Rtnl.here(end.name) as rtnl:
        tcx.attach(port, programs[0])
        qdisc.attach_program(rtnl, port, Direction.EGRESS, 1, programs[1], "beside")
        qdisc.remove_clsact(rtnl, port)
        assert tcx.attached(port) == (program_id(programs[0]),)


def test_a_program_that_is_there_or_a_port_that_is_not_is_an_error(end, port, programs):
    with inside(end.path):
        tcx.attach(port, programs[0])
        with pytest.raises(KernelError, match=f"port {port}: attach a program by TCX: EEXIST"):
            tcx.attach(port, programs[0])
        with pytest.raises(KernelError, match="port 4242: attach a program by TCX: ENODEV"):
            tcx.attach(4242, programs[0])
        tcx.detach(4242, programs[0])


def test_a_kernel_without_it_is_told_from_a_refusal(monkeypatch, programs):
    monkeypatch.setattr(tcx, "_TCX_INGRESS", 4000)  # as 46 is to an older kernel
    assert not tcx.attach(1, programs[0])
    assert tcx.attached(1) == ()
    tcx.detach(1, programs[0])


@pytest.mark.parametrize("most", [0, 64])
def test_a_lab_counts_by_tcx_while_its_ports_are_few(monkeypatch, tmp_path, port, most):
    monkeypatch.setattr(deploy, "MOST_BY_TCX", most)
    with built(FabricSpec(planes=1, leaves=2, spines=2, hosts_per_leaf=1)) as net:
        labdir = LabDir(net.lab, tmp_path)
        labdir.path.mkdir()
        with deploy.measured_leaves(net.fabric, labdir, narrow=False) as leaves:
            for leaf in leaves:
                wanted = {Role.HOST: dataplane.FROM_HOST, Role.SPINE: dataplane.FROM_SPINE}
                for each in net.fabric.ports_of(leaf.node):
                    number = leaf.program.program(wanted[each.peer.role]).id
                    with inside(net.netns_path(leaf.node)), Rtnl.here(str(leaf.node)) as rtnl:
                        ifindex = ifindex_of(net.fabric, each)
                        by_tc = [one.id for one in qdisc.attached_programs(rtnl, ifindex, Direction.INGRESS)]
                        assert (list(tcx.attached(ifindex)), by_tc) == (([number], []) if most else ([], [number]))
