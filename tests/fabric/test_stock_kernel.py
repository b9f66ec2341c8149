"""gray-link-small with netem as the mechanism, on a kernel that has it: a stock one, or `make test-vm`."""

from pathlib import Path

import pytest

from results.event_log import read_records
from testbed.kernel.features import probe_features
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import own_lab, trusted

pytestmark = [pytest.mark.root, pytest.mark.slow, needs_root]


@pytest.mark.timeout(1200)
def test_the_right_link_is_named_with_netem_in_force(tmp_path: Path) -> None:
    features = {feature.name: feature for feature in probe_features()}
    if not features["netem"].present:
        pytest.skip(f"this kernel has no netem: {features['netem'].advice}")
    with own_lab(tmp_path / "runs") as lab:
        summary = trusted(lab, "run", "gray-link-small", "--mechanism", "netem")
        assert [each["link"] for each in summary["detected"]["named"]] == ["p0:leaf2>spine1"]
        assert summary["injected"][0]["mechanism"] == "netem"
        truth = list(read_records(tmp_path / "runs/latest/truth.jsonl"))
        assert {record["mechanism"] for record in truth} == {"netem"}
        assert lab.left() == []
