"""Entropy values: both half orders, scalar and by array, and the address an EV stands for."""

from ipaddress import IPv6Address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.ev import MAX_COPIES, EvCodec, EvError, EvOrder, EvPath
from agent.wire.usid import WireError

ORDERS = st.sampled_from(EvOrder)


@given(ORDERS, st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_join_inverts_the_halves(order, values):
    codec, evs = EvCodec(order), np.array(values, np.uint32)
    assert (codec.join(codec.sport(evs), codec.flow_label(evs)) == evs).all()


def test_the_default_order_is_table_9_1():
    ev = np.array([0xC0011005], np.uint32)
    assert EvCodec().sport(ev)[0] == 0xC001
    assert EvCodec().flow_label(ev)[0] == 0x1005


def test_the_other_order_swaps_the_halves():
    ev = np.array([0xC0011005], np.uint32)
    codec = EvCodec(EvOrder.SPORT_LOW)
    assert (codec.sport(ev)[0], codec.flow_label(ev)[0]) == (0x1005, 0xC001)


@given(ORDERS, st.integers(0, 15), st.none() | st.integers(0, 255), st.integers(0, 255), st.integers(0, MAX_COPIES - 1))
def test_an_ev_tells_its_path(order, plane, spine, leaf, copy):
    codec = EvCodec(order)
    ev = codec.ev_of(plane, spine, leaf, copy)
    assert codec.path_of(ev) == EvPath(plane, spine, leaf if spine is None else None, copy)
    word = np.array([ev], np.uint32)
    assert codec.plane_of(word)[0] == plane
    assert codec.spine_of(word)[0] == (-1 if spine is None else spine)
    assert codec.sport(word)[0] >= 0xC000


def test_structured_evs_read_by_eye():
    assert EvCodec().ev_of(plane=1, spine=5, leaf=7, copy=2) == 0xC0021105
    assert EvCodec().ev_of(plane=1, spine=None, leaf=7) == 0xC0002107


def test_the_carrier_of_an_ev():
    codec = EvCodec()
    across = codec.carrier_of(codec.ev_of(1, 5, 7), src_leaf=3, dst_leaf=7, slot=2)
    local = codec.carrier_of(codec.ev_of(1, None, 3), src_leaf=3, dst_leaf=3, slot=2)
    assert IPv6Address(across) == IPv6Address("5f00:0:2103:1105:2107:e102::")
    assert IPv6Address(local) == IPv6Address("5f00:0:2103:e102::")


@pytest.mark.parametrize(("src_leaf", "dst_leaf"), [(3, 7), (7, 7)])
def test_a_local_ev_joins_no_other_leaves(src_leaf, dst_leaf):
    codec = EvCodec()
    with pytest.raises(EvError, match="leaf 3"):
        codec.carrier_of(codec.ev_of(0, None, 3), src_leaf, dst_leaf, 0)


@pytest.mark.parametrize("ev", [0xC000E000, 0xC0000000, 0xC0003005])
def test_a_foreign_ev_names_no_path(ev):
    with pytest.raises(WireError):
        EvCodec().path_of(ev)


def test_a_copy_that_does_not_fit_is_refused():
    with pytest.raises(EvError, match="16383"):
        EvCodec().ev_of(0, 0, 0, MAX_COPIES)
