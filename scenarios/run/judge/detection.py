"""Collects what SprayCheck concluded of one run, and compares it with the truth. Pure; judges no counts."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from agent.wire.detect_records import DoubtKind, LinkConclusion, Localize
from results.detect_log import Said
from results.metrics import NS, precision, recall
from results.summary import Accusation, Detected
from results.text import count_text


@dataclass(frozen=True)
class Accused:
    """A link that a witness names, with its evidence."""

    link: str
    by: tuple[str, ...]
    after_s: float | None
    named_ns: int | None = None
    """Start of the unbroken accusation, by the monotonic clock."""
    packets: int = 0
    """First transmissions on the paths that accuse the link, up to then."""
    paths: int = 0
    """Number of these paths."""


@dataclass(frozen=True)
class Conclusion:
    """The final conclusion of SprayCheck, or of another witness, on one run."""

    state: str
    accused: tuple[Accused, ...]
    candidates: tuple[tuple[str, ...], ...]
    verdicts: dict[str, int]
    verdicts_wanted: int
    insufficient: dict[str, int] = field(default_factory=dict)
    """Number of verdicts without evidence, by reason, the most frequent first."""
    expectation: str = "uniform"
    common: tuple[Accused, ...] = ()
    """Accused causes of losses on all paths of flows: a host's link, or all links of a leaf in one direction."""
    common_candidates: tuple[tuple[str, ...], ...] = ()
    added_up: int = 0
    """Number of verdicts that rest on several flows together."""
    explained: int = 0
    """Undecided links behind what is named: rightly in `common`, or a link that all flows over them cross."""
    fewest: tuple[int, ...] = ()
    """Least number of failed links in each of `candidates`."""
    untimely: int = 0
    """Number of healthy verdicts that clear no link: their flows were not under way while packets were lost."""
    unmeasured: dict[str, int] = field(default_factory=dict)
    """Number of flows that a leaf does not measure, by hosts, leaf and reason."""
    links: dict[str, int] = field(default_factory=dict)
    """Number of links with measured traffic by verdict: `failed`, `healthy`, `undecided`."""
    links_wanted: int = 0
    """Number of links to judge."""
    idle: int = 0
    """Number of other links, over which nothing was sent."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Undecided links with the reason, without those that `explained` counts."""


_PATH = re.compile(r"p(\d+):leaf(\d+)>spine(\d+)>leaf(\d+)")


def conclusion_of(
    said: Said,
    first_packet_ns: int | None,
    carrying: Collection[str],
    paths: int,
    asked: str = "",
    right_causes: Collection[str] = (),
) -> Conclusion:
    """Return what SprayCheck concluded in the end.

    `carrying` are the links that it had to judge, `paths` how many paths there are, `asked` is how many packets a
    verdict takes, in words. `right_causes` are common causes of which all links did drop.
    """
    last, unsure = said.last, [each for each in said.paths.values() if each.verdict == "insufficient"]
    judged = {link: each for link in sorted(carrying) if (each := said.links.get(link)) and not _is_idle(each)}
    idle = sum(_is_idle(said.links[link]) for link in carrying if link in said.links)
    open_ended = {link: each for link, each in judged.items() if each.verdict == "undecided"}
    explained = [link for link, each in open_ended.items() if _is_explained(each, right_causes)]
    undecided = {link: _why(each, asked, last) for link, each in open_ended.items() if link not in explained}
    undecided |= dict.fromkeys(sorted({*carrying} - said.links.keys()), _why_silent(said))
    return Conclusion(
        state=last.state if last else "silent",
        accused=tuple(_accused(said, last.links if last else (), first_packet_ns)),
        common=tuple(_accused(said, last.common if last else (), first_packet_ns)),
        candidates=tuple(map(tuple, last.candidates)) if last else (),
        fewest=tuple(last.fewest) if last else (),
        untimely=len(last.untimely) if last else 0,
        common_candidates=tuple(map(tuple, last.common_candidates)) if last else (),
        verdicts=dict(Counter(each.verdict for each in said.paths.values())),
        verdicts_wanted=paths,
        insufficient=dict(Counter(each.reason or "no reason given" for each in unsure).most_common()),
        expectation=said.expectation,
        added_up=sum(each.by != "flow" and each.verdict != "insufficient" for each in said.paths.values()),
        explained=len(explained),
        unmeasured=dict(
            Counter(f"h{each.src_host}>h{each.dst_host} at {each.node}: {each.reason}" for each in said.unmeasured)
        ),
        links=dict(Counter(each.verdict for each in judged.values())),
        links_wanted=len(carrying) - idle,
        idle=idle,
        undecided=undecided,
    )


def _is_explained(link: LinkConclusion, right_causes: Collection[str]) -> bool:
    """Return whether what is named explains its losses: a right cause, or a link that all its flows cross."""
    return link.doubt is DoubtKind.BEHIND_ACCUSED or not {*link.alternatives}.isdisjoint(right_causes)


def _is_idle(link: LinkConclusion) -> bool:
    """Return whether nothing was sent over a link."""
    return link.verdict == "undecided" and link.doubt is DoubtKind.NOTHING_SENT


def _accused(said: Said, names: Collection[str], first_packet_ns: int | None) -> Iterator[Accused]:
    """Yield each named link with its evidence."""
    for name in names:
        link = said.links.get(name)
        since_ns = None if link is None else link.since_ns
        after = None if first_packet_ns is None or since_ns is None else (since_ns - first_packet_ns) / NS
        leaves, grounds = (tuple(link.leaves), (link.packets, link.paths)) if link else ((), (0, 0))
        yield Accused(name, leaves, after, since_ns, *grounds)


def _why(link: LinkConclusion, asked: str, last: Localize | None) -> str:
    """State why a link stays undecided, and what would help."""
    reason = link.reason or "no reason given"
    if link.doubt is DoubtKind.SUSPECT and last is not None:
        return f"{reason}{_deciding_text(link, last)}"
    if link.doubt is DoubtKind.FEW_PACKETS and asked:
        sent = f"{count_text(link.sent, 'packet')} of {count_text(link.flows, 'flow')}; " if link.sent else ""
        return f"{sent}{reason}; {asked}"
    return reason


def _deciding_text(link: LinkConclusion, last: Localize) -> str:
    """Name a flow that would decide."""
    for flow in last.deciding:
        plane, leaf, spine, target = _PATH.findall(flow.path)[0]
        crossed = {f"p{plane}:leaf{leaf}>spine{spine}", f"p{plane}:spine{spine}>leaf{target}"}
        if not crossed.isdisjoint({link.link, *link.alternatives}):
            length = f" with {count_text(flow.packets, 'packet')} per path" if flow.packets else ""
            return f"; a flow from leaf{leaf} to leaf{target}{length} would decide"
    return ""


def _why_silent(said: Said) -> str:
    """State why nothing was concluded of a link."""
    if said.last is not None and said.last.pending:
        return f"{count_text(said.last.pending, 'verdict')} on paths did not come in time"
    return "no verdict on a path over it came"


def detected_of(
    conclusion: Conclusion,
    dropping: set[str],
    expected: set[str] | None = None,
    possible: frozenset[str] = frozenset(),
    unannounced: int = 0,
    decides: bool = True,
    right_causes: Collection[str] = (),
    changed: Collection[str] = (),
    spelt_out: Callable[[str], Iterable[str]] = lambda name: (name,),
) -> Detected:
    """Compare the conclusion with the truth.

    `dropping` are the links that did drop and can be named, `expected` what the scenario says; `possible` those that
    may have dropped, uncounted: to name them is right, not to name them is no miss. `decides`: whether the scenario
    judges by it. `right_causes` are the common causes of which all links did drop, `spelt_out` returns the links that a
    name stands for. `changed` are links, and common causes of which all links are, that somebody else changed: to name
    one is neither right nor wrong.
    """
    accused = {link for item in (*conclusion.accused, *conclusion.common) for link in spelt_out(item.link)}
    suspects = {
        link
        for names in (*conclusion.candidates, *conclusion.common_candidates)
        for name in names
        for link in spelt_out(name)
    }
    right, unsettled = dropping | (possible & accused), dropping & suspects - accused
    scored = accused - ({*changed} - right)
    return Detected(
        state=conclusion.state,
        named=tuple(
            Accusation(
                item.link, "spraycheck", item.by, item.after_s, item.link in right, item.link in {*changed} - right
            )
            for item in conclusion.accused
        ),
        candidates=conclusion.candidates,
        missed=tuple(sorted(dropping - accused - unsettled)),
        suspected=tuple(sorted(unsettled)),
        fewest=conclusion.fewest,
        untimely=conclusion.untimely,
        verdicts=conclusion.verdicts,
        verdicts_wanted=conclusion.verdicts_wanted,
        precision=precision(scored, right),
        recall=recall(accused, dropping - unsettled),
        expected=None if expected is None else tuple(sorted(expected)),
        insufficient=conclusion.insufficient,
        expectation=conclusion.expectation,
        unannounced=unannounced,
        decides=decides,
        common=tuple(
            Accusation(
                item.link,
                "spraycheck",
                item.by,
                item.after_s,
                item.link in right_causes,
                item.link in {*changed} - {*right_causes},
            )
            for item in conclusion.common
        ),
        common_candidates=conclusion.common_candidates,
        added_up=conclusion.added_up,
        explained=conclusion.explained,
        unmeasured=conclusion.unmeasured,
        links=conclusion.links,
        links_wanted=conclusion.links_wanted,
        idle=conclusion.idle,
        undecided=conclusion.undecided,
    )


def unmeasured_text(flows: int) -> str:
    """State how many flows have no verdict because leaves did not measure them."""
    return f"{count_text(flows, 'flow')} not measured (UNMEASURED in detect.jsonl states why)"
