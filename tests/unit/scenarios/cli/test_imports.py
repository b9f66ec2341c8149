"""Help and completion load no package that takes long to import; a command loads it when it does its work."""

import subprocess
import sys

from tests.support.documents import ROOT

SLOW = {
    "asyncio", "jinja2", "matplotlib", "mininet", "multiprocessing", "numpy", "pydantic", "pyroute2", "rich", "scapy",
    "scipy", "setuptools",
}  # fmt: skip

BEGIN = f"""\
import io, os, sys
from contextlib import redirect_stdout, suppress
sys.path.insert(0, {str(ROOT)!r})
from scenarios.cli.main import main
"""

HELP = """
with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
    main(["--help"])
found = printed.getvalue().splitlines()
"""

COMPLETE = """
from scenarios.cli import options
from scenarios.cli.completion import BashComplete
from scenarios.lab.lab_dir import LabState
from scenarios.lab.processes import ProcessId
up = LabState("lab", ProcessId(1, 1), "", 1, 2, 2, 1, False, 9000, 1, ())
options.read_state = lambda _: up
def completed(line):
    os.environ["COMP_LINE"] = line
    return BashComplete(main, {}, "spraylab", "_SPRAYLAB_COMPLETE").complete()
found = [line for line in map(str.strip, sys.stdin) if completed("spraylab " + line)]
"""

END = """
print(*found, sep="\\n")
print(*sys.modules, file=sys.stderr)
"""

LINES = (
    "f", "run gr", "up gr", "validate gr", "study pa", "fault set p0", "fault clear p0", "fault set p0 --d",
    "inspect h", "exec h", "scapy h", "sniff p0", "capture start p0", "deny set p0", "perf write-bw h",
    "perf all-reduce --m", "detect --f", "watch --o", "show --r", "report --r", "compare --r", "pcap merge --r",
    "check --l", "doctor --j", "down --l", "completion b",
)  # fmt: skip
"""One of every command that begins something which the shell can end."""


def loaded_by(what: str, typed: str = "") -> tuple[list[str], set[str]]:
    """What is printed, and the packages that are loaded then."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", BEGIN + what + END], input=typed, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines(), {name.partition(".")[0] for name in done.stderr.split()}


def test_help_loads_no_slow_package() -> None:
    printed, loaded = loaded_by(HELP)
    assert sum(line.startswith("  ") for line in printed) > 20
    assert loaded & SLOW == set()


def test_completion_loads_no_slow_package() -> None:
    completed, loaded = loaded_by(COMPLETE, "\n".join(LINES))
    assert completed == list(LINES)
    assert loaded & SLOW == set()
