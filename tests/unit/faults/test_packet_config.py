"""The bytes that tell an eBPF program its fault, and netem's numbers, say what was asked for."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from faults.model import (
    BlackHole,
    BurstDrop,
    By,
    Corrupt,
    CountedDrop,
    Delay,
    Distribution,
    Duplicate,
    Hang,
    Only,
    RandomDrop,
    Reorder,
    agrees,
)
from faults.packet_config import CONFIG, COUNTS, c_header, config_of, fault_of
from faults.queue import _held, netem_of, table_of

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
queue_faults = st.one_of(
    st.builds(RandomDrop, rates),
    st.builds(BurstDrop, rates, rates, rates, rates),
    st.builds(Corrupt, rates),
    st.builds(Duplicate, rates),
    st.builds(Reorder, rates, st.integers(1, 10**9)),
    st.builds(Delay, st.integers(1, 10**9), st.just(0), st.just(Distribution.UNIFORM)),
)


@given(packet_faults, st.integers(0, 2**63 - 1))
def test_a_configuration_reads_back_as_its_fault(fault, seed):
    config = config_of(fault, seed, 100)
    assert len(config) == CONFIG.itemsize
    assert agrees(fault, fault_of(config))
    assert By.EBPF in fault.makers


@given(packet_faults, packet_faults)
def test_different_faults_do_not_agree(one, other):
    if not agrees(one, other):
        assert not agrees(one, fault_of(config_of(other, 1, 100)))


@given(st.lists(queue_faults, min_size=1, unique_by=lambda fault: "loss" if "drop" in fault.kind else fault.word))
def test_one_netem_makes_all_faults_of_a_port(faults):
    netem = netem_of({fault.word: fault for fault in faults}, seed=3)
    assert netem is not None
    assert netem.seed == 3
    overtaking = sum(fault.ahead_ns for fault in faults if isinstance(fault, Reorder))
    for fault in faults:
        assert agrees(fault, _held(fault, netem, overtaking))


def test_no_fault_no_netem():
    assert netem_of({}, seed=3) is None


def test_distributions_have_no_mean_and_their_deviation():
    for distribution in Distribution:
        table = [value / 8192 for value in table_of(distribution)]
        assert table == sorted(table)
        mean = sum(table) / len(table)
        deviation = (sum((value - mean) ** 2 for value in table) / len(table)) ** 0.5
        assert abs(mean) < 0.05
        assert abs(deviation - WANTED_DEVIATION[distribution]) < 0.005


# A heavy tail ends at four deviations, the largest number of the kernel's table.
WANTED_DEVIATION = {
    Distribution.UNIFORM: 3**-0.5,
    Distribution.NORMAL: 1.0,
    Distribution.PARETO: 0.737,
    Distribution.PARETONORMAL: 0.825,
}


def test_the_header_states_the_layout():
    text = c_header()
    assert f"sizeof(struct config) == {CONFIG.itemsize}" in text
    assert f"sizeof(struct tally) == {COUNTS.itemsize}" in text
