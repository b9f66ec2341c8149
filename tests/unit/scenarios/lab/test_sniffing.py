"""Frames of several links come out in the order of their times, whichever ring is read first."""

import os
from itertools import pairwise

import numpy as np
import pytest

from scenarios.errors import LabStateError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.packets import sniffing
from scenarios.lab.processes import ProcessId, identify
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId

FABRIC = Fabric.of(FabricSpec(1, 2, 2))
WAYS = [way for link in FABRIC.links_of(NodeId.leaf(0, 0)) for way in link.directions]


class Ring:
    """Frames that arrive at given times, of one byte each."""

    def __init__(self, times_ns):
        self.waiting, self.taken = list(times_ns), []
        self._read, self._write = os.pipe()
        os.write(self._write, b"x" * len(self.waiting))

    def fileno(self):
        return self._read

    def receive(self, most):
        count = min(most, len(self.waiting))
        self.taken, self.waiting = self.waiting[:count], self.waiting[count:]
        os.read(self._read, count)
        return type("Block", (), {"lengths": np.ones(count, int), "frames": np.zeros((count, 1), np.uint8)})

    def arrived_ns(self, count):
        return np.array(self.taken[:count])

    def release(self, count):
        pass

    def take_error(self):
        return 0

    def close(self):
        os.close(self._read)
        os.close(self._write)


@pytest.mark.parametrize("ahead_ns", [0, 10**15], ids=["", "a clock that was set back"])
def test_frames_of_all_rings_in_the_order_of_their_times(monkeypatch, tmp_path, ahead_ns):
    times = [[4, 5, 9], range(100, 300, 2), range(3, 301, 3)]
    rings = [Ring(ahead_ns + each for each in some) for some in times]
    opened = iter(rings)
    monkeypatch.setattr(sniffing.Listening, "_listen", lambda *_: next(opened))
    found = []
    with sniffing.Listening(LabDir("x", tmp_path), identify(os.getpid()), WAYS[:3], 100) as listening:
        for heard in listening.frames():
            found += [] if heard is None else [heard.time_ns - ahead_ns]
            if len(found) == sum(map(len, times)):
                break
    assert sorted(found) == sorted(each for some in times for each in some)
    assert all(before <= after for before, after in pairwise(found))


def test_a_lab_whose_owner_is_gone_is_not_listened_to_for_ever(monkeypatch, tmp_path):
    labdir, quiet = LabDir("x", tmp_path), Ring([])
    monkeypatch.setattr(sniffing.Listening, "_listen", lambda *_: quiet)
    with sniffing.Listening(labdir, ProcessId(os.getpid(), 1), WAYS[:1], 100) as listening:
        with pytest.raises(LabStateError, match=r"^lab 'x' was taken down meanwhile$"):
            next(listening.frames())
        labdir.path.mkdir()
        with pytest.raises(LabStateError, match=r"^the owner of lab 'x' has died"):
            next(listening.frames())
