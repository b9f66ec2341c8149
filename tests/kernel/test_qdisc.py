"""What sits on a port: clsact with programs, and netem, each read back from the kernel."""

import os
import socket

import pytest

from testbed.errors import KernelError, MissingFeatureError
from testbed.kernel import features
from testbed.kernel.bpf.tcx import load_smallest_program
from testbed.kernel.netlink import requests
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import create_namespaces, inside, namespace_path
from testbed.kernel.node_state import write_sysctls
from testbed.kernel.ports import qdisc, shaping
from testbed.kernel.ports.qdisc import Direction
from testbed.kernel.ports.shaping import GilbertElliott, Netem, Tbf
from testbed.model.node_config import Cable, Interface, Sysctl
from testbed.model.node_names import NodeId, namespace_prefix
from tests.support.namespaces import Seen, Tap, needs_root, removed_lab, wait_until

pytestmark = [pytest.mark.root, needs_root]

NEAR = Interface("near", 100, "02:00:00:00:00:01", 9000, 101)
FAR = Interface("far", 101, "02:00:00:00:00:02", 9000, 100)
FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(50)  # a local experimental EtherType
HALF = 1 << 31


@pytest.fixture(scope="module")
def present():
    return {feature.name for feature in features.probe_features() if feature.present}


@pytest.fixture
def needs_netem(present):
    if "netem" not in present:
        pytest.skip("this kernel has no netem (CONFIG_NET_SCH_NETEM)")


@pytest.fixture
def namespace():
    with removed_lab() as lab:
        name = f"{namespace_prefix(lab)}port"
        create_namespaces([name])
        yield namespace_path(name)


@pytest.fixture
def rtnl(namespace):
    """A socket in a namespace with both ends of one link, up and silent."""
    write_sysctls("p0-leaf0", namespace, [Sysctl("net/ipv6/conf/default/disable_ipv6", "1")])
    with Rtnl.inside("p0-leaf0", namespace) as opened, open(namespace) as same:
        opened.apply([requests.create_cable(Cable(NEAR, NodeId.host(0), FAR), same.fileno())])
        opened.apply(requests.bring_up(end.ifindex, end.name) for end in (NEAR, FAR))
        yield opened


@pytest.fixture
def program():
    descriptor = load_smallest_program()
    yield descriptor
    os.close(descriptor)


def test_programs_are_attached_listed_and_detached(rtnl, program):
    ingress = qdisc.attach_program(rtnl, 100, Direction.INGRESS, 5, program, "count")
    egress = qdisc.attach_program(rtnl, 100, Direction.EGRESS, 7, program, "drop")
    early = qdisc.attach_program(rtnl, 100, Direction.INGRESS, 2, program, "mark")
    assert (ingress.priority, ingress.name, ingress.direct_action) == (5, "count", True)
    assert ingress.id == egress.id > 0
    assert qdisc.attached_programs(rtnl, 100, Direction.INGRESS) == (early, ingress)
    assert qdisc.attached_programs(rtnl, 100, Direction.EGRESS) == (egress,)
    assert qdisc.attached_programs(rtnl, 101, Direction.INGRESS) == ()
    qdisc.detach_program(rtnl, 100, Direction.INGRESS, 5)
    assert qdisc.attached_programs(rtnl, 100, Direction.INGRESS) == (early,)
    qdisc.remove_clsact(rtnl, 100)
    assert qdisc.attached_programs(rtnl, 100, Direction.INGRESS) == ()
    assert "clsact" not in qdisc.qdisc_kinds(rtnl, 100)


def test_a_taken_priority_and_a_missing_port_are_refused(rtnl, program):
    qdisc.attach_program(rtnl, 100, Direction.INGRESS, 5, program, "first")
    with pytest.raises(KernelError, match="p0-leaf0: attach second to port 100: EEXIST"):
        qdisc.attach_program(rtnl, 100, Direction.INGRESS, 5, program, "second")
    with pytest.raises(KernelError, match="add clsact to port 999: ENODEV"):
        qdisc.attach_program(rtnl, 999, Direction.INGRESS, 5, program, "first")
    assert [p.name for p in qdisc.attached_programs(rtnl, 100, Direction.INGRESS)] == ["first"]


def test_removing_what_is_not_there_is_no_error(rtnl):
    qdisc.remove_clsact(rtnl, 100)
    qdisc.detach_program(rtnl, 100, Direction.EGRESS, 1)
    shaping.remove_netem(rtnl, 100)
    assert qdisc.qdisc_kinds(rtnl, 100) == ("noqueue",)


def test_clsact_is_made_once(rtnl, program):
    qdisc.attach_program(rtnl, 100, Direction.INGRESS, 1, program, "kept")
    qdisc.ensure_clsact(rtnl, 100)
    assert len(qdisc.attached_programs(rtnl, 100, Direction.INGRESS)) == 1


def test_a_kernel_without_netem_says_which_option(rtnl, present):
    if "netem" in present:
        pytest.skip("this kernel has netem")
    with pytest.raises(MissingFeatureError, match="CONFIG_NET_SCH_NETEM") as missing:
        shaping.set_netem(rtnl, 100, Netem(loss_u32=HALF))
    assert missing.value.feature == "netem"
    assert shaping.read_netem(rtnl, 100) is None
    assert qdisc.qdisc_kinds(rtnl, 100) == ("noqueue",)


@pytest.mark.parametrize("rate", [1_000, 1_250_000, 125_000_000, 12_500_000_000])
def test_a_token_bucket_is_read_back(rtnl, present, rate):
    if "tbf" not in present:
        pytest.skip("this kernel has no tbf (CONFIG_NET_SCH_TBF)")
    wanted = Tbf(rate, 20_000, 1 << 20)
    found = shaping.set_tbf(rtnl, 100, wanted)
    assert (found.bytes_per_s, found.queue_bytes) == (wanted.bytes_per_s, wanted.queue_bytes)
    assert abs(found.burst_bytes - wanted.burst_bytes) <= max(1, rate * 128 / 1e9)
    shaping.remove_tbf(rtnl, 100)
    assert qdisc.qdisc_kinds(rtnl, 100) == ("noqueue",)


@pytest.mark.usefixtures("needs_netem")
class TestNetem:
    def test_a_token_bucket_fits_below(self, rtnl):
        shaping.set_netem(rtnl, 100, Netem(delay_ns=5))
        shaping.set_tbf(rtnl, 100, Tbf(1_250_000, 20_000, 1 << 20), below_netem=True)
        assert shaping.set_netem(rtnl, 100, Netem(delay_ns=7)).delay_ns == 7
        assert sorted(qdisc.qdisc_kinds(rtnl, 100)) == ["netem", "tbf"]
        shaping.remove_tbf(rtnl, 100, below_netem=True)
        shaping.remove_netem(rtnl, 100)
        assert qdisc.qdisc_kinds(rtnl, 100) == ("noqueue",)

    @pytest.mark.parametrize(
        "netem",
        [
            Netem(loss_u32=42_949_673),
            Netem(loss_u32=1),
            Netem(loss_u32=0xFFFFFFFF, limit_pkts=7),
            Netem(delay_ns=1_500_001, jitter_ns=300),
            Netem(burst=GilbertElliott(1000, 2000, 3000, 4000)),
            Netem(corrupt_u32=7, duplicate_u32=8),
            Netem(delay_ns=1000, reorder_u32=9),
            Netem(),
        ],
        ids=str,
    )
    def test_parameters_are_read_back_exactly(self, rtnl, netem):
        assert shaping.set_netem(rtnl, 100, netem) == netem

    def test_it_is_changed_in_place_and_removed(self, rtnl):
        shaping.set_netem(rtnl, 100, Netem(loss_u32=HALF))
        assert shaping.set_netem(rtnl, 100, Netem(loss_u32=5)) == Netem(loss_u32=5)
        assert qdisc.qdisc_kinds(rtnl, 100) == ("netem",)
        shaping.remove_netem(rtnl, 100)
        assert shaping.read_netem(rtnl, 100) is None
        assert qdisc.qdisc_kinds(rtnl, 100) == ("noqueue",)

    def test_it_sits_beside_programs(self, rtnl, program):
        qdisc.attach_program(rtnl, 100, Direction.EGRESS, 1, program, "beside")
        shaping.set_netem(rtnl, 100, Netem(loss_u32=HALF))
        shaping.remove_netem(rtnl, 100)
        assert [p.name for p in qdisc.attached_programs(rtnl, 100, Direction.EGRESS)] == ["beside"]

    def test_what_it_dropped_is_counted_and_really_missing(self, rtnl, namespace):
        shaping.set_netem(rtnl, 100, Netem(loss_u32=HALF))
        with inside(namespace):
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sender.bind(("near", 0))
        with sender, Tap.open(namespace) as tap:
            for _ in range(200):
                sender.send(FRAME)
            arrived: list[Seen] = []

            def all_accounted() -> bool:
                arrived.extend(packet for packet in tap.drain() if packet.ifindex == FAR.ifindex)
                return len(arrived) + drops(rtnl) == 200

            wait_until(all_accounted, "every packet has arrived or is counted as dropped")
        assert 60 < len(arrived) < 140


def drops(rtnl: Rtnl) -> int:
    found = shaping.read_netem(rtnl, NEAR.ifindex)
    assert found is not None
    return found[1].drops
