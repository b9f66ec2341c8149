"""Converts all faults of a port to one set of netem parameters, and these back to faults.

Asks no kernel. Source: net/sched/sch_netem.c.
"""

from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

from faults.kinds import BurstDrop, By, Corrupt, Delay, Distribution, Duplicate, Fault, RandomDrop, Reorder
from faults.quantities import CERTAIN, rate_of_threshold, threshold_of
from testbed.kernel.ports.shaping import NETEM_LIMIT_PKTS, GilbertElliott, Netem

_TABLE_SIZE, _TABLE_SCALE = 4096, 8192  # NETEM_DIST_SCALE of linux/pkt_sched.h
_MOST_16_BITS = 32767


def netem_of(faults: dict[str, Fault], seed: int) -> Netem | None:
    """Return the one netem that makes all of a port's faults; None without any of netem's."""
    netem = Netem(seed=seed, delay_ns=sum(map(delay_of, faults.values())))
    for fault in faults.values():
        match fault:
            case RandomDrop(rate):
                netem = replace(netem, loss_u32=chance_of(rate))
            case BurstDrop(p, r, bad, good):
                netem = replace(netem, burst=_burst_of(p, r, bad, good))
            case Corrupt(rate):
                netem = replace(netem, corrupt_u32=chance_of(rate))
            case Duplicate(rate):
                netem = replace(netem, duplicate_u32=chance_of(rate))
            case Reorder(rate):
                netem = replace(netem, reorder_u32=chance_of(rate))
            case Delay(_, jitter_ns, distribution):
                netem = replace(netem, jitter_ns=jitter_ns, table=table_of(distribution) if jitter_ns else ())
            case _ if By.NETEM in fault.says.makers:
                raise ValueError(f"nothing here makes {fault}")
    return None if netem == Netem() else netem


def delay_of(fault: Fault) -> int:
    """Return nanoseconds of netem's delay for a fault; reordering needs a delay of the packets that do not overtake."""
    match fault:
        case Reorder(_, ahead_ns):
            return ahead_ns
        case Delay(delay_ns):
            return delay_ns
        case _:
            return 0


def chance_of(rate: Fraction) -> int:
    """Return netem's number for a rate: a random number at most as large is a hit; 0 means never."""
    return max(threshold_of(rate) - 1, 1) if rate else 0


def rate_of_chance(chance: int) -> Fraction:
    """Return the rate of a number."""
    return rate_of_threshold(chance + 1) if chance else Fraction(0)


def table_of(distribution: Distribution) -> tuple[int, ...]:
    """Return quantiles of a distribution with mean 0 and deviation 1, in 1/8192; uniform is within +-1."""
    quantile = _QUANTILES[distribution]
    values = (quantile((at + 0.5) / _TABLE_SIZE) for at in range(_TABLE_SIZE))
    return tuple(max(-_MOST_16_BITS, min(_MOST_16_BITS, round(value * _TABLE_SCALE))) for value in values)


def _uniform(share: float) -> float:
    return 2 * share - 1


def _pareto(share: float) -> float:
    """Return a Pareto quantile of shape 3: mean 3/2, deviation sqrt(3)/2."""
    return float(((1 - share) ** (-1 / 3) - 1.5) / (3**0.5 / 2))


def _paretonormal(share: float) -> float:
    """Return a quarter of the normal and three of the Pareto quantile, as tc makes it, over the deviation of that
    sum.
    """
    return (_normal(share) + 3 * _pareto(share)) / (4 * _PARETONORMAL_DEVIATION)


_normal = NormalDist().inv_cdf
_PARETONORMAL_DEVIATION = 0.938
"""sqrt(1/16 + 9/16 + 2 * 3/16 * 0.678), where 0.678 is the mean product of the two quantiles, integrated."""
_QUANTILES = {
    Distribution.UNIFORM: _uniform,
    Distribution.NORMAL: _normal,
    Distribution.PARETO: _pareto,
    Distribution.PARETONORMAL: _paretonormal,
}


def _burst_of(p: Fraction, r: Fraction, bad: Fraction, good: Fraction) -> GilbertElliott:
    """Return numbers below which a state is left, or a packet lost in the good one; above, lost in the bad one."""
    below = [min(threshold_of(rate), CERTAIN - 1) for rate in (p, r, good)]
    return GilbertElliott(below[0], below[1], max(CERTAIN - threshold_of(bad) - 1, 0), below[2])


def held(fault: Fault, netem: Netem, others_ns: int) -> Fault | None:
    """Return the fault of this kind that a netem makes; None if it makes none. `others_ns` of its delay are for
    other faults.

    A distribution is not read: the kernel does not report its table. A queue shorter than ours makes no fault of ours,
    since it drops by itself.
    """
    if netem.limit_pkts < NETEM_LIMIT_PKTS:
        return None
    match fault:
        case RandomDrop():
            return RandomDrop(rate_of_chance(netem.loss_u32)) if netem.loss_u32 else None
        case BurstDrop():
            return None if netem.burst is None else _burst_in(netem.burst)
        case Corrupt():
            return Corrupt(rate_of_chance(netem.corrupt_u32)) if netem.corrupt_u32 else None
        case Duplicate():
            return Duplicate(rate_of_chance(netem.duplicate_u32)) if netem.duplicate_u32 else None
        case Reorder():
            return Reorder(rate_of_chance(netem.reorder_u32), netem.delay_ns - others_ns) if netem.reorder_u32 else None
        case Delay():
            return Delay(netem.delay_ns - others_ns, netem.jitter_ns, fault.distribution)
        case _:
            return None


def _burst_in(burst: GilbertElliott) -> BurstDrop:
    p, r, good = (rate_of_threshold(value) for value in (burst.p_u32, burst.r_u32, burst.k1_u32))
    return BurstDrop(p, r, 1 - rate_of_threshold(burst.h_u32 + 1), good)
