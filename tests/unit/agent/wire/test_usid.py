"""uSIDs: packing, the shift a uN makes, and our numbering."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.usid import (
    CARRIER_USIDS,
    UsidError,
    UsidRole,
    leaf_local,
    leaf_to_leaf,
    pack,
    parts_of,
    shift,
    unpack,
    usid_of,
)

USIDS = st.lists(st.integers(1, 0xFFFF), max_size=CARRIER_USIDS)


def test_the_design_documents_example_reads_by_eye():
    carrier = pack(leaf_to_leaf(plane=0, src_leaf=3, spine=5, dst_leaf=7, slot=0))
    assert IPv6Address(carrier) == IPv6Address("5f00:0:2003:1005:2007:e000::")


def test_a_local_path_turns_at_the_leaf():
    assert IPv6Address(pack(leaf_local(plane=11, leaf=255, slot=16))) == IPv6Address("5f00:0:2bff:eb10::")


def test_each_switch_shifts_once():
    carrier = pack(leaf_to_leaf(1, 3, 5, 7, 2))
    seen = []
    for _ in range(4):
        seen.append(str(IPv6Address(carrier)))
        carrier = shift(carrier)
    assert seen == ["5f00:0:2103:1105:2107:e102::", "5f00:0:1105:2107:e102::", "5f00:0:2107:e102::", "5f00:0:e102::"]
    assert IPv6Address(carrier) == IPv6Address("5f00::")


@given(USIDS, st.integers(0, 0xFFFFFFFF))
def test_unpack_inverts_pack(usids, block):
    assert unpack(pack(usids, block)) == (block, tuple(usids))


@given(USIDS.filter(bool))
def test_a_shift_drops_the_first(usids):
    assert shift(pack(usids)) == pack(usids[1:])


@given(st.sampled_from(UsidRole), st.integers(0, 15), st.integers(0, 255))
def test_parts_invert_a_usid(role, plane, index):
    assert parts_of(usid_of(role, plane, index)) == (role, plane, index)


@pytest.mark.parametrize(("plane", "index"), [(16, 0), (-1, 0), (0, 256), (0, -1)])
def test_what_does_not_fit_is_refused(plane, index):
    with pytest.raises(UsidError):
        usid_of(UsidRole.T1, plane, index)


@pytest.mark.parametrize("usids", [[1] * 7, [0], [0x10000], [5, 0, 5]])
def test_a_chain_that_does_not_fit_is_refused(usids):
    with pytest.raises(UsidError):
        pack(usids)


def test_a_foreign_usid_has_no_parts():
    with pytest.raises(UsidError):
        parts_of(0x3000)
