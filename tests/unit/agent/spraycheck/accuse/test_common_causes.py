"""Losses common to all paths of flows: which of the three causes the flows leave."""

import pytest

from agent.spraycheck.accuse.common_causes import CauseKind, CommonCause, SourceEvidence, common_causes
from agent.spraycheck.statistics.verdicts import Verdict

FAILED, HEALTHY, INSUFFICIENT = Verdict.FAILED, Verdict.HEALTHY, Verdict.INSUFFICIENT


def seen(host, dst_leaf, verdict, entered=None, hosts_per_leaf=1, plane=0):
    return SourceEvidence(plane, host, host // hosts_per_leaf, dst_leaf, (dst_leaf << 12) + host, verdict, entered)


def texts(finding):
    return [str(each) for each in finding.causes], [[str(cause) for cause in each] for each in finding.candidates]


def test_one_flow_alone_leaves_all_three_the_fewest_links_first():
    assert texts(common_causes([seen(3, 4, FAILED)])) == ([], [["p0:h3>leaf3", "p0:leaf3>spine*", "p0:spine*>leaf4"]])


def test_two_destinations_leave_the_source_and_one_host_a_leaf_cannot_be_told_from_its_uplinks():
    found = common_causes([seen(3, 4, FAILED), seen(3, 6, FAILED), seen(1, 4, HEALTHY)])
    assert texts(found) == ([], [["p0:h3>leaf3", "p0:leaf3>spine*"]])


def test_another_host_of_the_leaf_clears_the_uplinks():
    found = common_causes(
        [
            seen(6, 4, FAILED, hosts_per_leaf=2),
            seen(7, 4, HEALTHY, hosts_per_leaf=2),
        ]
    )
    assert texts(found) == (["p0:h6>leaf3"], [])


@pytest.mark.parametrize(("entered", "named"), [(FAILED, ["p0:h3>leaf3"]), (HEALTHY, ["p0:leaf3>spine*"])])
def test_the_count_at_the_source_leaf_tells_the_hosts_link_from_the_uplinks(entered, named):
    found = common_causes([seen(3, 4, FAILED, entered), seen(3, 6, FAILED, entered), seen(1, 4, HEALTHY)])
    assert texts(found) == (named, [])


def test_a_healthy_flow_of_the_host_leaves_the_destination():
    found = common_causes([seen(3, 4, FAILED), seen(1, 4, FAILED), seen(3, 6, HEALTHY), seen(1, 2, HEALTHY)])
    assert texts(found) == (["p0:spine*>leaf4"], [])


def test_planes_and_insufficient_flows_say_nothing():
    found = common_causes([seen(3, 4, FAILED), seen(3, 4, HEALTHY, plane=1), seen(3, 6, INSUFFICIENT)])
    assert len(found.candidates[0]) == 3
    assert texts(common_causes([])) == ([], [])


def test_kinds_are_ordered_by_the_links_they_take():
    assert [each.value for each in CauseKind] == ["host_link", "uplinks", "downlinks"]
    assert str(CommonCause(1, CauseKind.UPLINKS, 3)) == "p1:leaf3>spine*"
