"""What is said to the lab's owner over its unix socket, and what it answers: one JSON object a line.

Only the words: `scenarios.lab.client` speaks them, `scenarios.lab.owner.process` answers.
"""

from enum import StrEnum

import msgspec

from agent.spraycheck.statistics.test_count import LEAST_TESTS
from results.captures.tcpdump import MOST_BYTES, SNAPLEN_BYTES
from results.files.user_files import Invoker
from results.records.source_code import SourceCode
from scenarios.errors import EnvironmentLackingError, LabStateError, OwnerFailedError, ScenariosError, UsageError
from scenarios.lab.processes import ProcessId
from scenarios.lab.shape import LabShape
from testbed.kernel.comparison import Difference


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class Status(_Request, frozen=True, tag="status"):
    """What is up: `LabStatus`."""


class FaultSet(_Request, frozen=True, tag="fault_set"):
    """Put faults on every direction that `target` selects, zero takes them away: `Faults` that went for it, with their
    last counters, and those of the order that are now in force, with what its timelines will do next.

    `words` are those of `faults.order`. The same `seed` chooses and hits the same; None draws one. What is `leased`
    is cleared when the connection that asked for it ends.
    """

    target: str
    words: dict[str, str | bool]
    mechanism: str = "auto"
    by: str = "hand"
    seed: int | None = None
    leased: bool = False


class FaultShow(_Request, frozen=True, tag="fault_show"):
    """All faults in force, with counters of this moment, and all timelines: `Faults`."""


class FaultClear(_Request, frozen=True, tag="fault_clear"):
    """Take faults away, of one target or (None) all, of one kind or (None) all: `Faults` with their last counters,
    and what their timelines could not do.

    `leased`: only those that this connection has leased.
    """

    target: str | None = None
    word: str | None = None
    leased: bool = False


class FaultEvent(_Request, frozen=True, tag="fault_event"):
    """Something has happened that timelines may wait for: `Faults`."""

    event: str
    mono_ns: int | None = None
    """When, by the monotonic clock; None: now."""
    coming: bool = False
    """It has not happened yet: what is to be in force from then on is set now."""


class CaptureStart(_Request, frozen=True, tag="capture_start"):
    """Record both ends of the links that `links` select into a folder: `Captures` that are running now.

    Of each packet `snaplen` bytes. All files together take `most_bytes`, in equal shares; one that has its share ends.

    What is `leased` ends with the connection that asked for it.
    """

    links: tuple[str, ...]
    folder: str
    invoker: Invoker | None
    """With whose rights the files are made; None: root's."""
    leased: bool = False
    snaplen: int = SNAPLEN_BYTES
    most_bytes: int = MOST_BYTES


class CaptureStop(_Request, frozen=True, tag="capture_stop"):
    """End the captures into a folder, or (None) all that nobody has leased: `Captures` with what they got."""

    folder: str | None = None


class Measuring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What SprayCheck is started for."""

    min_rate: str = "1%"
    """Smallest drop rate that must not be missed."""
    copies: int = 1
    """Entropy values per path."""
    narrow: bool = False
    """Counters of 16 bits; fixed for the life of a lab."""
    one: bool = False
    """A leaf measures one of its flows at a time."""
    reset_s: float = 60.0
    """How often a leaf forgets whose turn it was."""
    act: bool = False
    """Links that are named become denied."""
    expectation: str = "uniform"
    """Whose accusations are acted on."""
    lift_after: int = 0
    """A denied link is allowed again after so many probes in a row that were answered; 0: never by itself."""
    priority_bps: int = 0
    """Rate of every uplink, at which measured packets go first; 0: neither."""
    run_tests: int = LEAST_TESTS
    """Tests among which the false alarms of a run are divided, by what senders declare."""
    per_leaf: bool = False
    """Every leaf has a process of its own inside its namespace, and the monitor one."""


class NewEpoch(_Request, frozen=True, tag="new_epoch"):
    """Make SprayCheck ready for a run; a number that no earlier run of this lab has used: `Epoch`."""

    measuring: Measuring = Measuring()


class Deny(_Request, frozen=True, tag="deny"):
    """Keep all queue pairs off every direction that `target` selects: `Denials`, all there are then."""

    target: str


class Allow(_Request, frozen=True, tag="allow"):
    """Let them use it again, or (None) everything: `Denials`, those that are left."""

    target: str | None = None


class DenyShow(_Request, frozen=True, tag="deny_show"):
    """What is denied: `Denials`."""


class Check(_Request, frozen=True, tag="check"):
    """Read every node from the kernel and compare it with its plan: `Checked`."""


class Shutdown(_Request, frozen=True, tag="shutdown"):
    """Take the lab down: `Done`, then the owner ends."""


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
    """Drop rate asked for, as a fraction; None for kinds that drop nothing on purpose."""
    in_force: float | None
    """Drop rate that the kernel holds; None also when it was removed."""
    mechanism: str
    by: str
    """`hand`, or the run that set it."""
    since: str
    seen: int
    """Packets of this direction since the fault is in force."""
    dropped: int
    """Of those, dropped by it."""
    dropped_writes: int | None
    """Of those, MRC requests (not SACKs); None when the mechanism cannot tell."""
    fault: str = ""
    """Tells the faults of one direction apart: the word, and the packets it looks at."""
    hit: int | None = None
    """Packets it did something to; None when the mechanism cannot tell."""
    dropped_reverse: int | None = None
    """Lost in the other direction, at a port that is shut."""
    overlimits: int = 0
    """How often a rate limit made a packet wait."""
    seed: int | None = None
    """Fixes which packets are hit; None when the mechanism leaves that to the kernel."""
    requested_text: str = ""
    """What was asked for, for people: `1%`, `10ms`."""
    in_force_text: str = ""
    """What the kernel holds, `nothing` or `removed`; as asked for, if it is the same within the kernel's step."""


class FaultPlanned(msgspec.Struct, frozen=True):
    """What a timeline will do next, at a time, at an event, or at whichever comes first."""

    link: str
    kind: str
    fault: str
    """The word, and the packets it looks at, as in `FaultState`."""
    requested_text: str
    act: str
    """`set` or `clear`."""
    in_s: float | None
    """None while it waits for an event only."""
    at: str | None
    """The same by the clock."""
    event: str | None
    """`traffic` or `detected`; None when it waits for no event."""
    by: str


class FaultFailed(msgspec.Struct, frozen=True):
    """What could not be done when its time came, or be put back."""

    link: str
    fault: str
    act: str
    """`set`, `clear` or `put back`."""
    error: str

    def __str__(self) -> str:
        """As one line."""
        return f"{self.act} {self.link} {self.fault}: {self.error}"


class CaptureState(msgspec.Struct, frozen=True):
    """One recorded end of a link."""

    link: str
    node: str
    interface: str
    file: str
    since: str
    captured: int | None = None
    """None while it is running, or when tcpdump did not get to say."""
    dropped: int | None = None
    snaplen: int = SNAPLEN_BYTES
    """Bytes of each packet that it holds."""
    full: bool = False
    """It ended before it was told to, since it had its share of bytes."""
    ended: str = ""
    """`killed by SIGKILL`, `exited 1`: how it ended, if not as it was meant to."""


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
    """In whose network namespace it runs; empty: in none of the lab's."""


class LabStatus(LabShape, frozen=True):
    """What is up."""

    epoch: int
    """Of the latest run; 0 before the first."""
    children: tuple[ChildStatus, ...]
    faults: tuple[FaultState, ...]
    captures: tuple[CaptureState, ...]
    code: SourceCode | None = None
    """The copy of the program that the lab runs."""
    planned: tuple["FaultPlanned", ...] = ()
    """What timelines of faults will do next; so a flap is there in its open phase, too."""
    expectation: str | None = None
    """Whose verdicts decide, of the latest run; None before the first."""


class Faults(msgspec.Struct, frozen=True):
    """Faults asked for."""

    faults: tuple[FaultState, ...]
    planned: tuple[FaultPlanned, ...] = ()
    failed: tuple[FaultFailed, ...] = ()
    """What a timeline could not do when its time came."""


class Captures(msgspec.Struct, frozen=True):
    """Captures asked for."""

    captures: tuple[CaptureState, ...]
    going_on: tuple[CaptureState, ...] = ()
    """Those that were left alone, because a run has leased them."""


class DenialState(msgspec.Struct, frozen=True):
    """One direction that no queue pair may use."""

    link: str
    by: str
    """`hand`, or `spraycheck`."""
    since: str


class Denials(msgspec.Struct, frozen=True):
    """Denials asked for."""

    denials: tuple[DenialState, ...]


class Epoch(msgspec.Struct, frozen=True):
    """A fresh epoch."""

    epoch: int


class Checked(msgspec.Struct, frozen=True):
    """A lab beside its plan."""

    nodes: int
    """Nodes that were read."""
    differences: tuple[Difference, ...]
    """What is not as planned, and was not done by the lab."""


class Done(msgspec.Struct, frozen=True):
    """Nothing to tell."""


class Blame(StrEnum):
    """Whose error it is; decides the exit code in the end."""

    USAGE = "usage"
    ENVIRONMENT = "environment"
    LAB_STATE = "lab_state"
    OWNER = "owner"

    @property
    def error(self) -> type[ScenariosError]:
        """The error that the asking side raises."""
        return _ERRORS[self]


_ERRORS: dict[Blame, type[ScenariosError]] = {
    Blame.USAGE: UsageError,
    Blame.ENVIRONMENT: EnvironmentLackingError,
    Blame.LAB_STATE: LabStateError,
    Blame.OWNER: OwnerFailedError,
}


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was not served."""

    error: str
    blame: Blame


class Answer(msgspec.Struct, frozen=True):
    """One reply line: a result or a refusal."""

    result: msgspec.Raw = msgspec.Raw(b"{}")
    refusal: Refusal | None = None
