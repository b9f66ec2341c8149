"""What each witness of a run said, beside the truth: its row in `summary.json`, and all of them as a table of text."""

from collections.abc import Iterator, Sequence

import msgspec

from agent.wire.ranges import Amount, Count, Name, Seconds, Text

MRC = "MRC events"
UNIFORM, DECLARED = "SprayCheck uniform", "SprayCheck declared"

HEADER = (
    f"{'witness':<22}{'named':<27}{'right':>6}{'wrong':>7}{'missed':>8}{'seconds':>9}{'packets':>11}{'paths':>7}"
    f"{'precision':>11}{'recall':>9}"
)
CLOCK = "seconds: from when the fault was in force and traffic went on until the link was named"
NOTHING = "-"


class WitnessedLink(msgspec.Struct, frozen=True):
    """One link that a witness named in the end, or all links of a leaf one way (`p0:leaf3>spine*`)."""

    link: Name
    right: bool
    """Whether it lost data, by the injector's own counts."""
    after_s: Seconds | None
    """Since the fault was in force and traffic went on; for a link without a fault, since the first packet."""
    packets: Count
    """First transmissions on the paths that accuse it, up to then."""
    paths: Count
    """How many paths that are, each of one flow."""
    changed: bool = False
    """Whether somebody else changed it; then it is neither right nor wrong."""


class Witness(msgspec.Struct, frozen=True):
    """All that one witness said."""

    witness: Text
    """`MRC events`, `SprayCheck uniform` or `SprayCheck declared`."""
    decides: bool
    """Whether the run is judged by it."""
    state: Text
    """`named`, `ambiguous`, `unexplained`, `none`, or `silent` when it had nothing to go by."""
    named: tuple[WitnessedLink, ...]
    candidates: tuple[tuple[Text, ...], ...]
    """Sets of links of which it cannot tell which one it is."""
    missed: tuple[Text, ...]
    """Links that lost data and were not named."""
    false_alarms: Count
    """Links that were named and lost nothing."""
    precision: Amount | None
    """Share of the named links that are right; None when it named none."""
    recall: Amount | None
    """Share of the links that lost data that were named; None when none did."""
    seconds: Seconds | None
    """Until the first right name, as in `named`; None without one."""
    packets: Count | None
    """Of that name."""
    note: Text = ""
    """Why it said nothing, or less than it could have."""
    suspected: tuple[Text, ...] = ()
    """Links that lost data and are among candidates: neither named nor missed, and not counted in `recall`."""


def witness_lines(witnesses: Sequence[Witness]) -> Iterator[str]:
    """A table for people; `*` marks the one that decides."""
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
    """The right link that was named first, of which `seconds`, `packets` and the paths are told."""
    right = [link for link in witness.named if link.right and link.after_s is not None]
    return min(right, key=lambda link: link.after_s or 0.0, default=None)


def named_links(witness: Witness) -> list[str]:
    """All it named, the first right one at the head."""
    first = first_right(witness)
    return [each.link for each in sorted(witness.named, key=lambda link: link is not first)]


def named_text(witness: Witness) -> str:
    """The first right name, or any where none is right, and how many more; or why there is none."""
    if not witness.named:
        return "one of several" if witness.candidates else "no link"
    head, *more = named_links(witness)
    return head + (f" and {len(more):,} more" if more else "")


def seconds_text(witness: Witness) -> str:
    """Seconds to the first right name."""
    return NOTHING if witness.seconds is None else f"{witness.seconds:,.2f}"


def packets_text(witness: Witness) -> str:
    """Packets of the first right name."""
    return NOTHING if witness.packets is None else f"{witness.packets:,}"


def paths_text(witness: Witness) -> str:
    """On how many paths those packets were."""
    first = first_right(witness)
    return NOTHING if first is None else f"{first.paths:,}"


def share_text(share: float | None) -> str:
    """A precision or recall."""
    return NOTHING if share is None else f"{share:.0%}"
