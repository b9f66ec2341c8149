"""Flows that a plane's leaves have heard nothing of, while their senders declare elsewhere what they sent."""

from dataclasses import replace

import numpy as np
import pytest

from agent.spraycheck.accuse.localization import Finding
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.accuse.unheard_flows import UnheardFlows
from agent.spraycheck.leaf.bpf_layout import MARK, Counting, Place
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import SharedLeaves
from agent.spraycheck.statistics.verdicts import DoubtKind, Expectation, Verdict
from tests.unit.agent.spraycheck.leaf.test_leaf_detector import RULES, SECOND, Counters, flow

KEY = (0x1001, 7)


class Leaf(Counters):
    """A leaf's maps, also what senders declare there of other planes, and what it marks."""

    def __init__(self, *records, marks=()):
        super().__init__(*records)
        self.told = []
        self.marked = marks

    def take_elsewhere(self):
        told, self.told = self.told, []
        return np.array(told, Counting().elsewhere)

    def marks(self):
        marks = np.zeros(len(self.marked), MARK)
        for mark, (_, epoch, entered) in zip(marks, self.marked, strict=True):
            mark["epoch"], mark["entered"] = epoch, entered
        return np.array([qpn for qpn, *_ in self.marked], np.uint32), marks


def elsewhere(sent=(512, 512, 511, 512), plane=1, **fields):
    record = np.zeros((), Counting().elsewhere)
    values = {"seen_ns": 1, "dqpn": KEY[0], "packets": sum(sent), "epoch": KEY[1], "spines": 4, "src_leaf": 2}
    values |= {"dst_leaf": 4, "src_host": 2, "dst_host": 4, "plane": plane}
    for name, value in (values | fields).items():
        record[name] = value
    record["sent"][: len(sent)] = sent
    return record


class Lab:
    """Leaves 2 and 4 of two planes."""

    def __init__(self, source=None, target=None, **rules):
        self.maps = {(plane, leaf): Leaf() for plane in range(2) for leaf in (2, 4)}
        self.maps[1, 2] = source or self.maps[1, 2]
        self.maps[1, 4] = target or self.maps[1, 4]
        self.detectors = [
            LeafDetector(replace(RULES, plane=plane, leaf=leaf, **rules), maps)
            for (plane, leaf), maps in self.maps.items()
        ]
        self.leaves = SharedLeaves(self.detectors)
        self.unheard = UnheardFlows(self.leaves)

    def poll(self, now_ns):
        return self.unheard.reports(self.leaves.rounds(now_ns), now_ns)

    def tell(self, *told):
        self.maps[0, 4].told += told


def test_a_plane_whose_leaves_heard_nothing_is_judged_by_what_is_declared_elsewhere():
    lab = Lab()
    lab.tell(elsewhere())
    assert lab.poll(SECOND) == []
    assert set(lab.unheard.owed().values()) == {1}
    assert len(lab.unheard.owed()) == 8
    lab.tell(elsewhere())  # another copy
    assert lab.poll(2 * SECOND - 1) == []
    uniform, declared = lab.poll(2 * SECOND)
    assert (uniform.expectation, declared.expectation) == tuple(Expectation)
    assert {each.doubt.kind for each in uniform.verdicts} == {DoubtKind.NOT_COUNTED}
    assert "put 2,047 packets into this plane" in uniform.verdicts[0].doubt.text
    assert {each.doubt.kind for each in declared.verdicts} == {DoubtKind.LOST_ALIKE}
    assert (declared.source.verdict, declared.entered, declared.sent) == (Verdict.FAILED, 0, (512, 512, 511, 512))
    assert not lab.unheard.owed()
    lab.tell(elsewhere())
    assert lab.poll(9 * SECOND) == lab.poll(19 * SECOND) == [], "once a flow"


def test_the_dead_uplink_of_the_host_is_named():
    lab = Lab()
    lab.tell(elsewhere((3, 2, 3, 2)))  # the transport has left the plane at its first losses
    lab.poll(SECOND)
    accusations = Monitor(RULES.required).observe(lab.poll(2 * SECOND), {}, 2 * SECOND)
    (by_declared,) = (each for each in accusations if each.expectation is Expectation.DECLARED)
    assert [str(each) for each in by_declared.localization.common.causes] == ["p1:h2>leaf2"]
    assert by_declared.localization.finding is Finding.NONE


def test_where_all_entered_it_was_lost_behind_the_leaf():
    lab = Lab(source=Leaf(marks=[(*KEY, 2047)]))
    lab.tell(elsewhere())
    lab.poll(SECOND)
    accusations = Monitor(RULES.required).observe(lab.poll(2 * SECOND), {}, 2 * SECOND)
    (by_declared,) = (each for each in accusations if each.expectation is Expectation.DECLARED)
    assert not by_declared.localization.common.causes
    assert [[str(each) for each in some] for some in by_declared.localization.common.candidates] == [
        ["p1:leaf2>spine*", "p1:spine*>leaf4"]
    ]


def test_a_count_that_a_newer_flow_replaced_is_not_known():
    lab = Lab(source=Leaf(marks=[(KEY[0], KEY[1] + 1, 2047)]))
    lab.tell(elsewhere())
    lab.poll(SECOND)
    assert lab.poll(2 * SECOND)[1].entered is None


def test_nothing_sent_in_the_plane_is_out_of_use():
    lab = Lab()
    lab.tell(elsewhere((0, 0, 0, 0)))
    lab.poll(SECOND)
    _, declared = lab.poll(2 * SECOND)
    assert {each.doubt.kind for each in declared.verdicts} == {DoubtKind.NOTHING_SENT}
    assert declared.source.verdict is Verdict.INSUFFICIENT


def refusing():
    leaf = Leaf()
    leaf.refused = {KEY[0]: Place.UNANNOUNCED}
    return leaf


@pytest.mark.parametrize(
    "lab",
    [
        lambda: Lab(target=Leaf(flow(dqpn=KEY[0], epoch=KEY[1], plane=1, src_leaf=2))),
        lambda: Lab(target=refusing()),
        lambda: Lab(source=refusing()),
        lambda: Lab(narrow=True),
        lambda: Lab(one=True),
    ],
    ids=["heard", "no room", "heard too late", "16 bits", "one at a time"],
)
def test_what_is_no_evidence_is_not_reported(lab):
    made = lab()
    made.tell(elsewhere())
    assert [made.poll(at * SECOND) for at in (1, 2, 3)] == [[], [], []]
    assert not made.unheard.owed()
    assert not any(leaf.told for leaf in made.maps.values()), "what nobody uses must not fill the map"


def test_a_flow_that_is_heard_in_time_is_judged_as_ever():
    lab = Lab()
    lab.tell(elsewhere())
    assert lab.poll(SECOND) == []
    lab.maps[1, 4].records.append(flow(dqpn=KEY[0], epoch=KEY[1], plane=1))
    assert lab.poll(3 * SECOND) == []
    assert not lab.unheard.owed()


def test_another_number_of_spines_is_not_judged():
    lab = Lab()
    lab.tell(elsewhere((1, 2, 3), spines=3))
    lab.poll(SECOND)
    assert lab.poll(2 * SECOND) == []
