"""Does all data arrive right, once and in bounded time, whatever the network does? Thousands of seeds, as a table.

    python -m tests.study.transport_seeds [--first 0] [--seeds 3000] [--jobs 2]

Each seed is a case of `tests/unit/agent/conformance/test_seeds.py`, which checks it. Exits with 1 when one went wrong.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import click

from agent.core.ev.state import EvState
from agent.core.events import EvStatesChanged
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Opcode
from tests.unit.agent.conformance.agents import DATA, mark_congestion
from tests.unit.agent.conformance.test_seeds import Played, play
from tests.unit.agent.io.memory_lab import Flow

PSNS = 1 << 24


@dataclass
class Tally:
    """What a number of seeds covered: `cases` by trait, `counts` of what happened, seeds that went wrong."""

    cases: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in those of other seeds."""
        self.cases.update(other.cases)
        self.counts.update(other.counts)
        self.wrong += other.wrong
        self.most |= other.most


def tally_of(seed: int) -> Tally:
    """Play one seed."""
    tally = Tally()
    try:
        played = play(seed)
    except BaseException:
        tally.wrong.append((seed, traceback.format_exc()))
        return tally
    tally.cases.update({"seeds", *traits_of(played)})
    tally.counts.update(happened(played))
    tally.most["slowest, virtual ms"] = played.lab.fabric.now_ns // 10**6
    return tally


def traits_of(played: Played) -> Iterator[str]:
    """What a case is made of."""
    yield f"{played.lab.planes} plane{'s' * (played.lab.planes > 1)}"
    for rule in played.lab.fabric.rules:
        yield from _rule_traits(rule)
    if len(played.flows) > 1:
        yield "writes both ways"
    for flow in played.flows:
        yield from _flow_traits(flow)


def _rule_traits(rule: PathRule) -> Iterator[str]:
    if rule.opcodes == DATA and rule.alter is None:
        yield f"data loss {rule.loss:.1%}"
    elif rule.opcodes == (Opcode.SACK, Opcode.ACKNOWLEDGE):
        yield f"SACK and ACK loss {rule.loss:.0%}"
    elif rule.loss == 1.0:
        yield f"a plane dead from {'the start' if rule.first_ns == 0 else 'amid'} for {rule.end_ns // 10**6} ms"
    if rule.delay_ns:
        yield "a slow path: reordering between paths"
    if rule.jitter_ns:
        yield "jitter: reordering within paths"
    if rule.duplicate:
        yield "duplication 10%"
    if rule.alter is not None:
        yield "congestion marks" if rule.alter is mark_congestion else "trimming 10%"


def _flow_traits(flow: Flow) -> Iterator[str]:
    qp = flow.source.qp
    config = qp.config
    yield f"loss policy {config.ev.loss_policy.value}"
    yield f"loss rule {config.loss_rule.value}"
    yield f"spraying {config.policy.value}"
    yield f"window {config.window_pkts}"
    if qp.start_psn + qp.posted_pkts > PSNS:
        yield "PSN wrap"
    for trait, holds in {
        "NSCC": qp.progress().cwnd_bytes is not None,
        "transport ACKs": config.transport_ack,
        "completion by SACK": not config.transport_ack,
        "dynamic MPR": config.dynamic_mpr,
        "NACKs beyond the window": config.nack_out_of_window,
        "port mask in SACKs": config.ev.port_mask,
        "backup EVs": config.ev.active is not None,
        "immediates": flow.target.qp.progress().responder.immediates > 0,
    }.items():
        if holds:
            yield trait


def happened(played: Played) -> Counter[str]:
    """What the agents counted."""
    counts: Counter[str] = Counter()
    for flow in played.flows:
        sent, got = flow.source.qp.progress().requester, flow.target.qp.progress().responder
        counts.update(
            {
                "packets": sent.packets_tx,
                "resends": sent.packets_rtx,
                "proven lost": sent.lost,
                "timed out": sent.timed_out,
                "refused by NACK": sent.nacked,
                "SACKs read": sent.sacks,
                "SACKs overtaken": sent.sacks_stale,
                "probes sent": sent.probes,
                "probes answered": sent.probes_answered,
                "duplicates received": got.duplicates,
                "beyond the window": got.out_of_window,
                "trimmed": got.trimmed,
                "marked": got.ce_marked,
                "late by reordering": sum(flow.target.qp.reordering().late),
                "immediates delivered": got.immediates,
            }
        )
    changes = [item.event for item in played.lab.events if isinstance(item.event, EvStatesChanged)]
    counts["EVs retired"] = sum(len(c.ev_indices) for c in changes if c.state is EvState.ASSUMED_BAD)
    counts["EVs revived"] = sum(len(c.ev_indices) for c in changes if c.state is EvState.GOOD)
    return counts


def rows_of(tally: Tally) -> Iterator[str]:
    """The table."""
    yield f"{'seeds with':<44}{'':>10}"
    yield from (f"  {name:<42}{count:>10,}" for name, count in sorted(tally.cases.items()))
    yield "in all of them"
    yield from (f"  {name:<42}{count:>10,}" for name, count in tally.counts.items())
    yield from (f"  {name:<42}{count:>10,}" for name, count in tally.most.items())


@click.command()
@click.option("--first", default=0, show_default=True, help="First seed.")
@click.option("--seeds", default=3000, show_default=True, help="How many.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def main(first: int, seeds: int, jobs: int) -> None:
    """Play seeds and print what they covered."""
    total = Tally()
    with ProcessPoolExecutor(jobs) as pool:
        for tally in pool.map(tally_of, range(first, first + seeds), chunksize=25):
            total.add(tally)
            for seed, text in tally.wrong:
                click.echo(f"seed {seed} went wrong:\n{text}", err=True)
    for row in rows_of(total):
        click.echo(row)
    click.echo(f"{seeds - len(total.wrong)} of {seeds} seeds right: {first}..{first + seeds - 1}")
    sys.exit(1 if total.wrong else 0)


if __name__ == "__main__":
    main()
