"""The probes say what this kernel really does, and leave nothing behind."""

import os

import pytest

from testbed.errors import KernelError, MissingFeatureError
from testbed.kernel import features
from testbed.kernel.netns import NETNS_DIR
from tests.support.namespaces import needs_root

pytestmark = [pytest.mark.root, needs_root]


def test_everything_is_tried_and_nothing_stays():
    before = sorted(os.listdir(NETNS_DIR)), sorted(os.listdir("/sys/class/net"))
    found = {feature.name: feature for feature in features.probe_features()}
    assert {
        "root",
        "veth",
        "SRv6 NEXT-CSID (uN)",
        "SRv6 encap.red",
        "clsact",
        "eBPF on ports (cls_bpf)",
        "netem",
    } <= set(found)
    for feature in found.values():
        assert feature.present == (feature.detail == "")
        assert feature.use
        assert feature.advice
    assert (sorted(os.listdir(NETNS_DIR)), sorted(os.listdir("/sys/class/net"))) == before


def test_a_needed_feature_that_fails_is_an_error_with_advice(monkeypatch):
    def refuse(_rtnl):
        raise KernelError("probe", "add a veth", 95)

    probe = features._Probe("veth", True, "every link", "enable CONFIG_VETH", refuse)
    monkeypatch.setattr(features, "_PROBES", (probe,))
    with pytest.raises(MissingFeatureError, match=r"veth is missing: enable CONFIG_VETH \(probe: add a veth: ENOTSUP"):
        features.require_fabric_features()


def test_without_root_only_that_is_told(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (only,) = features.probe_features()
    assert (only.name, only.present) == ("root", False)
    with pytest.raises(MissingFeatureError, match="run as root"):
        features.require_fabric_features()


def test_with_everything_present_nothing_is_raised():
    features.require_fabric_features()
