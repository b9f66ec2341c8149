"""What a sender declares: exact for any cutting of packets into batches and flows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.send.flow_shares import FlowShares

EVS = 5


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 40)), max_size=6),
    cuts=st.lists(st.integers(1, 30), max_size=30),
    seed=st.integers(0, 99),
)
def test_every_flow_gets_its_own_packets_and_no_others(gaps, cuts, seed):
    shares, flows, at = FlowShares(EVS), [], 0
    for gap, packets in gaps:
        flows.append((at + gap, packets))
        at += gap + packets
        shares.watch(*flows[-1])
    total = sum(cuts)
    evs = np.random.default_rng(seed).integers(0, EVS, total).astype(np.uint16)
    sent = 0
    for cut in cuts:
        shares.record(sent, evs[sent : sent + cut])
        sent += cut
    ended = shares.drain_ended()
    expected = [(first, packets) for first, packets in flows if first + packets <= total]
    assert [each.first for each in ended] == [first for first, _ in expected]
    for each, (first, packets) in zip(ended, expected, strict=True):
        assert each.tx_first.tolist() == np.bincount(evs[first : first + packets], minlength=EVS).tolist()
    shares.give_up()
    rest = shares.drain_ended()
    assert len(ended) + len(rest) == len(flows)
    for each, (first, packets) in zip(rest, flows[len(ended) :], strict=True):
        assert each.tx_first.tolist() == np.bincount(evs[first : first + packets], minlength=EVS).tolist()
    assert shares.drain_ended() == []
