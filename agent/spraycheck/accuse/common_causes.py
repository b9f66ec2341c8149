"""Common causes: a host's link, or all links of a leaf one way, which are accused when all paths of a flow lose alike.

Pure. A link down to the destination host lies behind the last count, so its losses are not seen here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from agent.spraycheck.accuse.explanations import independent_parts, smallest_explanations
from agent.spraycheck.statistics.verdicts import Verdict


class CauseKind(StrEnum):
    """Kind of a common cause, in the order of how many links it has."""

    HOST_LINK = "host_link"
    """The link from the source host up to its leaf."""
    UPLINKS = "uplinks"
    """All links from the source leaf up to its spines."""
    DOWNLINKS = "downlinks"
    """All links from spines down to the destination leaf."""


@dataclass(frozen=True, slots=True, order=True)
class CommonCause:
    """One suspect that all paths of a flow share, in one plane."""

    plane: int
    kind: CauseKind
    leaf: int
    host: int = -1
    """The host of a HOST_LINK."""

    def __str__(self) -> str:
        """Format as a target: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`."""
        return {
            CauseKind.HOST_LINK: f"p{self.plane}:h{self.host}>leaf{self.leaf}",
            CauseKind.UPLINKS: f"p{self.plane}:leaf{self.leaf}>spine*",
            CauseKind.DOWNLINKS: f"p{self.plane}:spine*>leaf{self.leaf}",
        }[self.kind]


def causes_of(plane: int, host: int, src_leaf: int, dst_leaf: int) -> tuple[CommonCause, CommonCause, CommonCause]:
    """Return the causes that a flow's paths share: its host's link, its leaf's uplinks, the other leaf's downlinks."""
    return (
        CommonCause(plane, CauseKind.HOST_LINK, src_leaf, host),
        CommonCause(plane, CauseKind.UPLINKS, src_leaf),
        CommonCause(plane, CauseKind.DOWNLINKS, dst_leaf),
    )


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """Verdict of one flow on its paths together (`declared.judge_source`)."""

    plane: int
    src_host: int
    src_leaf: int
    dst_leaf: int
    qpn: int
    verdict: Verdict
    host_link: Verdict | None = None
    """Verdict on the host's link by the source leaf's own count (`declared.judge_host_link`); None without a count."""

    @property
    def causes(self) -> tuple[CommonCause, CommonCause, CommonCause]:
        """The causes that the flow's paths share."""
        return causes_of(self.plane, self.src_host, self.src_leaf, self.dst_leaf)


@dataclass(frozen=True, slots=True)
class CommonFinding:
    """Accusation for losses common to all paths of flows."""

    causes: tuple[CommonCause, ...] = ()
    """Causes that are certain."""
    candidates: tuple[tuple[CommonCause, ...], ...] = ()
    """Suspects of each open case; the cause of fewest links first."""


NOTHING_COMMON = CommonFinding()


def common_causes(sources: Collection[SourceEvidence]) -> CommonFinding:
    """Find the fewest causes that explain all flows whose paths lose alike.

    A healthy flow clears all three of its causes, a healthy count at the source leaf the host's link, and a short one
    accuses it alone. Without such a count, one host on a leaf cannot be distinguished from all uplinks of
    that leaf.
    """
    cleared = {cause for each in sources if each.verdict is Verdict.HEALTHY for cause in each.causes}
    cleared |= {each.causes[0] for each in sources if each.host_link is Verdict.HEALTHY}
    charged = {each.causes[0] for each in sources if each.host_link is Verdict.FAILED}
    flagged = [each for each in sources if each.verdict is Verdict.FAILED]
    suspects = [tuple(cause for cause in each.causes if cause not in cleared) for each in flagged]
    certain = charged | {left[0] for left in suspects if len(left) == 1}
    open_ended = []
    for part in independent_parts([left for left in suspects if left and not certain.intersection(left)]):
        explanations = smallest_explanations(part) or {frozenset(cause for left in part for cause in left)}
        sure = frozenset.intersection(*explanations)
        certain |= sure
        if unsure := frozenset.union(*explanations) - sure:
            open_ended.append(tuple(sorted(unsure, key=_by_kind)))
    return CommonFinding(tuple(sorted(certain)), tuple(sorted(open_ended)))


def _by_kind(cause: CommonCause) -> tuple[int, CommonCause]:
    return list(CauseKind).index(cause.kind), cause
