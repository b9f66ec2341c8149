"""EV profiles of the Python API, on engines over the fabric in memory."""

from collections.abc import Iterator

import pytest

from agent.wire.ev import EvCodec
from scenarios.api import Lab
from scenarios.api_ev_profiles import EvEntry, EvProfile
from scenarios.errors import UsageError, WorkerFailedError
from tests.unit.scenarios.test_api import lab_over

OLD, NEW, OTHER = (EvCodec().ev_of(plane, spine, 0) for plane, spine in ((0, 1), (0, 3), (1, 2)))
SIZE = 200_000


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = lab_over()
    yield lab
    lab._close_all()


def online(lab: Lab) -> EvProfile:
    profile = lab.ev_profile(lab.host("h0"), lab.host("h2"), modify_online=True)
    profile.set(mode="EXP", format="SRV6", count=2, min_active=2, event_mask=["GOOD", "ASSUMED_BAD"])
    profile.go("OFFLINE")
    assert profile.replace([(None, OLD), (None, OTHER)]) == (2, "done")
    profile.go("ONLINE")
    return profile


def test_a_profile_is_walked_up_used_changed_and_asked(lab: Lab) -> None:
    profile = online(lab)
    here, there = lab.connect(lab.host("h0"), lab.host("h2"), pmtu=256, profile=profile)
    assert profile.replace([(OLD, OTHER)]) == (0, "the new EV is of another plane")
    assert profile.modify([OTHER, NEW], "DENIED") == (1, "no such EV")
    assert profile.query([OLD, OTHER]) == ["GOOD", "DENIED"]
    assert profile.entries() == [EvEntry(OLD, 0, "GOOD"), EvEntry(OTHER, 1, "DENIED")]
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    source.data[:] = 7
    here.write(source, 0, SIZE, target, 0)
    here.wait()
    assert target.data.tolist() == [7] * SIZE
    sent = {row["ev"]: row["tx_first"] for row in here.host.evs() if row["qpn"] == here.qpn}
    assert sent == {OLD: -(-SIZE // 256), OTHER: 0}
    with pytest.raises(WorkerFailedError, match="in use"):
        profile.go("OFFLINE")
    here.close()
    profile.go("OFFLINE", "INIT")
    assert profile.state == "INIT"


def test_mistakes_are_told(lab: Lab) -> None:
    profile = online(lab)
    with pytest.raises(UsageError, match="EV profile 1 of h0 to h2 is given for what h1 sends to h2"):
        lab.connect(lab.host("h1"), lab.host("h2"), profile=profile)
    with pytest.raises(WorkerFailedError, match="does not allow setting mode"):
        profile.set(count=3)
    with pytest.raises(UsageError, match="fields"):
        lab.ev_profile(lab.host("h0"), lab.host("h2")).set(fields=[{"wide": 3}])


def test_generated_entries_and_the_end(lab: Lab) -> None:
    with lab.ev_profile(lab.host("h0"), lab.host("h2")) as profile:
        fields = [{"width": 16, "init_val": 0xC000}, {"width": 16, "init_val": 0x1000, "mask": 3, "max": 3}]
        profile.set(mode="GEN", format="SRV6", count=4, fields=fields, min_active=1, event_mask=[])
        profile.go("OFFLINE", "ONLINE")
        assert [entry.plane for entry in profile.entries()] == [0] * 4
    profile.close()
    with pytest.raises(WorkerFailedError, match="h0 has no EV profile"):
        profile.entries()
