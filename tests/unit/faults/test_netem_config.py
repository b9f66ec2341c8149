"""What a netem is told makes the faults that were asked for, and says so when it is read."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from faults.kinds import BurstDrop, Corrupt, Delay, Distribution, Duplicate, RandomDrop, Reorder
from faults.mechanisms.netem_config import delay_of, held, netem_of, table_of

rates = st.fractions(Fraction(1, 10**6), 1)
queue_faults = st.one_of(
    st.builds(RandomDrop, rates),
    st.builds(BurstDrop, rates, rates, rates, rates),
    st.builds(Corrupt, rates),
    st.builds(Duplicate, rates),
    st.builds(Reorder, rates, st.integers(1, 10**9)),
    st.builds(Delay, st.integers(1, 10**9), st.just(0), st.just(Distribution.UNIFORM)),
)


@given(st.lists(queue_faults, min_size=1, unique_by=lambda fault: "loss" if "drop" in fault.kind else fault.word))
def test_one_netem_makes_all_faults_of_a_port(faults):
    netem = netem_of({fault.word: fault for fault in faults}, seed=3)
    assert netem is not None
    assert netem.seed == 3
    for fault in faults:
        others_ns = sum(delay_of(other) for other in faults if other is not fault)
        assert fault.agrees(held(fault, netem, others_ns))
        assert held(fault, replace(netem, limit_pkts=1000), others_ns) is None
        if delay_of(fault):
            assert not fault.agrees(held(fault, replace(netem, delay_ns=netem.delay_ns + 1), others_ns))


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
