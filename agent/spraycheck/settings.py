"""Settings of a SprayCheck process: a JSON file, read once into frozen records, with every value checked."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from agent.spraycheck.errors import SettingsError
from agent.spraycheck.leaf.bpf_layout import MAX_SPINES, Counting
from agent.spraycheck.leaf.flow_reports import LeafRules
from agent.spraycheck.statistics.verdicts import FALSE_ALARM, LEAST_TESTS, MISS, Requirements

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Rate = Annotated[float, Meta(gt=0, le=1)]
Spine = Annotated[int, Meta(ge=0, lt=MAX_SPINES)]


class LeafSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one leaf: its place and its counters, maps by their id in the kernel, as named in `bpf_layout`."""

    plane: Count
    leaf: Count
    spines: Annotated[tuple[Spine, ...], Meta(min_length=1)]
    """Usable spines."""
    flows_map: Positive
    superseded_map: Positive
    measured_map: Positive
    tests_map: Positive
    refused_map: Positive
    elsewhere_map: Positive
    socket: str = ""
    """Path of the socket at which the leaf's own process answers; empty: this process reads the maps."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one process: for all leaves and the monitor, for one leaf, or for the monitor only."""

    lab: str
    detect_log: str
    """Path of the file that the monitor appends to."""
    leaves: Annotated[tuple[LeafSettings, ...], Meta(min_length=1)]
    min_rate: Rate
    """Smallest drop rate that must not be missed, as a fraction."""
    miss: Probability = MISS
    """Allowed probability to miss it, per path."""
    false_alarm: Probability = FALSE_ALARM
    """Allowed probability that a healthy flow has a path flagged."""
    run_tests: Positive = LEAST_TESTS
    """Tests among which the false alarms of a run are divided, by what senders declare."""
    copies: Positive = 1
    """EVs per path."""
    poll_ms: Positive = 100
    """Time between two readings of the counters."""
    settle_ms: Count = 50
    """Timeout for packets overtaken by the last PSN or by a closing announcement."""
    quiet_ms: Positive = 1000
    """A path that lost its closing announcement is given up when nothing has come over it for so long. Our choice:
    longer than what waits in a queue of a slow link takes."""
    narrow: bool = False
    """Counters have 16 bits, as the paper's; nothing is judged by what senders declare."""
    erase_after_s: Positive = 60
    """Age at which a flow's state is erased; a flow that takes longer gets no verdict (SprayCheck D4)."""
    one: bool = False
    """A source leaf measures one of its flows at a time; the data plane has the same setting."""
    serves: bool = False
    """This process is that of its one leaf: it answers at the leaf's socket, and a monitor elsewhere writes the log."""

    @property
    def required(self) -> Requirements:
        """The rates and error probabilities that all leaves are asked for."""
        return Requirements(self.min_rate, self.miss, self.false_alarm, run_tests=self.run_tests)

    def rules_of(self, leaf: LeafSettings) -> LeafRules:
        """Return the rules of the detector of `leaf`."""
        return LeafRules(
            plane=leaf.plane,
            leaf=leaf.leaf,
            spines=leaf.spines,
            required=self.required,
            copies=self.copies,
            settle_ns=self.settle_ms * 10**6,
            quiet_ns=self.quiet_ms * 10**6,
            erase_after_ns=self.erase_after_s * 10**9,
            narrow=self.narrow,
            one=self.one,
        )

    @property
    def counting(self) -> Counting:
        """Counters of the leaves' data planes."""
        return Counting(max(max(leaf.spines) for leaf in self.leaves) + 1, self.narrow)


def read_settings(path: Path) -> Settings:
    """Read and check the settings. Raises SettingsError."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=Settings)
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(str(path), str(error)) from error
    own = [leaf for leaf in settings.leaves if leaf.socket]
    if own and len(own) < len(settings.leaves):
        raise SettingsError(str(path), "leaves: some have a socket, so all must have one")
    if settings.serves and (len(settings.leaves) > 1 or not own):
        raise SettingsError(str(path), "serves: such a process has one leaf, with a socket")
    return settings
