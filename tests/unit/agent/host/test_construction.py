"""What settings of a request become: EV treatment, windows of their own or shared, trimming classes, ports, denials."""

from dataclasses import replace

import numpy as np
import pytest

from agent.core.config import EvConfig, LossPolicy
from agent.core.congestion.config import NsccConfig
from agent.core.ev.state import EvState
from agent.core.events import QpState
from agent.host.control import requests as rq
from agent.host.errors import RequestError
from agent.io.memory_fabric import PathRule
from agent.wire.array.template import CONTROL_ROW, DATA_ROW
from agent.wire.constants import Dscp, EndpointOp, Opcode
from tests.support.queue_pairs import qp_settings
from tests.unit.agent.core.test_host_pair import requests
from tests.unit.agent.host.test_commands import ADDRESSES, Worker


def channel_of(worker, host, qpn):
    return worker.commands.engine.hosts[host].channels[qpn]


def test_ev_settings_reach_the_queue_pair():
    worker = Worker()
    end, _ = worker.connect(0, 2, ev=EvConfig(loss_policy=LossPolicy.PAPER, active=4), loss_rule="both")
    channel = channel_of(worker, 0, end["qpn"])
    assert channel.qp.config.ev.loss_policy is LossPolicy.PAPER
    states, active = channel.qp.ev_states()
    assert (len(states), int(active.sum())) == (8, 4)
    rows = [row for row in worker.ask(rq.Counters())["evs"] if row["qpn"] == end["qpn"]]
    assert {row["state"] for row in rows} == {"GOOD"}
    assert sum(row["active"] for row in rows) == 4


def test_windows_are_one_each_or_one_for_a_pair():
    worker = Worker()
    ends = [worker.connect(0, 2, nscc=NsccConfig(), shared_window=shared)[0] for shared in (False, True, True)]
    controls = [channel_of(worker, 0, end["qpn"]).qp._congestion for end in ends]
    assert controls[1] is controls[2] is not controls[0]
    assert channel_of(worker, 0, worker.connect(0, 2)[0]["qpn"]).qp._congestion is None


@pytest.mark.parametrize(("trimming", "dscp"), [(True, Dscp.TRIMMABLE), (False, Dscp.NO_TRIM)])
def test_data_is_trimmable_only_if_asked_for(trimming, dscp):
    worker = Worker()
    end, _ = worker.connect(0, 2, trimming=trimming)
    prefix = channel_of(worker, 0, end["qpn"]).template.write_prefix[0]
    assert int.from_bytes(prefix[14:18].tobytes()) >> 22 & 0x3F == dscp


def test_ev_probes_go_in_the_class_of_the_data():
    """They ask about its paths; that of the newest queue pair counts."""
    worker = Worker()
    for trimming, dscp in ((False, Dscp.NO_TRIM), (True, Dscp.TRIMMABLE), (False, Dscp.NO_TRIM)):
        worker.connect(0, 2, trimming=trimming)
        (neighbour,) = worker.commands.engine.hosts[0].neighbours
        words = neighbour.template.tunnel_prefix[:, :, 14].astype(int) << 8 | neighbour.template.tunnel_prefix[:, :, 15]
        assert (words[DATA_ROW] >> 6 & 0x3F == dscp).all()
        assert (words[CONTROL_ROW] >> 6 & 0x3F == Dscp.CONTROL).all()


def test_a_write_goes_through_with_everything_on():
    worker = Worker()
    ev = EvConfig(loss_policy=LossPolicy.PAPER, port_mask=True, tail_probe_ns=500_000, reverse_probe_ns=100_000)
    write = worker.write(0, 2, 300_000, ev=ev, nscc=NsccConfig(), trimming=True, dynamic_mpr=True)
    worker.run(1500)
    assert worker.ask(rq.Verify(2, write["rkey"], 11))["wrong"] == 0


def test_immediates_are_posted_sent_and_taken():
    worker = Worker()
    end, other = worker.connect(0, 2)
    sent = worker.ask(rq.RegisterRegion(0, 1000, 11, "source"))
    received = worker.ask(rq.RegisterRegion(2, 1000, 11, "target"))
    worker.ask(rq.PostReceives(2, other["qpn"], 3))
    where = (received["va"], received["rkey"])
    worker.ask(rq.PostWrite(0, end["qpn"], sent["rkey"], 0, 1000, *where, 500, None, 0xBEEF))
    worker.run()
    taken = worker.ask(rq.Completions(2, other["qpn"]))["completions"]
    assert taken == [{"kind": "immediate", "wr_id": n, "imm": 0xBEEF, "bytes": 500} for n in range(2)]
    assert worker.ask(rq.Completions(0, end["qpn"])) == {"completions": []}


def test_a_held_port_is_left_by_both_ends_and_taken_back():
    worker = Worker()
    end, _ = worker.connect(0, 2)
    worker.run(5)
    for up in (False, True):
        worker.ask(rq.PortState(0, 1, up))
        worker.run(20)
        qps = [channel.qp for runtime in worker.commands.engine.hosts.values() for channel in runtime.channels.values()]
        assert [bool(qp._requester.ev_set.plane_up[1]) for qp in qps] == [up, up]
    with pytest.raises(RequestError, match="no port in plane 7"):
        worker.ask(rq.PortState(0, 7, False))
    assert end["mpr"] == 16


def test_who_has_no_queue_pair_with_us_is_answered_and_what_it_says_of_its_ports_is_kept():
    """Host 0 has its end of a queue pair and speaks to host 2, which has none yet."""
    answers = PathRule(opcodes=(Opcode.ENDPOINT_RESPONSE,), source=2)
    worker = Worker(answers)
    hosts = worker.commands.engine.hosts
    worker.ask(rq.PortState(0, 1, False))
    end, peer = (worker.ask(rq.CreateQp(*pair, qp_settings(pmtu=256))) for pair in ((0, 2), (2, 0)))
    worker.ask(rq.ConnectQp(0, end["qpn"], rq.PeerEnd(host=2, **peer)))
    hosts[0].neighbours.check(2, int(channel_of(worker, 0, end["qpn"]).profile.evs[0]))
    worker.run(1000)
    assert hosts[0].drain_path_answers() == [(2, int(channel_of(worker, 0, end["qpn"]).profile.evs[0]), True)]
    assert worker.fabric.counts[0].seen == 1 + 3, "the update is answered, so three copies are enough"
    assert list(hosts[2].neighbours) == []
    worker.ask(rq.ConnectQp(2, peer["qpn"], rq.PeerEnd(host=0, **end)))
    qp = channel_of(worker, 2, peer["qpn"]).qp
    assert qp._requester.ev_set.remote_up[:2].tolist() == [True, False]


def test_nobody_of_the_lab_is_not_answered():
    worker = Worker()
    host = worker.commands.engine.hosts[2]
    for stranger in (bytes(16), ADDRESSES[2].address):
        asked = requests(EndpointOp.EV_PROBE, 0)
        host.neighbours.receive_requests(replace(asked, source_address=np.frombuffer(stranger, np.uint8)[np.newaxis]))
    assert list(host.neighbours.batches(0)) == []
    assert host.neighbours.unknown == 2
    assert worker.ask(rq.Counters())["rejected"] == [{"host": 2, "reason": "UNKNOWN_HOST", "packets": 2}]


def test_evs_are_denied_and_allowed():
    worker = Worker()
    end, _ = worker.connect(0, 2)
    channel = channel_of(worker, 0, end["qpn"])
    ev = int(channel.profile.evs[3])
    worker.ask(rq.DenyEvs(0, end["qpn"], (ev,)))
    assert np.flatnonzero(channel.qp.ev_states()[0] == EvState.DENIED).tolist() == [3]
    worker.ask(rq.DenyEvs(0, end["qpn"], (ev,), allow=True))
    assert not channel.qp.ev_states()[0].any()


def test_numbers_of_what_is_gone_come_again_and_never_those_of_another_host():
    worker = Worker()
    kept, _ = worker.connect(0, 2)
    region = worker.ask(rq.RegisterRegion(0, 1, 1, "source"))
    wiring, host = worker.commands.wiring, worker.commands.engine.hosts[0]
    wiring._last_qpn[0], wiring._last_key[0] = 4094, 65534
    numbers = [worker.connect(0, 2)[0]["qpn"] for _ in range(2)]
    assert numbers == [4095, kept["qpn"] + 1]
    keys = [worker.ask(rq.RegisterRegion(0, 1, 1, "source"))["rkey"] for _ in range(2)]
    assert keys == [65535, region["rkey"] + 1]
    assert host.channels[kept["qpn"]].qp.state is QpState.RTS


def test_a_host_with_all_numbers_in_use_says_so():
    worker = Worker()
    channel = channel_of(worker, 0, worker.connect(0, 2)[0]["qpn"])
    channels = worker.commands.engine.hosts[0].channels
    channels |= dict.fromkeys(range(1, 4096), channel)
    with pytest.raises(RequestError, match="h0 has 4095 queue pairs already"):
        worker.ask(rq.CreateQp(0, 2))
    del channels[77]
    assert worker.ask(rq.CreateQp(0, 2))["qpn"] == 77
