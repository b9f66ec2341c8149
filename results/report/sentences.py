"""Describes a run in one sentence, and states how far it can be trusted."""

from dataclasses import dataclass

from results.records.perf_rows import GB, CollectiveRow
from results.report.arrivals_figure import has_thresholds
from results.report.run_data import RunData
from results.summary import Detected, Summary, flows_text, size_text
from results.text import count_text, open_sets

_MARKS = {"pass": "✓", "fail": "✗", "overloaded": "!", "unfinished": "?"}
_WORDS = {
    "pass": "as expected",
    "fail": "not as expected",
    "overloaded": "not to be trusted",
    "unfinished": "not finished",
}

NOT_NAMED = "dropped packets and was not named"
"""Words for links that nobody had to name."""

MOST_NAMED = 4
"""Most links in the sentence; the tables list all."""


@dataclass(frozen=True)
class Sentence:
    """The verdict on a run."""

    outcome: str
    """`pass`, `fail`, `overloaded` or `unfinished`."""
    text: str

    @property
    def mark(self) -> str:
        """A symbol that shows the outcome without colour."""
        return _MARKS.get(self.outcome, "?")

    @property
    def word(self) -> str:
        """The outcome in words."""
        return _WORDS.get(self.outcome, self.outcome)


def sentence_of(data: RunData) -> Sentence:
    """State what happened, who noticed, and whether that is right."""
    summary = data.summary
    if summary is None:
        return Sentence(
            "unfinished",
            "The run did not finish, or its summary cannot be read. This page shows the files that it left.",
        )
    doubts = " ".join(doubts_of(data))
    if summary.outcome == "overloaded":
        return Sentence("overloaded", doubts)
    failed = [check.name for check in summary.checks if not check.ok]
    text = f"{_broken(data)}; {_noticed(data, summary)}; {_arrived(summary)}."
    if summary.outcome != "pass":
        text += f" Not as expected: {'; '.join(failed) or summary.outcome}."
    return Sentence(summary.outcome, f"{text[0].upper()}{text[1:]} {doubts}".rstrip())


def doubts_of(data: RunData) -> list[str]:
    """List reasons not to trust a run's numbers, one sentence each: the machine did not keep up, or was busy."""
    if data.summary is None:
        return []
    load = data.summary.load
    if data.summary.outcome == "overloaded":
        why = "; ".join(load.reasons) or "it lost packets by itself"
        return [f"This machine did not keep up ({why}), so nothing below is to be trusted."]
    return [*_changed(data.summary), *(f"Warning: {warning}." for warning in load.warnings)]


def _changed(summary: Summary) -> list[str]:
    """List changes to the lab that somebody else made, so that it differs from the scenario."""
    if not summary.changed:
        return []
    shown = "; ".join(map(str, summary.changed[:MOST_NAMED]))
    more = f"; and {len(summary.changed) - MOST_NAMED:,} more" if len(summary.changed) > MOST_NAMED else ""
    return [f"Somebody else changed the lab, not spraylab: {shown}{more}."]


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED:,} more"


def _broken(data: RunData) -> str:
    if not data.faults:
        return "the folder does not show what was broken" if data.broken_unknown else "nothing was broken"
    if len(data.true_links) == 1:
        fault = data.faults[0]
        return f"link {fault.link} had the fault {', then '.join(dict.fromkeys(one.words for one in data.faults))}"
    return f"{len(data.true_links):,} directions failed ({_listed(sorted(data.true_links))})"


def _noticed(data: RunData, summary: Summary) -> str:
    found = summary.detected
    named = (*found.named, *found.common)
    right = [one for one in named if one.right]
    said = []
    wrong = [one.link for one in named if not one.right and not one.changed]
    if changed := [one.link for one in named if one.changed]:
        said.append(f"SprayCheck named {_listed(changed)}, which somebody else changed")
    if right:
        times = [one.after_s for one in right if one.after_s is not None]
        when = f" {max(times):,.2f} s after the first packet" if times else ""
        what = _listed([one.link for one in right]) if data.broken_unknown else _how_many(data, len(right))
        said.append(f"SprayCheck named {what}{when}")
    if wrong:
        said += [f"SprayCheck named {names}, which {why}" for names, why in _wrong(data, wrong)]
    if found.missed:
        said.append(f"{_listed(list(found.missed))} {'went unnoticed' if found.decides else NOT_NAMED}")
    said += _open_ended(found)
    told = ", ".join(said) or "no link was accused"
    return told if found.decides else f"{told}, which is recorded and decides nothing"


def _open_ended(found: Detected) -> list[str]:
    """Describe accusations where the evidence cannot decide which of several links failed."""
    sets = (*found.candidates, *found.common_candidates)
    if len(sets) == 1 and len(sets[0]) <= MOST_NAMED:
        (text,) = open_sets(sets, found.fewest if found.candidates else ())
        return [f"SprayCheck accused {text} and could not decide which"]
    many = count_text(len(sets), "set")
    return [f"SprayCheck accused {many} of links and could not decide which of each"] * bool(sets)


def _wrong(data: RunData, links: list[str]) -> list[tuple[str, str]]:
    """Group links that were named and dropped nothing, with their other faults."""
    words = {fault.link: fault.words for fault in data.faults}
    sound = [link for link in links if link not in words]
    spoilt = [(link, f"had {words[link]} and dropped nothing") for link in links if link in words]
    return spoilt + ([(_listed(sound), "did not drop")] if sound else [])


def _how_many(data: RunData, right: int) -> str:
    """Return how many of the failed directions were named; some may have carried no traffic."""
    failed = len(data.true_links)
    if right >= failed:
        return "exactly this link" if failed == 1 else "exactly these"
    missed = data.summary is not None and data.summary.detected.missed
    return f"{right:,} of them" + ("" if missed else ", all that dropped data between switches,")


def _arrived(summary: Summary) -> str:
    totals = summary.totals
    if totals.bytes_wrong:
        return f"{count_text(totals.bytes_wrong, 'byte')} arrived wrong"
    rows = summary.collectives
    checked, wrong = (sum(getattr(row, name) or 0 for row in rows) for name in ("checked", "wrong"))
    if wrong:
        return f"{wrong:,} of {count_text(checked, 'number')} of collectives are wrong"
    if totals.acked_bytes < totals.payload_bytes:
        return f"{size_text(totals.acked_bytes)} of {size_text(totals.payload_bytes)} arrived"
    intact = "arrived intact" if totals.bytes_verified == totals.payload_bytes else "arrived"
    resent = f"{count_text(totals.retransmissions, 'packet')} resent"
    return f"all {size_text(totals.payload_bytes)} {intact}, with {resent}{_compared(summary, checked)}"


def _compared(summary: Summary, numbers: int) -> str:
    """State how much was compared, where that is not every byte: only one round of a collective is."""
    totals, rows = summary.totals, summary.collectives
    if totals.bytes_verified == totals.payload_bytes:
        return ""
    said = []
    if totals.bytes_verified:
        said.append(f"{size_text(totals.bytes_verified)} of writes, byte for byte")
    if numbers:
        said.append(f"one round of {_listed([row.name for row in rows])}, all {count_text(numbers, 'number')} right")
    return f"; compared: {' and '.join(said) or 'nothing'}"


def arrivals_of(data: RunData) -> str:
    """Explain the number that a path's count is compared with."""
    if len(data.verdicts) and not has_thresholds(data.verdicts):
        return (
            "The sender announces how many packets it sent over a path; a path is flagged when more are missing than "
            "random losses explain."
        )
    return "Each path has an expected number of packets; a path is flagged when its count is below the threshold."


def facts_of(data: RunData) -> list[tuple[str, str]]:
    """Return facts about the run as pairs of name and value."""
    summary, env = data.summary, data.environment
    facts = [("run", data.name)]
    if summary is not None:
        totals = summary.totals
        facts += [("fabric", summary.fabric), ("seed", str(summary.seed))]
        sent = f"{size_text(totals.payload_bytes)}, {count_text(totals.packets, 'packet')}"
        facts.append(("traffic", f"{flows_text(summary.flows)}, {sent}"))
        if totals.seconds is not None and totals.goodput_bps is not None:
            facts.append(("took", f"{totals.seconds:,.2f} s, {totals.goodput_bps / 1e6:,.0f} Mb/s of payload"))
        facts += [(f"{row.name}, {size_text(row.size_bytes)}", _rounds_text(row)) for row in summary.collectives]
    if env is not None:
        facts += [("asked for at", env.started), ("command", " ".join(env.command))]
    return facts


def _rounds_text(row: CollectiveRow) -> str:
    """Describe in a line what a collective measured."""
    times = f"{row.time_us / 1e3:,.2f} ms a round (median {row.times.median_us / 1e3:,.2f} ms)"
    return f"{times}, busbw {row.busbw_bytes_per_s / GB:.4f} GB/s, {count_text(row.iterations, 'round')}"
