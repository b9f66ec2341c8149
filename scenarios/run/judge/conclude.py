"""From what SprayCheck concluded of one run to what the run is judged by. Reads its words; judges no count."""

import re
from collections import Counter
from collections.abc import Collection, Iterator

from agent.wire.detect_records import DoubtKind, LinkConclusion, Localize
from results.detect_lines import Said
from results.metrics import NS
from results.numbers_text import count_text
from scenarios.run.judge.expect import Accused, Conclusion

_PATH = re.compile(r"p(\d+):leaf(\d+)>spine(\d+)>leaf(\d+)")


def conclusion_of(
    said: Said,
    first_packet_ns: int | None,
    carrying: Collection[str],
    paths: int,
    asked: str = "",
    right_causes: Collection[str] = (),
) -> Conclusion:
    """What SprayCheck said in the end.

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
    """Whether what is named accounts for its losses: a cause that rightly is, or a link that all its flows cross."""
    return link.doubt is DoubtKind.BEHIND_ACCUSED or not {*link.alternatives}.isdisjoint(right_causes)


def _is_idle(link: LinkConclusion) -> bool:
    """Whether nothing was sent over it."""
    return link.verdict == "undecided" and link.doubt is DoubtKind.NOTHING_SENT


def _accused(said: Said, names: Collection[str], first_packet_ns: int | None) -> Iterator[Accused]:
    """What is named, and what that rests on."""
    for name in names:
        link = said.links.get(name)
        since_ns = None if link is None else link.since_ns
        after = None if first_packet_ns is None or since_ns is None else (since_ns - first_packet_ns) / NS
        leaves, grounds = (tuple(link.leaves), (link.packets, link.paths)) if link else ((), (0, 0))
        yield Accused(name, leaves, after, since_ns, *grounds)


def _why(link: LinkConclusion, asked: str, last: Localize | None) -> str:
    """Why a link stays undecided, and what would help."""
    reason = link.reason or "no reason given"
    if link.doubt is DoubtKind.SUSPECT and last is not None:
        return f"{reason}{_deciding_text(link, last)}"
    if link.doubt is DoubtKind.FEW_PACKETS and asked:
        sent = f"{count_text(link.sent, 'packet')} of {count_text(link.flows, 'flow')}; " if link.sent else ""
        return f"{sent}{reason}; {asked}"
    return reason


def _deciding_text(link: LinkConclusion, last: Localize) -> str:
    """Which flow would tell."""
    for flow in last.deciding:
        plane, leaf, spine, target = _PATH.findall(flow.path)[0]
        crossed = {f"p{plane}:leaf{leaf}>spine{spine}", f"p{plane}:spine{spine}>leaf{target}"}
        if not crossed.isdisjoint({link.link, *link.alternatives}):
            length = f" with {count_text(flow.packets, 'packet')} a path" if flow.packets else ""
            return f"; a flow from leaf{leaf} to leaf{target}{length} would tell"
    return ""


def _why_silent(said: Said) -> str:
    """Why nothing was concluded of a link at all."""
    if said.last is not None and said.last.pending:
        return f"{count_text(said.last.pending, 'verdict')} on paths did not come in time"
    return "no verdict on a path over it came"
