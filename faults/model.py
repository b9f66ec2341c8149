"""What can be wrong in a fabric, as values: one frozen description a kind, with what it is put on and what can make it.

Exact: a rate is a fraction until it becomes the 32-bit number the kernel compares with. Refuses to know the kernel,
the fabric and the clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from faults.only import ALL, Only
from faults.quantities import render_bit_rate, render_duration, render_rate, threshold_of


class By(StrEnum):
    """What makes a fault; the value is what users write."""

    NETEM = "netem"
    EBPF = "ebpf"
    TBF = "tbf"
    LINK = "link"


NEEDS: dict[By, str] = {
    By.NETEM: "CONFIG_NET_SCH_NETEM (module sch_netem)",
    By.EBPF: "CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS; clang, libbpf and its headers",
    By.TBF: "CONFIG_NET_SCH_TBF (module sch_tbf)",
    By.LINK: "nothing beyond veth",
}
"""Kernel options and programs that a mechanism needs."""


class On(StrEnum):
    """What a kind can be put on."""

    PORTS = "ports"
    """Any direction of any link: its sending port."""
    SWITCH = "switch"
    """Whole leaves and spines: all their ports."""


class Distribution(StrEnum):
    """How jitter spreads a delay: evenly within +-jitter, or with jitter as the standard deviation.

    netem's numbers end at four deviations. That takes little from a normal one; a pareto one with its long tail keeps
    0.74 of its deviation, paretonormal 0.82.
    """

    UNIFORM = "uniform"
    NORMAL = "normal"
    PARETO = "pareto"
    PARETONORMAL = "paretonormal"


@dataclass(frozen=True, slots=True)
class RandomDrop:
    """Every packet is dropped with probability `rate`, independently; 0 <= rate <= 1."""

    rate: Fraction
    only: Only = ALL

    kind: ClassVar[str] = "random-drop"
    word: ClassVar[str] = "drop"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.NETEM, By.EBPF)

    @property
    def threshold(self) -> int:
        """A packet is dropped when a uniform 32-bit number is below this; 0 to CERTAIN."""
        return threshold_of(self.rate)

    def __str__(self) -> str:
        """As `drop 1%`."""
        return f"drop {render_rate(self.rate)}{self.only}"


@dataclass(frozen=True, slots=True)
class BurstDrop:
    """Gilbert-Elliott: a packet is dropped with probability `bad` or `good`, whichever state it finds; then the state
    changes with probability `p` (good to bad) or `r` (bad to good).
    """

    p: Fraction
    r: Fraction
    bad: Fraction = Fraction(1)
    good: Fraction = Fraction(0)
    only: Only = ALL

    kind: ClassVar[str] = "burst-drop"
    word: ClassVar[str] = "gemodel"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.NETEM, By.EBPF)

    @property
    def rate(self) -> Fraction:
        """Drop rate in the long run."""
        in_bad = self.p / (self.p + self.r) if self.p else Fraction(0)
        return in_bad * self.bad + (1 - in_bad) * self.good

    def __str__(self) -> str:
        """With all four probabilities."""
        told = (f"{name}={render_rate(getattr(self, name))}" for name in ("p", "r", "bad", "good"))
        return f"gemodel {','.join(told)}{self.only}"


@dataclass(frozen=True, slots=True)
class CountedDrop:
    """Of every `every` packets the last is dropped: no chance at all."""

    every: int
    only: Only = ALL

    kind: ClassVar[str] = "counted-drop"
    word: ClassVar[str] = "one-in"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.EBPF,)

    @property
    def rate(self) -> Fraction:
        """Drop rate."""
        return Fraction(1, self.every) if self.every else Fraction(0)

    def __str__(self) -> str:
        """As `one-in 100`."""
        return f"one-in {self.every}{self.only}"


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Everything to one host is dropped."""

    host: int

    kind: ClassVar[str] = "black-hole"
    word: ClassVar[str] = "black-hole"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.EBPF,)

    @property
    def only(self) -> Only:
        """The packets that vanish."""
        return Only(host=self.host)

    def __str__(self) -> str:
        """As `black-hole to h3`."""
        return f"black-hole to h{self.host}"


@dataclass(frozen=True, slots=True)
class Hang:
    """A hung switch: links and the switch itself stay up, nothing is forwarded."""

    kind: ClassVar[str] = "hang"
    word: ClassVar[str] = "hang"
    on: ClassVar[On] = On.SWITCH
    makers: ClassVar[tuple[By, ...]] = (By.EBPF,)

    @property
    def only(self) -> Only:
        """The packets that vanish."""
        return Only(forwarded=True)

    def __str__(self) -> str:
        """What it is."""
        return "hang"


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One random bit of a packet is turned with probability `rate`."""

    rate: Fraction
    only: Only = ALL

    kind: ClassVar[str] = "corrupt"
    word: ClassVar[str] = "corrupt"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.EBPF, By.NETEM)
    """eBPF first: netem turns bits of the headers that happen to lie in linear memory, so that most of its corrupt
    packets are simply lost on the way."""

    def __str__(self) -> str:
        """As `corrupt 1%`."""
        return f"corrupt {render_rate(self.rate)}{self.only}"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A packet is sent twice with probability `rate`."""

    rate: Fraction
    only: Only = ALL

    kind: ClassVar[str] = "duplicate"
    word: ClassVar[str] = "duplicate"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.NETEM, By.EBPF)

    def __str__(self) -> str:
        """As `duplicate 1%`."""
        return f"duplicate {render_rate(self.rate)}{self.only}"


@dataclass(frozen=True, slots=True)
class Reorder:
    """A packet overtakes those of the `ahead_ns` before it with probability `rate`: it skips a delay of all others."""

    rate: Fraction
    ahead_ns: int

    kind: ClassVar[str] = "reorder"
    word: ClassVar[str] = "reorder"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.NETEM,)

    def __str__(self) -> str:
        """As `reorder 5% ahead 1ms`."""
        return f"reorder {render_rate(self.rate)} ahead {render_duration(self.ahead_ns)}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Every packet comes later by `delay_ns`, give or take `jitter_ns`; jitter also reorders."""

    delay_ns: int
    jitter_ns: int = 0
    distribution: Distribution = Distribution.UNIFORM

    kind: ClassVar[str] = "delay"
    word: ClassVar[str] = "delay"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.NETEM,)

    def __str__(self) -> str:
        """As `delay 10ms +- 2ms normal`."""
        spread = f" +- {render_duration(self.jitter_ns)} {self.distribution}" if self.jitter_ns else ""
        return f"delay {render_duration(self.delay_ns)}{spread}"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A slow link: at most `bits_per_s` of frames, the rest waits in a queue of `queue_bytes`, and overflows it."""

    bits_per_s: int
    queue_bytes: int = 1 << 20

    kind: ClassVar[str] = "rate"
    word: ClassVar[str] = "rate"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.TBF,)

    def __str__(self) -> str:
        """As `rate 10Mbit`."""
        return f"rate {render_bit_rate(self.bits_per_s)} queue {self.queue_bytes} B"


@dataclass(frozen=True, slots=True)
class Down:
    """The port is shut: `leaf3>spine5` shuts leaf3's end, `leaf3-spine5` both. The other end loses its carrier."""

    kind: ClassVar[str] = "down"
    word: ClassVar[str] = "down"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.LINK,)

    def __str__(self) -> str:
        """What it is."""
        return "down"


@dataclass(frozen=True, slots=True)
class Flap:
    """The port is shut and opened: `count` times (0: without end) it is down for `duty` of a `period_ns`, each edge
    moved at random by up to `jitter_ns`.
    """

    period_ns: int
    duty: Fraction = Fraction(1, 2)
    count: int = 0
    jitter_ns: int = 0

    kind: ClassVar[str] = "flap"
    word: ClassVar[str] = "flap"
    on: ClassVar[On] = On.PORTS
    makers: ClassVar[tuple[By, ...]] = (By.LINK,)

    def __str__(self) -> str:
        """As `flap period=2s,duty=50%,count=3,jitter=0s`."""
        period, jitter = render_duration(self.period_ns), render_duration(self.jitter_ns)
        return f"flap period={period},duty={render_rate(self.duty)},count={self.count},jitter={jitter}"


@dataclass(frozen=True, slots=True)
class Reboot:
    """A switch shuts all its ports for `down_ns` and comes back with its static table."""

    down_ns: int

    kind: ClassVar[str] = "reboot"
    word: ClassVar[str] = "reboot"
    on: ClassVar[On] = On.SWITCH
    makers: ClassVar[tuple[By, ...]] = (By.LINK,)

    def __str__(self) -> str:
        """As `reboot down for 2s`."""
        return f"reboot down for {render_duration(self.down_ns)}"


@dataclass(frozen=True, slots=True)
class Crash:
    """A switch shuts all its ports and does not come back until it is cleared."""

    kind: ClassVar[str] = "crash"
    word: ClassVar[str] = "crash"
    on: ClassVar[On] = On.SWITCH
    makers: ClassVar[tuple[By, ...]] = (By.LINK,)

    def __str__(self) -> str:
        """What it is."""
        return "crash"


Drop = RandomDrop | BurstDrop | CountedDrop | BlackHole | Hang
PortDown = Down | Flap | Reboot | Crash
Fault = Drop | Corrupt | Duplicate | Reorder | Delay | RateLimit | PortDown

KINDS: tuple[type[Fault], ...] = (
    RandomDrop,
    BurstDrop,
    CountedDrop,
    BlackHole,
    Hang,
    Corrupt,
    Duplicate,
    Reorder,
    Delay,
    RateLimit,
    Down,
    Flap,
    Reboot,
    Crash,
)
"""Every kind there is."""
