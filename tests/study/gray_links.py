"""Is the right link named, every time, and nobody accused without a fault? Random links and directions, as a table.

    python -m tests.study.gray_links [--scenario gray-link-small] [--faulty 10] [--healthy 10] [--drop 1%]

One lab, one run after the other. A run on a machine that did not keep up (exit 5) is repeated, and counted as such.
Exits with 1 when a run named the wrong link, missed one, or accused without a fault.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from scenarios.file.load import load_scenario
from scenarios.file.model import Scenario
from scenarios.file.plan import spec_of
from scenarios.file.scenario_files import find_scenario
from testbed.model.fabric import Fabric
from testbed.model.node_names import DirectedLink, Role

COMMAND = (sys.executable, "-m", "scenarios.cli")
LAB = "study"
MOST_REPEATED = 4


@dataclass(frozen=True)
class Case:
    """One run: a seed and the link that drops, or none."""

    seed: int
    link: DirectedLink | None


@dataclass(frozen=True)
class Row:
    """What came of a case."""

    case: Case
    summary: dict[str, Any]
    repeated: int

    @property
    def right(self) -> bool:
        """Everything as expected."""
        return bool(self.summary["outcome"] == "pass")

    def text(self) -> str:
        """One line of the table."""
        detected, totals = self.summary["detected"], self.summary["totals"]
        named = ", ".join(each["link"] for each in detected["named"]) or detected["state"]
        after = max((each["after_s"] for each in detected["named"]), default=None)
        dropped = sum(fault["dropped"] for fault in self.summary["injected"])
        when = "-" if after is None else f"{after:.2f}"
        verdict = "right" if self.right else f"WRONG ({self.summary['outcome']})"
        again = f"  repeated {self.repeated}" if self.repeated else ""
        link = self.case.link or "none"
        counts = f"{dropped:>9}{totals['retransmissions']:>8}"
        return f"{self.case.seed:>4}  {link!s:<18}{named:<18}{when:>8}{counts}  {verdict}{again}"


HEADER = f"{'seed':>4}  {'drops':<18}{'named':<18}{'after s':>8}{'dropped':>9}{'resent':>8}"


def cases_of(scenario: Scenario, faulty: int, healthy: int) -> Iterator[Case]:
    """A random direction of a random fabric link for every seed, then runs without a fault."""
    fabric = Fabric.of(spec_of(scenario.topology))
    ways = [way for link in fabric.links() if link.upper.role is Role.SPINE for way in link.directions]
    for seed in range(1, faulty + 1):
        yield Case(seed, random.Random(seed).choice(ways))
    for seed in range(faulty + 1, faulty + healthy + 1):
        yield Case(seed, None)


def run(scenario: Scenario, case: Case, drop: str, folder: Path) -> Row:
    """One run on the lab that is up; repeated while the machine does not keep up."""
    links = [] if case.link is None else [str(case.link)]
    values = scenario.model_dump(mode="json", exclude_none=True) | {
        "seed": case.seed,
        "faults": [{"link": link, "drop": drop} for link in links],
        "capture": [],
        "expect": {"detected": links},
    }
    file = folder / f"{case.seed}.yaml"
    file.write_text(yaml.safe_dump(values))
    words = (*COMMAND, "run", "--attach", str(file), "--lab", LAB, "--runs", str(folder / "runs"), "--json", "-q")
    repeated = 0
    while (done := subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)).returncode == 5:
        if repeated == MOST_REPEATED:
            break
        repeated += 1
    if done.returncode not in (0, 1, 5):
        raise click.ClickException(f"seed {case.seed}: exit {done.returncode}")
    return Row(case, json.loads(done.stdout), repeated)


@click.command()
@click.option("--scenario", default="gray-link", show_default=True)
@click.option("--faulty", default=10, show_default=True)
@click.option("--healthy", default=10, show_default=True)
@click.option("--drop", default="1%", show_default=True)
@click.pass_context
def main(context: click.Context, scenario: str, faulty: int, healthy: int, drop: str) -> None:
    """Run the study and print its table."""
    chosen = load_scenario(find_scenario(scenario))
    subprocess.run((*COMMAND, "up", scenario, "--lab", LAB, "-q"), stdout=subprocess.DEVNULL, check=True)
    rows = []
    try:
        click.echo(f"{scenario}, {chosen.topology}, {drop} on one direction of one link\n{HEADER}")
        with tempfile.TemporaryDirectory(prefix="spraylab-study-") as folder:
            for case in cases_of(chosen, faulty, healthy):
                rows.append(run(chosen, case, drop, Path(folder)))
                click.echo(rows[-1].text())
    finally:
        subprocess.run((*COMMAND, "down", "--lab", LAB, "-q"), stdout=subprocess.DEVNULL, check=True)
    broken = [row for row in rows if row.case.link is not None]
    named = sum(row.summary["detected"]["recall"] == 1.0 for row in broken)
    false = sum(row.summary["detected"]["precision"] not in (None, 1.0) for row in rows)
    click.echo(f"{named} of {len(broken)} faults named; {false} of {len(rows)} runs accused a healthy link")
    context.exit(0 if all(row.right for row in rows) else 1)


if __name__ == "__main__":
    main()
