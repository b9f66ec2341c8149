"""Who follows the recipes of docs/contributing.md touches few files, and what was added works as far as without root.

Each recipe is followed in a copy of the code, and a program of its own tries what it added there.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT, Block, blocks_of

FOLDERS = ("agent", "faults", "results", "scenarios", "testbed")
MOST_FILES = 3
_MARK = re.compile(r'(?P<file>\S+)(?: (?P<where>before|behind) "(?P<line>.+)")?')

KIND = """
import msgspec
from faults.inject import Injector
from faults.records import Journal, outstanding
from faults.kinds import kind_named
from faults.kinds.reference import kinds_table
from faults.schedule import Schedule
from results.text import fault_text
from scenarios.run.collect import shut_ports
from results.summary import Injected
from tests.unit.faults.test_inject import FakeKernel, UP
from faults.kinds import By
from scenarios.cli.lab.fault import set_command

plan = planned({"faults": [{"link": "p0:leaf1>spine1", "blink": "2s", "at": "1s"}]})
(order,) = plan.faults
(fault,) = order.worded.faults
assert refusal({"faults": [{"link": "p0:leaf1>spine1", "blink": "2"}]}).count("faults.0.blink: '2' has no unit") == 1
assert "blink" in schema["$defs"]["FaultEntry"]["properties"]
assert "`blink`" in keys_tables()
assert "blink" in [option.name for option in set_command.params]
assert "| blink | `blink TIME` |" in kinds_table()

schedule = Schedule()
schedule.add("x", fault, order.worded.timing, 1, 0)
schedule.happened(order.worded.timing.on, 0)
due = schedule.due(10**10)
assert [(each.act.value, each.at_ns) for each in due] == [("set", 10**9), ("clear", 3 * 10**9)]

journal = Journal(folder / "faults.jsonl")
injector = Injector(journal, [FakeKernel(By.LINK)])
(made,) = injector.set(UP, fault)
assert (made.kind, made.fault, made.requested, made.mechanism) == ("blink", "blink 2s", 1.0, "link")
assert [(line.name, line.act) for line in outstanding(journal.path)] == [("blink", "in-force")]
(gone,) = injector.clear_all()
assert outstanding(journal.path) == () and gone.dropped == 10

assert "shut port" in kind_named("blink").why_uncounted("link")
assert fault_text("blink", fault.amount) == "blink 2s"
told = Injected("p0:h3>leaf3", "blink", 1.0, 1.0, "link", "", seen=9, dropped=9, dropped_writes=None)
assert shut_ports([told], plan.fabric) == {(3, 0)}
"""

WORKLOAD = """
import numpy as np
import msgspec
from agent.host.programs.patterns import Pattern, parts_of
from agent.host.control.program_requests import CollectiveOrder
from scenarios.cli.perf.writes import command
from tests.unit.agent.host.programs.test_patterns import SEED, World
from agent.host.programs.collective import total

plan = planned({"workloads": [{"type": "broadcast", "bytes": "64KiB"}]})
(each,) = plan.collectives
sent = {(one.source, one.destination): one.bytes for one in each.sendings(256)}
assert sent[0, 3] > sent[3, 0] and each.name == "broadcast"
assert "all-reduce" in refusal({"workloads": [{"type": "broadcst", "bytes": "64KiB"}]})
assert "broadcast" in json.dumps(schema["$defs"]["Workload"]["properties"]["type"])
assert "broadcast" in command.commands
order = CollectiveOrder(each.pattern, each.count, 10)
assert msgspec.json.decode(msgspec.json.encode(order), type=CollectiveOrder).pattern is Pattern.BROADCAST
world = World(each.pattern, 4, 64, np.random.default_rng(1))
for rank in range(1, 4):
    (part,) = parts_of(each.pattern, rank, 4, 64)
    assert np.array_equal(world.memory[rank]["recv"], total(part.ranks, SEED, part.start, part.count, 4))
"""

SETTING = """
import msgspec
from agent.host.control import requests as ask
from scenarios.file.qp_settings import qp_settings_of
from tests.unit.agent.host.test_commands import Worker

plan = planned({"transport": {"send_hold_us": 5}})
assert "send_hold_us: 1000001" in refusal({"transport": {"send_hold_us": 1000001}}).replace("is ", "")
assert schema["$defs"]["Transport"]["properties"]["send_hold_us"]["default"] == 0
assert "- `transport.send_hold_us` (number, 0 to 1000000 µs; `0`):" in keys_tables()
request = ask.CreateQp(0, 2, qp_settings_of(plan.scenario.transport, 1))
request = msgspec.json.decode(msgspec.json.encode(request), type=ask.Request)
worker = Worker()
made = worker.ask(request)
assert worker.commands.engine.hosts[0].channels[made["qpn"]].qp.config.send_hold_ns == 5000
"""

COMMON = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path[:0] = [str(folder), sys.argv[2]]
import agent
assert Path(agent.__file__).parents[1] == folder, agent.__file__
from scenarios.errors import ScenarioRefusedError
from scenarios.file.reference import keys_tables, schema_text
from scenarios.file.load import load_scenario
from scenarios.file.plan import plan_of
schema = json.loads(schema_text())

def planned(part):
    whole = {"version": 1, "name": "recipe", "workloads": [{"strides": [1], "packets": 4096}]} | part
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(whole))
    return plan_of(load_scenario(path))

def refusal(part):
    try:
        planned(part)
    except ScenarioRefusedError as error:
        return str(error)
    raise AssertionError(f"{part} is not refused")
"""


def recipe(title: str) -> list[Block]:
    """The blocks below a heading that are added to files."""
    page = ROOT / "docs/contributing.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"### {title}") + 1
    end = next(number for number, line in enumerate(lines[start:], start) if line.startswith("##"))
    return [block for block in blocks_of(page) if start < block.line < end and block.marked("into") is not None]


def follow(blocks: list[Block], folder: Path) -> set[str]:
    """Add each block where its mark says; the files touched."""
    touched = set()
    for block in blocks:
        place = _MARK.fullmatch(block.marked("into") or "")
        assert place is not None, block
        path = folder / place["file"]
        lines = path.read_text(encoding="utf-8").splitlines()
        at = len(lines)
        if place["where"]:
            (found,) = (number for number, line in enumerate(lines) if place["line"] in line)
            at = found + (place["where"] == "behind")
        blank = ["", ""] if place["where"] != "behind" else []
        path.write_text("\n".join([*lines[:at], *blank, *block.text.splitlines(), *blank, *lines[at:]]) + "\n")
        touched.add(place["file"])
    return touched


@pytest.mark.parametrize(
    ("title", "program"),
    [("A kind of fault", KIND), ("A workload", WORKLOAD), ("A setting of the transport", SETTING)],
)
def test_what_a_recipe_adds_works(title: str, program: str, tmp_path: Path) -> None:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = recipe(title)
    assert 1 <= len(follow(blocks, tmp_path)) <= MOST_FILES
    script = tmp_path / "recipe.py"
    script.write_text(COMMON + program)
    done = subprocess.run(
        [sys.executable, "-I", script, tmp_path, ROOT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_recipe_is_needed() -> None:
    """What is added is not there already."""
    words = json.dumps([block.text for title in ("A kind of fault", "A workload") for block in recipe(title)])
    assert "blink" in words
    sources = "".join(path.read_text() for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
    assert not re.search(r"\b(blink|BROADCAST|send_hold_ns)\b", sources)
