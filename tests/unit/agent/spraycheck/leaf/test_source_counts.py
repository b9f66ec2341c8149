"""Counts of source leaves joined with reports of destination leaves."""

from dataclasses import replace
from typing import cast

from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import SharedLeaves, with_source_counts
from tests.unit.agent.spraycheck.accuse.test_monitor import declared, report
from tests.unit.agent.spraycheck.leaf.test_leaf_detector import RULES


class Source:
    """A leaf that counted flows as their source, and was asked so often."""

    def __init__(self, leaf, counts):
        self.rules = replace(RULES, leaf=leaf)
        self.counts = counts
        self.required = 0

    def entered(self):
        self.required += 1
        return self.counts

    def has_heard_of(self, key):
        return False

    def has_refused(self, key):
        return False


def leaves_of(*leaves):
    return SharedLeaves(cast("list[LeafDetector]", leaves))


def test_a_declared_report_gets_the_count_of_its_flow_and_epoch():
    flow = declared(3, 4, {})
    key = flow.flow.qpn, flow.flow.epoch
    leaves = [Source(3, {key: 7990, (key[0], key[1] + 1): 1}), Source(4, {key: 2})]
    uniform = report(3, 4)
    joined = with_source_counts([flow, uniform, declared(4, 3, {})], leaves_of(*leaves))
    assert [each.entered for each in joined] == [7990, None, None]
    assert joined[1] is uniform
    assert [each.required for each in leaves] == [1, 1]


def test_leaves_are_not_read_without_a_declaration():
    leaves = [Source(3, {})]
    with_source_counts([report(3, 4)], leaves_of(*leaves))
    assert leaves[0].required == 0
