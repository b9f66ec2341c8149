"""What is read of detect.jsonl, by the report and by `spraylab detect`: the fields that every version has written.

SprayCheck writes more (`agent.spraycheck.records`), in the same types. What has a default is not in older files.
"""

from typing import Any, Union

from msgspec import Struct, field

from agent.wire.ranges import (
    VERSION,
    Amount,
    Count,
    Host,
    Name,
    Nanoseconds,
    Plane,
    QueuePair,
    Switch,
    Text,
    Version,
)
from results.files.reading import left_aside
from results.records.agent_records import CONTROLLER_RECORDS


class Said(Struct, kw_only=True, tag_field="event"):
    """What every line says."""

    ts: Name
    mono_ns: Nanoseconds
    epoch: Count
    v: Version = VERSION


class Detect(Said, tag="DETECT"):
    """The verdict of one flow on one path."""

    node: Name
    src_host: Host
    dst_host: Host
    qpn: QueuePair
    """At the destination."""
    plane: Plane
    src_leaf: Switch
    spine: Switch
    dst_leaf: Switch
    count: Count
    expected: Amount = field(name="lambda")
    threshold: Amount | None
    verdict: Name
    reason: Text | None
    expectation: Name = "uniform"


class DecidingFlow(Struct):
    """A flow that would narrow a set of candidates."""

    src_leaf: Switch
    dst_leaf: Switch
    packets: Count | None


class Localize(Said, tag="LOCALIZE"):
    """What is accused from then on."""

    state: Name
    links: list[Name]
    candidates: list[list[Name]]
    pending: Count
    deciding: list[DecidingFlow] = []
    common: list[Name] = []
    common_candidates: list[list[Name]] = []
    expectation: Name = "uniform"


class Unmeasured(Said, tag="UNMEASURED"):
    """A flow that a leaf had no room for."""

    node: Name
    src_host: Host
    dst_host: Host
    qpn: QueuePair
    reason: Text


class LinkSum(Said, tag="LINK_SUM"):
    """What all flows over one link lost."""

    link: Name
    expectation: Name
    flows: Count
    sent: Count
    lost: Count
    verdict: Name
    reason: Text | None


DETECT_LINES: Any = Union[
    Detect,
    Localize,
    Unmeasured,
    LinkSum,
    *CONTROLLER_RECORDS,
    *left_aside("SPRAYCHECK_START", "SELECT", "ADDED_UP"),
]
"""All kinds of lines in the file."""
