"""The shape of netem's jitter, which the kernel does not tell: shown by when many real packets arrive.

A distance as Kolmogorov and Smirnov's between what arrived and each distribution there is. The asked one is inside the
bound, with one false alarm in a million. Every other is not, also netem's own without a table (uniform).
"""

import socket
import struct
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from faults.inject import injector_of
from faults.kinds import Delay, Distribution, RandomDrop
from faults.mechanisms.base import Target
from tests.support.namespaces import needs_root
from tests.support.netem import needs_netem
from tests.support.veth_pair import End, veth_pair

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]

SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35  # asm-generic/socket.h
HEAD = b"\x02" * 12 + b"\x88\xb5"  # local experimental EtherType, IEEE 802

PACKETS = 4000
MEAN_NS, SPREAD_NS = 4_000_000_000, 1_000_000_000
"""Four times the spread is no delay; what a busy machine adds is small beside the spread."""
LATE = 50_000_000 / SPREAD_NS
"""How late a packet may be for the machine's sake, in spreads: 50 ms."""
BOUND = float(stats.kstwobign.isf(1e-6)) / PACKETS**0.5
"""0.043; the nearest two distributions are 0.11 apart, whatever the machine does within LATE."""

SHARES = (np.arange(100_000) + 0.5) / 100_000
_SPREAD_OF_PARETO = 3**0.5 / 2
_NORMAL = stats.norm.ppf(SHARES)
_PARETO = stats.pareto(3, loc=-1.5 / _SPREAD_OF_PARETO, scale=1 / _SPREAD_OF_PARETO).ppf(SHARES)
_MIXED = _NORMAL / 4 + 3 * _PARETO / 4
QUANTILES = {
    Distribution.UNIFORM: 2 * SHARES - 1,
    Distribution.NORMAL: _NORMAL,
    Distribution.PARETO: _PARETO,
    Distribution.PARETONORMAL: _MIXED / (0.625 + 0.375 * float(np.mean(_NORMAL * _PARETO))) ** 0.5,
}
"""Of mean 0 and deviation 1, uniform in +-1."""


def distance(arrived: np.ndarray, quantiles: np.ndarray) -> float:
    """The largest gap between the shares that arrived by a time and that should have, if none is early and each late by
    LATE at most; all in spreads around the mean.
    """
    times = np.sort(arrived)
    cut = np.clip(quantiles, -4, 4)
    by_then, before = np.arange(1, len(times) + 1) / len(times), np.arange(len(times)) / len(times)
    too_many = by_then - np.searchsorted(cut, times, side="right") / len(cut)
    too_few = np.searchsorted(cut, times - LATE, side="left") / len(cut) - before
    return float(max(too_many.max(), too_few.max()))


def delays_ns(a: End, b: End) -> np.ndarray:
    """From just before a packet is sent to the kernel's own stamp at its arrival; of all of them."""
    sent, taken = np.zeros(PACKETS, np.int64), {}
    with a.socket() as sending, b.socket() as listening:
        sending.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
        listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
        listening.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        listening.settimeout(MEAN_NS / 1e9 + 4)
        for number in range(PACKETS):
            sent[number] = time.clock_gettime_ns(time.CLOCK_REALTIME)
            sending.send(HEAD + number.to_bytes(4, "big") + bytes(60))
        while len(taken) < PACKETS:
            frame, control, *_ = listening.recvmsg(200, 64)
            seconds, ns = struct.unpack("=2q", control[0][2])
            taken[int.from_bytes(frame[14:18], "big")] = seconds * 10**9 + ns
    return np.array([taken[number] for number in range(PACKETS)]) - sent


def test_the_distributions_can_be_told_apart() -> None:
    """By the same measure, from numbers that no kernel made."""
    rng = np.random.default_rng(5)
    for asked, quantiles in QUANTILES.items():
        drawn = np.clip(rng.choice(quantiles, PACKETS), -4, 4)
        for late in (0, LATE):
            told = {each: distance(drawn + late, shape) < BOUND for each, shape in QUANTILES.items()}
            assert told == {each: each is asked for each in Distribution}


@needs_netem
@pytest.mark.parametrize("asked", list(Distribution))
def test_the_asked_distribution_is_the_one_that_arrives(tmp_path: Path, asked: Distribution) -> None:
    """Set after another one, whose table a netem that stays for a loss would keep.

    A machine that stands still for longer than LATE spoils a measurement, so there are three; but it makes no
    distribution look like another one.
    """
    other = next(each for each in Distribution if each is not asked)
    with veth_pair() as (a, b), injector_of(tmp_path) as injector:
        target = Target("p0:leaf3>spine5", a.name, a.path, "wire0", a.ifindex())
        injector.set(target, RandomDrop(Fraction(1, 1 << 31)), "netem")
        for distribution in (other, asked):
            injector.set(target, Delay(MEAN_NS, SPREAD_NS, distribution), "netem")
        for _ in range(3):
            arrived = (delays_ns(a, b) - MEAN_NS) / SPREAD_NS
            distances = {str(each): round(distance(arrived, shape), 3) for each, shape in QUANTILES.items()}
            if found := [name for name, far in distances.items() if far < BOUND]:
                break
    assert found == [asked], distances
