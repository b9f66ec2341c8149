"""Lists conditions of the lab and this machine that worsen the numbers of a performance test: faults, denials, load."""

from collections.abc import Iterator

from results.numbers_text import count_text
from scenarios.cli.lab.fault_table import fault_rows, planned_rows
from scenarios.lab.client import Owner
from scenarios.lab.protocol import Denials, DenyShow, Faults, FaultShow
from scenarios.run.judge.expect import BUSY_SHARE, QUIET_SHARE
from scenarios.workload.jobs import PerfCounts


def hindrances(owner: Owner) -> tuple[str, ...]:
    """List faults in force, those that timelines will set or clear, and denied links, a line each; many equal ones
    in one.
    """
    faults = owner.ask(FaultShow(), Faults)
    return (*_fault_lines(faults), *_denial_lines(owner.ask(DenyShow(), Denials)))


def _fault_lines(faults: Faults) -> Iterator[str]:
    for link, asked, held, _, _, _, by, _ in fault_rows(faults.faults, each=False):
        what = asked if held == asked else f"{asked} (the kernel holds: {held})"
        yield f"fault in force: {link} {what}, set by {by}"
    for link, asked, act, _, by in planned_rows(faults.planned, each=False):
        yield f"fault to come: a timeline will {act} {asked} on {link}, set by {by} (`spraylab fault show` says when)"


def _denial_lines(denials: Denials) -> Iterator[str]:
    if links := [each.link for each in denials.denials]:
        more = f" and {len(links) - 1:,} more" if len(links) > 1 else ""
        yield f"denied to all queue pairs: {links[0]}{more} (`spraylab deny show`)"


def overload(spent: PerfCounts) -> str:
    """State why the numbers of a test mean little, if this machine did not keep up; empty if it did.

    Everything that such a test measures is a time, so what is a warning of a run's counts is enough here.
    """
    reasons = []
    if spent.lost_here > spent.packets * QUIET_SHARE:
        reasons.append(f"this machine itself lost {spent.lost_here:,} of {count_text(spent.packets, 'packet')}")
    if spent.wait_share >= BUSY_SHARE:
        reasons.append(f"engines waited {spent.wait_share:.0%} of their time for a core: the times are unreliable")
    return "; ".join(reasons)
