"""Damaged run folders through the commands that read runs: `python -m tests.fuzz.mutate_runs --help`.

Three things must hold: no command raises what it does not expect; each ends with a code of the command line, and says
why where that is an error; and none takes more memory or time than a run of this size may.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

from results.report import comparison, page
from results.report.run_data import RunData
from results.report.style import Drawn
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.main import main as spraylab
from tests.fuzz.damage import damage
from tests.support.run_folder import write_run

MOST_SECONDS = 20.0
"""Of CPU time of one command."""
MOST_BYTES = 3 << 30
"""Of address space of one process; numpy and matplotlib take a third."""
KEPT_LINES = 24
"""Of each file of JSON Lines, so that figures are drawn fast and each line is often hit."""
ENDS = (ExitCode.OK, ExitCode.CHECK_FAILED, ExitCode.USAGE, ExitCode.ENVIRONMENT)


@dataclass(frozen=True)
class Failure:
    """A command that did what it must not."""

    seed: int
    damage: str
    command: str
    what: str
    where: str
    """The end of the traceback."""


def intact_run(path: Path) -> Path:
    """The folder that is damaged: short files of every kind."""
    run = write_run(path)
    verdicts = [line for line in run.detect.read_bytes().splitlines(keepends=True) if _is_kept(json.loads(line))]
    run.detect.write_bytes(b"".join(verdicts))
    for file in (run.agent, run.counters):
        lines = file.read_bytes().splitlines(keepends=True)
        step = max(1, len(lines) // KEPT_LINES)
        file.write_bytes(b"".join([*lines[:-1:step], lines[-1]]))
    _write_captures(run.pcap)
    return path


def _is_kept(record: dict[str, Any]) -> bool:
    """Of the verdicts those of one leaf in one plane, which the failed link is at."""
    return (record.get("plane", 0), record.get("src_leaf", 3)) == (0, 3)


def _write_captures(folder: Path) -> None:
    folder.mkdir()
    header = bytes.fromhex("4d3cb2a10200040000000000000000000001000001000000")
    packets = b"".join(
        at.to_bytes(4, "little") + bytes(4) + (60).to_bytes(4, "little") * 2 + bytes(60) for at in range(1, 6)
    )
    for name in ("p0_leaf3-spine5.leaf3-spine5.pcap", "p0_leaf3-spine5.spine5-leaf3.pcap"):
        (folder / name).write_bytes(header + packets)


def failures_of(seeds: Iterable[int], into: Path, draw_every: int) -> list[Failure]:
    """Damage a folder by each seed, and try all commands on it; every so many with figures, which are slow."""
    intact = intact_run(into / "intact")
    found = []
    for seed in seeds:
        with nullcontext() if seed % draw_every == 0 else _without_drawing():
            found += _tried(seed, intact, into / str(seed))
    return found


@contextmanager
def _without_drawing() -> Iterator[None]:
    """Everything that figures are made of is worked out, but no figure."""
    with patch.object(page, "figures_of", _reaching), patch.object(comparison, "figures_of", _reaching):
        yield


def _reaching(data: RunData, *_: object) -> list[Drawn]:
    page.reaches_of(data)
    return [Drawn(name, name, "", absent="not drawn") for name in page.FIGURES]


def _tried(seed: int, intact: Path, folder: Path) -> Iterator[Failure]:
    chance = random.Random(seed)
    shutil.copytree(intact, folder)
    done = "; ".join(_damaged_once(folder, chance) for _ in range(chance.choice((1, 1, 1, 2, 4))))
    try:
        for command in _commands(folder, intact, chance):
            began = time.process_time()
            result = CliRunner().invoke(spraylab, command)
            if (what := _wrong(result, time.process_time() - began)) is not None:
                yield Failure(seed, done, " ".join(command), what, _where(result))
    finally:
        shutil.rmtree(folder)


def _damaged_once(folder: Path, chance: random.Random) -> str:
    try:
        return damage(folder, chance)
    except (ValueError, RecursionError):
        return "damaged before"


def _commands(folder: Path, intact: Path, chance: random.Random) -> Iterator[list[str]]:
    run = str(folder)
    yield ["show", run, *chance.choice(([], ["--json"]))]
    yield ["detect", run, *chance.choice(([], ["--all"], ["--json"]))]
    yield ["pcap", "merge", run]
    yield ["report", run]
    pair = chance.choice(([run, str(intact)], [str(intact), run]))
    yield ["compare", *pair, "--out", str(folder / "compared.html")]


def _wrong(result: Result, seconds: float) -> str | None:
    """What a command must not have done."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {str(result.exception)[:120]}"
    if result.exit_code not in ENDS:
        return f"exit code {result.exit_code}"
    if result.exit_code != ExitCode.OK and not result.stderr.strip():
        return f"exit code {result.exit_code} without a word"
    if seconds > MOST_SECONDS:
        return f"took {seconds:.0f} s"
    return None


def _where(result: Result) -> str:
    if result.exc_info is None or isinstance(result.exception, SystemExit):
        return result.output[-200:]
    frames = traceback.extract_tb(result.exc_info[2])
    own = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(own[-3:]))


def _worker(draw_every: int, seeds: range) -> list[Failure]:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    with tempfile.TemporaryDirectory() as into:
        return failures_of(seeds, Path(into), draw_every)


def main() -> int:
    """Try as many folders as asked for, tell what failed, grouped by where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first folder; the next has the next")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--draw-every", type=int, default=20, help="folders of which one has its figures drawn")
    asked = parser.parse_args()
    last = asked.seed + asked.folders
    blocks = [range(at, min(last, at + 50)) for at in range(asked.seed, last, 50)]
    with ProcessPoolExecutor(asked.workers) as pool:
        failures = list(chain.from_iterable(pool.map(partial(_worker, asked.draw_every), blocks)))
    kinds = Counter((failure.command.split()[0], failure.what[:60], failure.where) for failure in failures)
    for (command, what, where), count in kinds.most_common():
        first = next(each for each in failures if each.what.startswith(what) and each.where == where)
        print(f"{count:5} {command}: {what}\n      {where}\n      seed {first.seed}: {first.damage}")
    print(f"{asked.folders} damaged folders, {len(failures)} failures of {len(kinds)} kinds")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
