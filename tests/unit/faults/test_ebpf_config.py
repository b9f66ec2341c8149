"""The bytes that tell an eBPF program its fault say what was asked for."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from faults.kinds import (
    BlackHole,
    BurstDrop,
    By,
    Corrupt,
    CountedDrop,
    Duplicate,
    Hang,
    RandomDrop,
)
from faults.mechanisms.ebpf_config import CONFIG, COUNTS, c_header, config_of, fault_of
from faults.selector import Only

rates = st.fractions(Fraction(1, 10**6), 1)
u32 = st.integers(0, 2**32 - 1)
onlies = st.builds(
    Only,
    size_bytes=st.none() | st.tuples(u32, u32),
    qpn=st.none() | st.integers(0, 0xFFFFFF),
    ev=st.none() | st.tuples(u32, u32),
    dscp=st.none() | st.integers(0, 63),
    control=st.booleans(),
    host=st.none() | st.integers(0, 0xFFFF),
    last=st.none() | st.integers(1, 1000),
    first_sent=st.booleans(),
)
packet_faults = st.one_of(
    st.builds(RandomDrop, rates, onlies),
    st.builds(BurstDrop, rates, rates, rates, rates, onlies),
    st.builds(CountedDrop, st.integers(1, 2**31), onlies),
    st.builds(BlackHole, st.integers(0, 0xFFFF)),
    st.just(Hang()),
    st.builds(Corrupt, rates, onlies),
    st.builds(Duplicate, rates, onlies),
)


@given(packet_faults, st.integers(0, 2**63 - 1))
def test_a_configuration_reads_back_as_its_fault(fault, seed):
    config = config_of(fault, seed, 100)
    assert len(config) == CONFIG.itemsize
    assert fault.agrees(fault_of(config))
    assert By.EBPF in fault.makers


@given(packet_faults, packet_faults)
def test_different_faults_do_not_agree(one, other):
    if not one.agrees(other):
        assert not one.agrees(fault_of(config_of(other, 1, 100)))


def test_the_header_states_the_layout():
    text = c_header()
    assert f"sizeof(struct config) == {CONFIG.itemsize}" in text
    assert f"sizeof(struct tally) == {COUNTS.itemsize}" in text
