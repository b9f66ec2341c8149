"""Defines the requests to the lab's owner over its unix socket, and its answers: one JSON object per line.

`scenarios.lab.client` sends them, `scenarios.lab.owner.process` answers.
"""

from enum import StrEnum

import msgspec

from agent.spraycheck.statistics.verdicts import LEAST_TESTS
from results.captures.tcpdump import MOST_BYTES, SNAPLEN_BYTES
from results.files.user_files import Invoker
from results.records.source_hash import SourceCode
from scenarios.errors import EnvironmentLackingError, LabStateError, OwnerFailedError, ScenariosError, UsageError
from scenarios.lab.lab_dir import LabShape
from scenarios.lab.processes import ProcessId
from testbed.model.node_config import Difference


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class Status(_Request, frozen=True, tag="status"):
    """Ask what is up: `LabStatus`."""


class FaultSet(_Request, frozen=True, tag="fault_set"):
    """Put faults on every direction that `target` selects; zero removes them. Reply: `Faults` that were replaced,
    with their last counters, and those of the order that are now in force, with the next steps of its
    timelines.

    `words` are those of `faults.request`. The same `seed` chooses and hits the same; None draws one. What is `leased`
    is cleared when the connection that asked for it ends.
    """

    target: str
    words: dict[str, str | bool]
    mechanism: str = "auto"
    by: str = "hand"
    seed: int | None = None
    leased: bool = False


class FaultShow(_Request, frozen=True, tag="fault_show"):
    """List all faults in force, with current counters, and all timelines: `Faults`."""


class FaultClear(_Request, frozen=True, tag="fault_clear"):
    """Remove faults, of one target or (None) all, of one kind or (None) all. Reply: `Faults` with their last
    counters, and failures of their timelines.

    `leased`: only those that this connection has leased.
    """

    target: str | None = None
    word: str | None = None
    leased: bool = False


class FaultEvent(_Request, frozen=True, tag="fault_event"):
    """Report an event that timelines may wait for: `Faults`."""

    event: str
    mono_ns: int | None = None
    """Monotonic time of the event; None: now."""
    coming: bool = False
    """Whether it is still to come: faults that must be in force from then on are set now."""


class CaptureStart(_Request, frozen=True, tag="capture_start"):
    """Record both ends of the links that `links` select into a folder. Reply: `Captures` that are running now.

    Of each packet `snaplen` bytes. All files together take `most_bytes`, in equal shares; one that has its share ends.

    What is `leased` ends with the connection that asked for it.
    """

    links: tuple[str, ...]
    folder: str
    invoker: Invoker | None
    """User with whose rights the files are made; None: root's."""
    leased: bool = False
    snaplen: int = SNAPLEN_BYTES
    most_bytes: int = MOST_BYTES


class CaptureStop(_Request, frozen=True, tag="capture_stop"):
    """End the captures into a folder, or (None) all that are not leased. Reply: `Captures` with their counts."""

    folder: str | None = None


class Measuring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings with which SprayCheck is started."""

    min_rate: str = "1%"
    """Smallest drop rate that must not be missed."""
    copies: int = 1
    """Entropy values per path."""
    narrow: bool = False
    """Whether counters have 16 bits; fixed for the life of a lab."""
    one: bool = False
    """Whether a leaf measures one of its flows at a time."""
    reset_s: float = 60.0
    """Time after which a leaf forgets whose turn it was."""
    act: bool = False
    """Whether named links become denied."""
    expectation: str = "uniform"
    """Expectation whose accusations deny links."""
    lift_after: int = 0
    """Answered probes in a row after which a denied link is allowed again; 0: never by itself."""
    priority_bps: int = 0
    """Rate of every uplink, at which measured packets go first; 0: neither."""
    run_tests: int = LEAST_TESTS
    """Number of tests that share the false-positive rate of a run, by what senders declare."""
    per_leaf: bool = False
    """Whether every leaf has its own process inside its namespace, and the monitor one."""


class NewEpoch(_Request, frozen=True, tag="new_epoch"):
    """Prepare SprayCheck for a run. Reply: `Epoch`, a number that no earlier run of this lab has used."""

    measuring: Measuring = Measuring()


class Deny(_Request, frozen=True, tag="deny"):
    """Stop all queue pairs from using every direction that `target` selects. Reply: all `Denials`."""

    target: str


class Allow(_Request, frozen=True, tag="allow"):
    """Allow them again, or (None) everything. Reply: the remaining `Denials`."""

    target: str | None = None


class DenyShow(_Request, frozen=True, tag="deny_show"):
    """List what is denied: `Denials`."""


class Check(_Request, frozen=True, tag="check"):
    """Read every node from the kernel and compare it with its plan: `Checked`."""


class Shutdown(_Request, frozen=True, tag="shutdown"):
    """Take the lab down. Reply: `Done`, then the owner ends."""


Request = (
    Status
    | FaultSet
    | FaultShow
    | FaultClear
    | FaultEvent
    | CaptureStart
    | CaptureStop
    | NewEpoch
    | Deny
    | Allow
    | DenyShow
    | Check
    | Shutdown
)


class FaultState(msgspec.Struct, frozen=True):
    """One direction with a fault."""

    link: str
    kind: str
    requested: float | None
    """Requested drop rate, as a fraction; None for kinds that drop nothing on purpose."""
    in_force: float | None
    """Drop rate that the kernel holds; None also when it was removed."""
    mechanism: str
    by: str
    """`hand`, or the run that set it."""
    since: str
    seen: int
    """Packets of this direction since the fault is in force."""
    dropped: int
    """Packets that the fault dropped."""
    dropped_writes: int | None
    """Dropped MRC requests (not SACKs); None when the mechanism does not count them."""
    fault: str = ""
    """Name that distinguishes the faults of one direction: the word, and the packets it affects."""
    hit: int | None = None
    """Packets that it affected; None when the mechanism does not count them."""
    dropped_reverse: int | None = None
    """Packets lost in the other direction, at a port that is shut."""
    overlimits: int = 0
    """Number of packets that a rate limit delayed."""
    seed: int | None = None
    """Seed of which packets are hit; None when the mechanism leaves that to the kernel."""
    requested_text: str = ""
    """The requested amount, for people: `1%`, `10ms`."""
    in_force_text: str = ""
    """What the kernel holds, `nothing` or `removed`; the request, if it is equal up to the kernel's resolution."""


class FaultPlanned(msgspec.Struct, frozen=True):
    """The next step of a timeline, at a time, at an event, or at whichever comes first."""

    link: str
    kind: str
    fault: str
    """The word, and the packets it affects, as in `FaultState`."""
    requested_text: str
    act: str
    """`set` or `clear`."""
    in_s: float | None
    """Monotonic time; None while it waits only for an event."""
    at: str | None
    """Clock time of the step."""
    event: str | None
    """`traffic` or `detected`; None when it waits for no event."""
    by: str


class FaultFailed(msgspec.Struct, frozen=True):
    """A step that failed at its time, or a fault that could not be put back."""

    link: str
    fault: str
    act: str
    """`set`, `clear` or `put back`."""
    error: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.act} {self.link} {self.fault}: {self.error}"


class CaptureState(msgspec.Struct, frozen=True):
    """One recorded end of a link."""

    link: str
    node: str
    interface: str
    file: str
    since: str
    captured: int | None = None
    """Packets recorded; None while it is running, or when tcpdump reported no number."""
    dropped: int | None = None
    snaplen: int = SNAPLEN_BYTES
    """Bytes of each packet that it holds, at most."""
    full: bool = False
    """Whether it ended by itself, because it reached its share of bytes."""
    ended: str = ""
    """How it ended, if not as intended: `killed by SIGKILL`, `exited 1`."""


RUNNING = "running"
STOPPED = "stopped"
"""State of a process that lives."""


class ChildStatus(msgspec.Struct, frozen=True):
    """One of the lab's processes."""

    name: str
    process: ProcessId
    state: str
    """`running`, or `exited 1`, `killed by SIGKILL`."""
    node: str = ""
    """Node in whose network namespace it runs; empty: in none of the lab's."""


class LabStatus(LabShape, frozen=True):
    """The lab's state."""

    epoch: int
    """Number of the latest run; 0 before the first."""
    children: tuple[ChildStatus, ...]
    faults: tuple[FaultState, ...]
    captures: tuple[CaptureState, ...]
    code: SourceCode | None = None
    """The copy of the program that the lab runs."""
    planned: tuple["FaultPlanned", ...] = ()
    """Next steps of all timelines of faults, including flaps in their open phase."""
    expectation: str | None = None
    """Expectation that decides in the latest run; None before the first."""


class Faults(msgspec.Struct, frozen=True):
    """Reply with faults."""

    faults: tuple[FaultState, ...]
    planned: tuple[FaultPlanned, ...] = ()
    failed: tuple[FaultFailed, ...] = ()
    """Steps of timelines that failed at their time."""


class Captures(msgspec.Struct, frozen=True):
    """Reply with captures."""

    captures: tuple[CaptureState, ...]
    going_on: tuple[CaptureState, ...] = ()
    """Captures that were left alone, because a run has leased them."""


class DenialState(msgspec.Struct, frozen=True):
    """One direction that no queue pair may use."""

    link: str
    by: str
    """`hand`, or `spraycheck`."""
    since: str


class Denials(msgspec.Struct, frozen=True):
    """Reply with denials."""

    denials: tuple[DenialState, ...]


class Epoch(msgspec.Struct, frozen=True):
    """Reply with a new epoch."""

    epoch: int


class Checked(msgspec.Struct, frozen=True):
    """Comparison of a lab with its plan."""

    nodes: int
    """Number of nodes that were read."""
    differences: tuple[Difference, ...]
    """Differences from the plan that the lab did not make."""


class Done(msgspec.Struct, frozen=True):
    """Reply without content."""


class Blame(StrEnum):
    """Type of an error; it decides the exit code."""

    USAGE = "usage"
    ENVIRONMENT = "environment"
    LAB_STATE = "lab_state"
    OWNER = "owner"

    @property
    def error(self) -> type[ScenariosError]:
        """Return the error that the client raises."""
        return _ERRORS[self]


_ERRORS: dict[Blame, type[ScenariosError]] = {
    Blame.USAGE: UsageError,
    Blame.ENVIRONMENT: EnvironmentLackingError,
    Blame.LAB_STATE: LabStateError,
    Blame.OWNER: OwnerFailedError,
}


class Refusal(msgspec.Struct, frozen=True):
    """Reason why a request failed."""

    error: str
    blame: Blame


class Answer(msgspec.Struct, frozen=True):
    """Encode one reply line: a result or an error."""

    result: msgspec.Raw = msgspec.Raw(b"{}")
    refusal: Refusal | None = None
