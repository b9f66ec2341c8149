"""EV profiles that a controller makes by requests to a worker, and queue pairs that use them under traffic."""

import pytest

from agent.core.errors import ConfigError, ProfileStateError
from agent.host.control import profile_requests as pq
from agent.host.control import requests as rq
from agent.host.control.requests import DeniedLink
from agent.host.control.server import Leases
from agent.host.errors import RequestError
from agent.wire.ev import EvCodec
from tests.support.queue_pairs import qp_settings
from tests.unit.agent.host.test_commands import Worker

SIZE = 400_000


def ev(plane: int, spine: int, copy: int = 0) -> int:
    return EvCodec().ev_of(plane, spine, 0, copy)


def online(worker: Worker, *evs: int, peer: int = 2, modify_online: bool = True) -> int:
    """An EXP profile of h0 with these values."""
    number = worker.ask(pq.CreateProfile(0, peer, modify_online))["profile"]
    mask = ("GOOD", "ASSUMED_BAD")
    worker.ask(pq.SetProfile(0, number, "EXP", "SRV6", len(evs), min_active=1, event_mask=mask))
    worker.ask(pq.MoveProfile(0, number, "OFFLINE"))
    wanted = tuple(pq.EvReplacement(None, value) for value in evs)
    assert worker.ask(pq.ReplaceEvs(0, number, wanted)) == {"done": len(evs), "status": "done"}
    worker.ask(pq.MoveProfile(0, number, "ONLINE"))
    return number


def made(worker: Worker, profile: int, peer: int = 2) -> tuple[dict, dict]:
    """A queue pair of h0 over the profile and its peer, not connected yet."""
    settings = qp_settings(pmtu=256)
    end = {"host": 0, **worker.ask(rq.CreateQp(0, peer, settings, controlled=profile))}
    return end, {"host": peer, **worker.ask(rq.CreateQp(peer, 0, settings))}


def connect(worker: Worker, *ends: dict) -> None:
    for end, other in (ends, ends[::-1]):
        worker.ask(rq.ConnectQp(end["host"], end["qpn"], rq.PeerEnd(**other)))


def write(worker: Worker, end: dict, peer: dict) -> dict:
    sent = worker.ask(rq.RegisterRegion(0, SIZE, 11, "source"))
    received = worker.ask(rq.RegisterRegion(peer["host"], SIZE, 11, "target"))
    worker.ask(rq.PostWrite(0, end["qpn"], sent["rkey"], 0, SIZE, received["va"], received["rkey"], 4096))
    return received


def run(worker: Worker, turns: int = 400) -> None:
    """As the drive loop does: what happened is taken away now and then, or no value changes."""
    for _ in range(turns // 10):
        worker.run(10)
        assert len([*worker.commands.engine.drain_events()]) < 1000


def paths(worker: Worker) -> dict[int, dict]:
    """Counters of h0's queue pair by value."""
    return {row["ev"]: row for row in worker.ask(rq.Counters())["evs"] if row["host"] == 0}


def test_a_queue_pair_sprays_over_the_entries_and_over_what_replaces_one_meanwhile():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1))
    ends = made(worker, profile)
    connect(worker, *ends)
    received = write(worker, *ends)
    run(worker, 20)
    replaced = pq.ReplaceEvs(0, profile, (pq.EvReplacement(ev(0, 1), ev(0, 3)),))
    assert worker.ask(replaced) == {"done": 1, "status": "done"}
    run(worker)
    assert worker.ask(rq.Verify(2, received["rkey"], 11))["wrong"] == 0
    assert set(paths(worker)) == {ev(0, 3), ev(1, 1)}
    assert all(row["tx_rtx"] == 0 and row["tx_first"] > 100 for row in paths(worker).values())
    entries = worker.ask(pq.QueryEntries(0, profile))
    assert worker.ask(pq.ProfileState(0, profile)) == {"state": "ONLINE"}
    assert entries["entries"][0] == {"ev": ev(0, 3), "plane": 0, "state": "GOOD"}


def test_what_is_replaced_before_the_queue_pair_is_connected_is_not_lost():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1))
    ends = made(worker, profile)
    worker.ask(pq.ReplaceEvs(0, profile, (pq.EvReplacement(ev(0, 1), ev(0, 2)),)))
    connect(worker, *ends)
    run(worker, 20)
    received = write(worker, *ends)
    run(worker)
    assert worker.ask(rq.Verify(2, received["rkey"], 11))["wrong"] == 0
    assert paths(worker)[ev(0, 2)]["tx_first"] > 100


def test_a_state_is_set_in_all_queue_pairs_and_asked_for():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1), ev(1, 2))
    connect(worker, *made(worker, profile))
    ask = pq.ModifyEvs(0, profile, ((ev(1, 2), "DENIED"), (ev(1, 3), "DENIED")))
    assert worker.ask(ask) == {"done": 1, "status": "no such EV"}
    told = worker.ask(pq.QueryEvs(0, profile, (ev(0, 1), ev(1, 2))))
    assert told == {"done": 2, "status": "done", "states": ["GOOD", "DENIED"]}
    assert paths(worker)[ev(1, 2)]["state"] == "DENIED"


def test_a_value_over_a_denied_link_begins_denied():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1))
    connect(worker, *made(worker, profile))
    worker.ask(rq.SetDenied((DeniedLink(0, 0, 3, True),)))
    worker.ask(pq.ReplaceEvs(0, profile, (pq.EvReplacement(ev(0, 1), ev(0, 3)),)))
    run(worker, 20)
    assert paths(worker)[ev(0, 3)]["state"] == "DENIED"


def test_modes_auto_and_gen_and_the_floor():
    worker = Worker()
    number = worker.ask(pq.CreateProfile(0, 2))["profile"]
    fields = (pq.GenFieldSettings(16, 0xC000), pq.GenFieldSettings(16, 0x1000, mask=0x3, max=3))
    worker.ask(pq.SetProfile(0, number, "GEN", "SRV6", 4, fields, 2, ("ASSUMED_BAD",)))
    for state in ("OFFLINE", "ONLINE"):
        worker.ask(pq.MoveProfile(0, number, state))
    assert [entry["plane"] for entry in worker.ask(pq.QueryEntries(0, number))["entries"]] == [0] * 4
    below = worker.ask(pq.CreateProfile(0, 1))["profile"]
    worker.ask(pq.SetProfile(0, below, "AUTO", "SRV6", 2, None, 1, ()))
    worker.ask(pq.MoveProfile(0, below, "OFFLINE"))
    assert sorted(entry["plane"] for entry in worker.ask(pq.QueryEntries(0, below))["entries"]) == [0, 1]
    odd = pq.ReplaceEvs(0, below, (pq.EvReplacement(None, ev(0, 1)),))
    assert worker.ask(odd)["done"] == 0, "all entries are filled"


def test_what_cannot_be_is_refused_with_its_reason():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1), modify_online=False)
    with pytest.raises(ProfileStateError, match="EV profile is in ONLINE, which does not allow replacing an EV"):
        worker.ask(pq.ReplaceEvs(0, profile, ()))
    with pytest.raises(RequestError, match="leads to h2, not to h3"):
        made(worker, profile, peer=3)
    with pytest.raises(RequestError, match="h0 has no EV profile 9"):
        worker.ask(pq.QueryEntries(0, 9))
    number = worker.ask(pq.CreateProfile(0, 2))["profile"]
    with pytest.raises(ConfigError, match="min_active is 3"):
        worker.ask(pq.SetProfile(0, number, "AUTO", "SRV6", 2, min_active=3))
    with pytest.raises(ProfileStateError, match="use by a queue pair"):
        made(worker, number)


def test_a_profile_goes_only_after_its_queue_pairs():
    worker = Worker()
    profile = online(worker, ev(0, 1), ev(1, 1))
    end, _ = made(worker, profile)
    with pytest.raises(RequestError, match="is used by queue pairs"):
        worker.ask(pq.DestroyProfile(0, profile))
    worker.ask(rq.Destroy(qps=(rq.QpName(0, end["qpn"]),)))
    worker.ask(pq.DestroyProfile(0, profile))
    with pytest.raises(RequestError, match="has no EV profile"):
        worker.ask(pq.QueryEntries(0, profile))


def test_a_leased_profile_goes_with_its_client():
    worker = Worker()
    leases = Leases(worker.ask)
    number = leases.serve(pq.CreateProfile(0, 2, leased=True), client=1)["profile"]
    leases.left(1)
    with pytest.raises(RequestError, match="has no EV profile"):
        worker.ask(pq.DestroyProfile(0, number))
