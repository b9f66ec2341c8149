"""Leaves in processes of their own: the monitor hears and writes the same as from leaves it reads itself."""

import os
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.base.moment import Moment
from agent.io.daemon import Ending
from agent.spraycheck.__main__ import step
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.accuse.unheard_flows import UnheardFlows
from agent.spraycheck.detect_log import DetectLog
from agent.spraycheck.errors import CountersError, LeafProcessError
from agent.spraycheck.leaf.bpf_layout import Place
from agent.spraycheck.leaf.leaf_detector import LeafDetector
from agent.spraycheck.leaf.leaves import SharedLeaves
from agent.spraycheck.leaf.remote_leaves import RemoteLeaves, listening, serve
from results.files.event_log import read_records
from tests.unit.agent.spraycheck.accuse.test_unheard_flows import KEY, Leaf, elsewhere
from tests.unit.agent.spraycheck.leaf.test_leaf_detector import LAMBDA, RULES, SECOND, flow

SENT = (LAMBDA,) * 4
"""Packets on each path."""


def closed(arrived, qpn, plane, **fields):
    """A flow from leaf 3 to leaf 4 that its sender has declared and of which all barriers came."""
    times = {"seen_ns": 1, "announced_ns": 1, "stopped_ns": SECOND, "closed_ns": SECOND}
    parts = {"dqpn": qpn, "plane": plane, "sent": SENT, "barrier": (1,) * 4}
    return flow(arrived, **(times | parts | fields))


def detectors():
    """Leaves 2, 3 and 4 of two planes: a link drops, a leaf has no room, and of one flow a plane heard nothing."""
    maps = {(plane, leaf): Leaf() for plane in range(2) for leaf in (2, 3, 4)}
    maps[0, 4].records = [
        closed((LAMBDA, LAMBDA - 120, LAMBDA, LAMBDA), 0x2001, 0, again=(0, 120, 0, 0)),
        closed((LAMBDA, LAMBDA - 130, LAMBDA, LAMBDA), 0x2002, 0, src_leaf=2, src_host=2),
        closed((20, 19, 20, 20), 0x2003, 0, packets=80, sent=(20,) * 4),
    ]
    maps[1, 4].records = [closed(SENT, 0x2001, 1), flow(dqpn=0x2009, plane=1)]
    maps[0, 3].marked = [(0x2001, 7, 4 * LAMBDA), (0x2002, 8, 5)]
    maps[1, 3].refused = {0x3001: Place.UNANNOUNCED}
    maps[0, 4].told = [elsewhere()]
    maps[1, 2].marked = [(KEY[0], KEY[1], 2047)]
    return [LeafDetector(replace(RULES, plane=plane, leaf=leaf), each) for (plane, leaf), each in maps.items()]


def written(leaves, file):
    """What the monitor writes of these leaves in five rounds."""
    monitor, unheard = Monitor(RULES.required, {2, 3, 4}), UnheardFlows(leaves)
    with DetectLog(file) as log:
        for at_ns in (2 * SECOND, 2 * SECOND + 10**8, 3 * SECOND, 4 * SECOND, 70 * SECOND):
            step(leaves, monitor, log, Moment(10**18 + at_ns, at_ns), unheard)
    return list(read_records(file))


@contextmanager
def served(all_detectors, folder: Path):
    """Each detector served in a thread; the rules with the sockets."""
    with ExitStack() as undo:
        end = undo.enter_context(Ending())
        rules = []
        for each in all_detectors:
            path = folder / f"p{each.rules.plane}-leaf{each.rules.leaf}.sock"
            listener = undo.enter_context(listening(path))
            thread = threading.Thread(target=quietly, args=(each, listener, end))
            thread.start()
            undo.callback(thread.join)
            rules.append((each.rules, str(path)))
        undo.callback(end.set)
        yield rules


def quietly(*arguments):
    with suppress(CountersError):
        serve(*arguments)


def test_the_same_records_whoever_reads_the_maps(tmp_path):
    here = written(SharedLeaves(detectors()), tmp_path / "shared.jsonl")
    with served(detectors(), tmp_path) as rules, RemoteLeaves(rules) as leaves:
        there = written(leaves, tmp_path / "per-leaf.jsonl")
    assert there == here
    assert {each["event"] for each in here} == {"DETECT", "LINK", "LOCALIZE", "PATH", "UNMEASURED"}
    assert {each["entered"] for each in here if each["event"] == "DETECT"} == {None, 4 * LAMBDA, 2047}
    named = [each["links"] for each in here if each["event"] == "LOCALIZE" and each["links"]]
    assert {tuple(links) for links in named} == {("p0:spine1>leaf4",)}


def test_a_monitor_that_has_gone_is_followed_by_another(tmp_path):
    with served(detectors()[:1], tmp_path) as rules:
        for _ in range(2):
            with RemoteLeaves(rules) as leaves:
                assert len(leaves.rounds(SECOND)) == 1
    assert not os.listdir(tmp_path)


class Broken(Leaf):
    def flows(self):
        raise CountersError(7, "read: no such map")


def test_a_leaf_that_cannot_go_on_says_why_and_is_named(tmp_path):
    broken = LeafDetector(replace(RULES, plane=1, leaf=3), Broken())
    with served([broken], tmp_path) as rules, RemoteLeaves(rules) as leaves:
        with pytest.raises(LeafProcessError, match=rf"SprayCheck on p1-leaf3 \(process {os.getpid()}\) has ended: map"):
            leaves.rounds(SECOND)
        with pytest.raises(LeafProcessError, match=r"SprayCheck on p1-leaf3 .* has gone"):
            leaves.rounds(SECOND)


def test_a_leaf_without_a_process_is_named(tmp_path):
    with pytest.raises(LeafProcessError, match=r"SprayCheck on p0-leaf4: .*x.sock: No such file"):
        RemoteLeaves([(RULES, str(tmp_path / "x.sock"))]).__enter__()
