"""Compares several runs side by side; what differs comes first."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from results.records.perf_rows import GB, CollectiveRow
from results.report.page import figures_of, rendered, shared_by
from results.report.run_data import RunData
from results.report.sentences import doubts_of, sentence_of
from results.report.style import BESIDE_IN, COLUMN_IN, Drawn
from results.report.tables import NOTHING, Table
from results.summary import Summary, size_text
from results.text import fault_text

MOST_FACES = 26
"""Most runs in a comparison; they are called A to Z."""


@dataclass(frozen=True)
class Difference:
    """One value that is not the same in all runs."""

    name: str
    values: tuple[str, ...]
    """One value per run."""
    change: str = ""
    """Change from the first run to the last, where both are numbers."""

    @property
    def differs(self) -> bool:
        """Return whether it is a difference."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Comparison:
    """Differences in what was requested, what was measured and what it ran on, and how many values are equal."""

    doubts: list[str]
    """Reasons not to trust a run's numbers, by the run's letter."""
    remarks: list[str]
    """How each run was made, where its scenario does not say so; by the run's letter."""
    asked: list[Difference]
    came_out: list[Difference]
    ran_on: list[Difference]
    same: int
    problems: list[str] = field(default_factory=list)
    """Values that could not be read, and so are not compared, by the run's letter."""


Facts = dict[str, Any]


class Share(float):
    """A share of a whole, shown in percent; its change is shown in percentage points."""


def compare(runs: Sequence[RunData]) -> Comparison:
    """Everything of two or more runs that has a name and a value."""
    asked, came_out, ran_on = (_rows(runs, facts_of) for facts_of in (_asked, _came_out, _ran_on))
    same = sum(not row.differs for row in (*asked, *came_out, *ran_on))
    settings, machines = ([replace(row, change="") for row in rows if row.differs] for rows in (asked, ran_on))
    doubts, remarks, problems = (_by_face(runs, told) for told in (doubts_of, _remarks, lambda run: run.problems))
    return Comparison(doubts, remarks, settings, [row for row in came_out if row.differs], machines, same, problems)


def _by_face(runs: Sequence[RunData], told: Callable[[RunData], list[str]]) -> list[str]:
    """Prefix what is shown for each run with its letter."""
    return [f"{face}: {text}" for face, run in zip(faces(len(runs)), runs, strict=True) for text in told(run)]


def _remarks(run: RunData) -> list[str]:
    """State how a run was made, where its scenario does not say so."""
    by_hand = _by_hand(run)
    said = [f"with faults that were set by hand before it: {'; '.join(by_hand)}"] if by_hand else []
    if _was_attached(run):
        said.append("on a lab that was up before (--attach, or a study's): its topology and state are the lab's")
    return said


def _by_hand(run: RunData) -> list[str]:
    return list(dict.fromkeys(f"{fault.link} {fault.words}" for fault in run.faults if fault.by == "hand"))


def _was_attached(run: RunData) -> bool:
    env = run.environment
    return env is not None and ("--attach" in env.command if env.attached is None else env.attached)


def _rows(runs: Sequence[RunData], facts_of: Callable[[RunData], Facts]) -> list[Difference]:
    facts = [facts_of(run) for run in runs]
    return [_row(name, [of_run.get(name) for of_run in facts]) for name in _names(facts)]


def _names(facts: Sequence[Facts]) -> list[str]:
    """Merge all names; a name that only a later run has keeps its place before the name that follows it there."""
    names: list[str] = []
    for of_run in facts:
        at = len(names)
        for name in reversed(of_run):
            if name in names:
                at = names.index(name)
            else:
                names.insert(at, name)
    return names


def _asked(run: RunData) -> Facts:
    facts: dict[str, Any] = {
        "faults set by hand": "; ".join(_by_hand(run)) or (None if run.broken_unknown else "none"),
        "lab": "was up before" if _was_attached(run) else "its own",
        "fabric": run.summary.fabric if run.summary else None,
    }
    flat = {name: value for name, value in _flat(run.scenario) if name != "description"}
    return facts | {name: _typed(value) for name, value in flat.items()}


def _typed(value: Any) -> Any:
    """Format a setting as in a scenario file, so that it can be copied into one."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"{value:.15g}"
    return value


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Yield the leaves of a document with their dotted paths."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _flat(inner, f"{path}.{key}" if path else str(key))]
    if isinstance(value, tuple) and any(isinstance(inner, dict | tuple) for inner in value):
        return [leaf for at, inner in enumerate(value) for leaf in _flat(inner, f"{path}.{at}")]
    return [(path, (", ".join(map(str, value)) or "none") if isinstance(value, tuple) else value)] if path else []


def _came_out(run: RunData) -> Facts:
    summary = run.summary
    if summary is None:
        return {"outcome": "summary cannot be read" if run.run.summary.exists() else "no summary"}
    totals, found, load = summary.totals, summary.detected, summary.load
    barriers = sum(flow.is_barrier for flow in summary.flows)
    right = [one.after_s for one in found.named if one.right and one.after_s is not None]
    facts: dict[str, Any] = {"outcome": summary.outcome}
    facts |= {f"check: {check.name}": "✓ holds" if check.ok else "✗ fails" for check in summary.checks}
    facts |= {
        "links named": ", ".join(one.link for one in found.named) or "none",
        "links missed": ", ".join(found.missed) or "none",
        "precision": _share(found.precision),
        "recall": _share(found.recall),
        "seconds from the first packet to a right name": min(right, default=None),
    }
    facts |= {f"paths judged {verdict}": count for verdict, count in sorted(found.verdicts.items())}
    facts |= _did(summary)
    facts |= {
        **_collectives(summary.collectives),
        "flows": totals.flows - barriers,
        "queue pairs of barriers": barriers,
        "payload bytes": totals.payload_bytes,
        "bytes wrong": totals.bytes_wrong,
        "packets": totals.packets,
        "packets resent": totals.retransmissions,
        "timeouts": totals.timeouts,
        "seconds": totals.seconds,
        "goodput, Mb/s": None if totals.goodput_bps is None else totals.goodput_bps / 1e6,
        "packets in order": _share(_in_order(summary)),
        "losses unexplained": load.unexplained_losses,
        "ring drops": load.ring_drops,
        "softnet drops": load.softnet_drops,
        "engines waited for a core": _share(load.sched_wait_share),
    }
    return facts


def _collectives(rows: Sequence[CollectiveRow]) -> dict[str, Any]:
    """List what each collective measured; several of one name and size are numbered."""
    names = [f"{row.name} {size_text(row.size_bytes)}" for row in rows]
    facts: dict[str, Any] = {}
    for at, (name, row) in enumerate(zip(names, rows, strict=True)):
        number = f" ({names[:at].count(name) + 1})" if names.count(name) > 1 else ""
        facts |= {
            f"{name}{number}: {what}": value
            for what, value in (
                ("time of a round, ms", row.time_us / 1e3),
                ("median round, ms", row.times.median_us / 1e3),
                ("algbw, GB/s", row.algbw_bytes_per_s / GB),
                ("busbw, GB/s", row.busbw_bytes_per_s / GB),
                ("numbers wrong", row.wrong),
            )
        }
    return facts


def _did(summary: Summary) -> dict[str, int]:
    """List what the faults did per direction and kind, summed over all times in force."""
    done: Counter[str] = Counter()
    for one in summary.injected:
        name = f"{one.link} {fault_text(one.kind)}"
        done[f"{name}: dropped"] += one.dropped
        if one.hit is not None and one.hit != one.dropped:
            done[f"{name}: hit"] += one.hit
        if one.dropped_reverse:
            done[f"{name}: lost the other way"] += one.dropped_reverse
    return dict(done)


def _share(value: float | None) -> Share | None:
    return None if value is None else Share(value)


def _in_order(summary: Summary) -> float | None:
    told = [flow.reordering for flow in summary.flows if flow.reordering is not None]
    total = sum(one.in_order + sum(one.late) for one in told)
    return sum(one.in_order for one in told) / total if total else None


def _ran_on(run: RunData) -> Facts:
    env = run.environment
    if env is None:
        return {}
    facts: dict[str, Any] = {name: getattr(env, name) for name in ("kernel", "distribution", "cpu", "cpus_usable")}
    facts |= {"memory, GiB": round(env.memory_bytes / 2**30, 1), "Python": env.python}
    if env.code is not None:
        facts["spraylab's code, sha256"] = env.code.sha256[:12]
    return facts | dict(env.packages) | dict(env.tools)


def _row(name: str, values: Sequence[Any]) -> Difference:
    decimals = max((_decimals(value) for value in values if isinstance(value, float)), default=0)
    return Difference(name, tuple(_text(value, decimals) for value in values), _change(values[0], values[-1]))


def _decimals(value: float) -> int:
    """Return the decimals that four significant digits need, without trailing zeros."""
    exponent = Decimal(f"{value:.4g}").normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _text(value: Any, decimals: int) -> str:
    if value is None:
        return NOTHING
    match value:
        case Share():
            return f"{value:.1%}"
        case float():
            return f"{value:,.{decimals}f}"
        case int():
            return f"{value:,}"
    return str(value)


def _change(first: Any, last: Any) -> str:
    both = [value for value in (first, last) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(both) < 2 or first == last:
        return ""
    if isinstance(first, Share) and isinstance(last, Share):
        return f"{100 * (last - first):+.1f} points"
    if not first:
        return ""
    return f"{last / first - 1:+.1%}"


def faces(count: int) -> list[str]:
    """Return the letters of the runs: A, B, ..."""
    return [chr(ord("A") + at) for at in range(count)]


def table_of(differences: Sequence[Difference], count: int, empty: str) -> Table:
    """Show differences as a table; two runs also get a column of changes."""
    with_change = count == 2 and any(one.change for one in differences)
    columns = ("", *faces(count), *(["#A to B"] if with_change else []))
    rows = [(one.name, *one.values, *([one.change] if with_change else [])) for one in differences]
    return Table(columns, rows, empty)


def comparison_page(runs: Sequence[RunData]) -> str:
    """Return the comparison as one self-contained HTML page."""
    found, count = compare(runs), len(runs)
    reaches = shared_by(runs)
    wide, narrow = ([figures_of(run, width, reaches) for run in runs] for width in (BESIDE_IN, COLUMN_IN))
    rows: list[tuple[tuple[Drawn, ...], tuple[Drawn, ...]]] = list(
        zip(zip(*wide, strict=True), zip(*narrow, strict=True), strict=True)
    )
    return rendered(
        "comparison.html.j2",
        title=" / ".join(dict.fromkeys(str(run.scenario.get("name") or run.name) for run in runs)) + ", compared",
        runs=list(zip(faces(count), runs, map(sentence_of, runs), strict=True)),
        remarks=found.remarks,
        came_out=table_of(found.came_out, count, "the same in all"),
        asked=table_of(found.asked, count, "the same in all"),
        ran_on=table_of(found.ran_on, count, "the same in all"),
        same=found.same,
        rows=rows,
    )
