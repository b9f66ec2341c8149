"""Compares each witness's report of a run with the truth: its row in `summary.json`, and all of them as a text
table.
"""

from collections.abc import Iterator, Sequence

import msgspec

from agent.wire.record_ranges import Amount, Count, Name, Seconds, Text

MRC = "MRC events"
UNIFORM, DECLARED = "SprayCheck uniform", "SprayCheck declared"

HEADER = (
    f"{'witness':<22}{'named':<27}{'right':>6}{'wrong':>7}{'missed':>8}{'seconds':>9}{'packets':>11}{'paths':>7}"
    f"{'precision':>11}{'recall':>9}"
)
CLOCK = "seconds: from when the fault was in force and traffic ran until the link was named"
NOTHING = "-"


class WitnessedLink(msgspec.Struct, frozen=True):
    """One link that a witness named at the end, or all links of a leaf in one direction (`p0:leaf3>spine*`)."""

    link: Name
    right: bool
    """Whether it lost data, by the injector's counts."""
    after_s: Seconds | None
    """Seconds since the fault was in force and traffic ran; for a link without a fault, since the first packet."""
    packets: Count
    """First transmissions so far on the paths that accuse it."""
    paths: Count
    """Number of those paths, each of one flow."""
    changed: bool = False
    """Whether somebody else changed it; then it is neither right nor wrong."""


class Witness(msgspec.Struct, frozen=True):
    """Everything that one witness reported."""

    witness: Text
    """`MRC events`, `SprayCheck uniform` or `SprayCheck declared`."""
    decides: bool
    """Whether the run is judged by this witness."""
    state: Text
    """`named`, `ambiguous`, `unexplained`, `none`, or `silent` when it had no data."""
    named: tuple[WitnessedLink, ...]
    candidates: tuple[tuple[Text, ...], ...]
    """Sets of links among which it cannot decide."""
    missed: tuple[Text, ...]
    """Links that lost data and were not named."""
    false_alarms: Count
    """Links that were named and lost nothing."""
    precision: Amount | None
    """Share of the named links that are right; None when it named none."""
    recall: Amount | None
    """Share of the links that lost data that it named; None when none did."""
    seconds: Seconds | None
    """Seconds until the first right name, as in `named`; None without one."""
    packets: Count | None
    """Packets until that name."""
    note: Text = ""
    """Reason why it reported nothing, or less than it could have."""
    suspected: tuple[Text, ...] = ()
    """Links that lost data and are among candidates: neither named nor missed, and not counted in `recall`."""


def witness_lines(witnesses: Sequence[Witness]) -> Iterator[str]:
    """Format a table for people; `*` marks the witness that decides."""
    if not witnesses:
        return
    yield HEADER
    for each in witnesses:
        name = f"{each.witness}{' *' if each.decides else ''}"
        if each.state == "silent":
            yield f"{name:<22}{each.note or 'said nothing'}"
            continue
        right = sum(link.right for link in each.named)
        yield (
            f"{name:<22}{named_text(each):<27}{right:>6,}{each.false_alarms:>7,}{len(each.missed):>8,}"
            f"{seconds_text(each):>9}{packets_text(each):>11}{paths_text(each):>7}{share_text(each.precision):>11}"
            f"{share_text(each.recall):>9}"
        )
        if each.suspected:
            yield f"{'':<22}among its suspects, neither named nor missed: {', '.join(each.suspected)}"
        if each.note:
            yield f"{'':<22}{each.note}"
    if any(each.seconds is not None for each in witnesses):
        yield CLOCK


def first_right(witness: Witness) -> WitnessedLink | None:
    """Return the right link that was named first, whose `seconds`, `packets` and paths are shown."""
    right = [link for link in witness.named if link.right and link.after_s is not None]
    return min(right, key=lambda link: link.after_s or 0.0, default=None)


def named_links(witness: Witness) -> list[str]:
    """Return all links it named, the first right one first."""
    first = first_right(witness)
    return [each.link for each in sorted(witness.named, key=lambda link: link is not first)]


def named_text(witness: Witness) -> str:
    """Return the first right name, or any where none is right, and how many more; or why there is none."""
    if not witness.named:
        return "one of several" if witness.candidates else "no link"
    head, *more = named_links(witness)
    return head + (f" and {len(more):,} more" if more else "")


def seconds_text(witness: Witness) -> str:
    """Format seconds to the first right name."""
    return NOTHING if witness.seconds is None else f"{witness.seconds:,.2f}"


def packets_text(witness: Witness) -> str:
    """Format packets of the first right name."""
    return NOTHING if witness.packets is None else f"{witness.packets:,}"


def paths_text(witness: Witness) -> str:
    """Format the number of paths that carried those packets."""
    first = first_right(witness)
    return NOTHING if first is None else f"{first.paths:,}"


def share_text(share: float | None) -> str:
    """Format a precision or recall."""
    return NOTHING if share is None else f"{share:.0%}"
