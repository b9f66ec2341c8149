"""Defines kinds that change when a packet arrives: reordering, delay, a slow link."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Self

from faults.errors import QuantityError
from faults.grammar import Reader, Takes, Word, one_of
from faults.kinds.base import By, Fault, Hit, Kind
from faults.quantities import (
    parse_bit_rate,
    parse_bytes,
    render_bit_rate,
    render_duration,
    render_rate,
)

MIN_QUEUE_BYTES = 64 << 10
"""Least queue of a rate limit: seven of the largest frames (our choice)."""
MOST_JITTER_NS = 2_147_000_000
"""Largest jitter: netem keeps it in 31 bits of nanoseconds."""
QUEUE_SECONDS = Fraction(1, 20)
"""Default queue of a rate limit: as much as passes in 50 ms (our choice)."""


class Distribution(StrEnum):
    """Distribution of a jittered delay: uniform within +-jitter, or with jitter as the standard deviation.

    netem's numbers end at four deviations. That takes little from a normal one; a pareto one with its long tail keeps
    0.74 of its deviation, paretonormal 0.82.
    """

    UNIFORM = "uniform"
    NORMAL = "normal"
    PARETO = "pareto"
    PARETONORMAL = "paretonormal"


class _Delays(Fault):
    """A fault that drops nothing on purpose; its counters do not explain retransmissions."""

    __slots__ = ()

    @property
    def drop_rate(self) -> None:
        return None

    @classmethod
    def why_uncounted(cls, mechanism: str) -> str:
        del mechanism
        return "it changes time and order, so packets that arrive may be counted as lost"


@Kind(
    Word(
        "reorder",
        "RATE",
        "Let a share of packets overtake others; with --ahead.",
        "Let this share of packets overtake others; needs `ahead`.",
        Takes.SHARE,
    ),
    makers=(By.NETEM,),
    hits=Hit.ARRIVES,
    example={"reorder": "5%", "ahead": "1ms"},
    details=(
        Word("ahead", "TIME", "Delay that reordered packets skip.", "Delay that reordered packets skip.", Takes.TIME),
    ),
)
@dataclass(frozen=True, slots=True)
class Reorder(_Delays):
    """Lets a packet overtake those of the `ahead_ns` before it with probability `rate`: it skips a delay of all
    others.
    """

    rate: Fraction
    ahead_ns: int

    @classmethod
    def read(cls, words: Reader) -> Self:
        rate, ahead_ns = words.rate("reorder"), words.waiting("ahead")
        if "ahead" not in words:
            words.wrong("reorder", "reordering needs the delay that packets skip", "add ahead, for example 1ms")
        elif rate and not ahead_ns and not words.is_wrong("ahead"):
            words.wrong("ahead", "0 reorders nothing", "write the delay that reordered packets skip, as 1ms")
        return cls(rate, ahead_ns)

    @property
    def is_nothing(self) -> bool:
        return not self.rate

    @property
    def text(self) -> str:
        return f"{render_rate(self.rate)} ahead {render_duration(self.ahead_ns)}"


@Kind(
    Word(
        "delay",
        "TIME",
        "Delay every packet: 10ms; with --jitter and --distribution.",
        "Delay every packet; with `jitter`, `distribution`.",
        Takes.TIME,
    ),
    makers=(By.NETEM,),
    hits=Hit.ARRIVES,
    example={"delay": "10ms"},
    details=(
        Word("jitter", "TIME", "Spread of the delay.", "Spread of the delay.", Takes.TIME),
        Word(
            "distribution",
            "NAME",
            "Distribution of the delay: uniform, normal, pareto or paretonormal.",
            "Distribution of the delay: `uniform`, `normal`, `pareto`, `paretonormal`.",
            Takes.TEXT,
        ),
    ),
)
@dataclass(frozen=True, slots=True)
class Delay(_Delays):
    """Delays every packet by `delay_ns`, plus or minus `jitter_ns`; jitter also reorders."""

    delay_ns: int
    jitter_ns: int = 0
    distribution: Distribution = Distribution.UNIFORM

    @classmethod
    def read(cls, words: Reader) -> Self:
        delay_ns, jitter_ns = words.waiting("delay"), words.duration("jitter")
        if jitter_ns > delay_ns:
            words.wrong("jitter", "is larger than the delay", "packets cannot come before they are sent")
        elif jitter_ns > MOST_JITTER_NS:
            words.wrong("jitter", "is more than the kernel can make", f"at most {render_duration(MOST_JITTER_NS)}")
        return cls(delay_ns, jitter_ns, words.read("distribution", _distribution) or Distribution.UNIFORM)

    @property
    def is_nothing(self) -> bool:
        return not self.delay_ns and not self.jitter_ns

    @property
    def text(self) -> str:
        spread = f" +- {render_duration(self.jitter_ns)} {self.distribution}" if self.jitter_ns else ""
        return f"{render_duration(self.delay_ns)}{spread}"


@Kind(
    Word(
        "rate",
        "BITRATE",
        "Slow the link down: 10Mbit; with --queue.",
        "Limit the link's rate; with `queue`.",
        Takes.BIT_RATE,
    ),
    makers=(By.TBF,),
    hits=Hit.ARRIVES,
    example={"rate": "10Mbit"},
    details=(
        Word(
            "queue",
            "BYTES",
            "Queue of the rate limit, in bytes; 50 ms worth when left out.",
            "Queue of the rate limit, in bytes; left out, 50 ms worth.",
            Takes.TEXT,
        ),
    ),
)
@dataclass(frozen=True, slots=True)
class RateLimit(_Delays):
    """Slows a link down: at most `bits_per_s` of frames pass, others wait in a queue of `queue_bytes`, or are
    dropped there.
    """

    bits_per_s: int
    queue_bytes: int = 1 << 20

    @classmethod
    def read(cls, words: Reader) -> Self:
        bits = words.read("rate", parse_bit_rate) or 0
        least = max(MIN_QUEUE_BYTES, int(bits * QUEUE_SECONDS / 8))
        queue = words.read("queue", _queue_bytes)
        return cls(bits, min(least, 1 << 31) if queue is None else queue)

    @property
    def is_nothing(self) -> bool:
        return not self.bits_per_s

    @property
    def text(self) -> str:
        return f"{render_bit_rate(self.bits_per_s)} queue {self.queue_bytes} B"


def _distribution(text: str) -> Distribution:
    return Distribution(one_of(text, [each.value for each in Distribution], "is not a distribution"))


def _queue_bytes(text: str) -> int:
    size = parse_bytes(text)
    if not MIN_QUEUE_BYTES <= size <= 1 << 31:
        raise QuantityError(text, "is out of range", f"{MIN_QUEUE_BYTES} to {1 << 31} bytes are possible")
    return size
