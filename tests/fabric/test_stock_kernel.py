"""What needs netem, on a kernel that has it: a stock one, or `make test-vm`."""

from pathlib import Path

import pytest
from mininet.link import TCLink

from results.files.event_log import read_records
from testbed.emulation.network import FabricNet
from testbed.emulation.topo import FabricTopo
from testbed.kernel.features import probe_features
from tests.support.namespaces import needs_root, removed_lab
from tests.support.spraylab_command import own_lab, trusted

pytestmark = [pytest.mark.alone, pytest.mark.root, pytest.mark.slow, needs_root]


def require_netem() -> None:
    features = {feature.name: feature for feature in probe_features()}
    if not features["netem"].present:
        pytest.skip(f"this kernel has no netem: {features['netem'].advice}")


def test_mininets_tclink_delays_an_access_link() -> None:
    require_netem()
    topo = FabricTopo(planes=1, leaves=2, spines=1, host_stack=True)
    topo.linkInfo("h0", "p0-leaf0").update(cls=TCLink, delay="20ms")
    with removed_lab() as lab, FabricNet(topo, lab) as net:
        (link,) = net.linksBetween(net["h0"], net["p0-leaf0"])
        assert isinstance(link, TCLink)
        assert "netem" in net["h0"].cmd("tc qdisc show dev plane0")
        ((_, _, (_, received, least_ms, *_)), *_) = net.pingPairFull()
        assert received == 1
        assert least_ms >= 40, "there and back"
        net.verify()


@pytest.mark.timeout(1200)
def test_the_right_link_is_named_with_netem_in_force(tmp_path: Path) -> None:
    require_netem()
    with own_lab(tmp_path / "runs") as lab:
        summary = trusted(lab, "run", "gray-link-small", within_s=600)  # an emulated machine is slow
        assert [each["link"] for each in summary["detected"]["named"]] == ["p0:leaf2>spine1"]
        assert summary["injected"][0]["mechanism"] == "netem"
        truth = list(read_records(tmp_path / "runs/latest/truth.jsonl"))
        assert {record["mechanism"] for record in truth} == {"netem"}
        assert lab.left() == []
