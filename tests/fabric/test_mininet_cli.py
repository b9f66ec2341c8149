"""Every command of Mininet's CLI, typed on a lab that is up, has the outcome that docs/mininet.md tells."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mininet.cli import CLI

from results.files.event_log import read_records
from tests.support.documents import ROOT
from tests.support.namespaces import needs_root
from tests.support.pty_session import PtySession, pty_session
from tests.support.spraylab_command import Lab, own_lab

pytestmark = [pytest.mark.root, needs_root]

PROMPT = "spraylab> "
SIZE = ("--planes", "2", "--leaves", "2", "--spines", "2")
AGAIN = (
    "import sys; from scenarios.lab.lab_dir import LabDir, read_state; from scenarios.lab.mininet_view import *; "
    "labdir = LabDir(sys.argv[1]); net = mininet_of(labdir, read_state(labdir).fabric()); LabCLI(net); net.stop()"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with own_lab(tmp_path_factory.mktemp("runs")) as lab:
        yield lab


@pytest.fixture(scope="module")
def cli(lab: Lab) -> Iterator[PtySession]:
    env = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    with pty_session(lab.words("up", *SIZE, "--host-stack", "--cli"), PROMPT, env | {"TERM": "dumb"}) as session:
        session.read()
        yield session
        assert session.leave("exit\n") == 0
    for keys in ("quit\n", "\x04"):
        with pty_session((sys.executable, "-c", AGAIN, lab.name), PROMPT) as another:
            another.read()
            assert another.leave(keys) == 0
    assert lab.json("inspect")["leaves"] == 2, "leaving the CLI leaves the lab up"
    lab("down")
    assert lab.left() == []


def test_the_table_of_outcomes_has_every_command() -> None:
    page = (ROOT / "docs/mininet.md").read_text()
    cells = [row.split(" | ")[0] for row in page.splitlines() if row.startswith("| `")]
    told = {command for cell in cells for command in re.findall(r"`(\w+)", cell)}
    assert {name.removeprefix("do_") for name in dir(CLI) if name.startswith("do_")} <= told


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("help", r"Documented commands[\s\S]*p0-leaf0 ip -6 route show table local"),
        ("help link", "Bring link"),
        ("nodes", "h0 h1 p0-leaf0 p0-leaf1 p0-spine0"),
        ("net", r"p0-leaf0 spine0:leaf0 spine1:leaf0 h0:plane0"),
        ("ports", r"p0-leaf0 spine0:\d+"),
        ("intfs", "h0: plane0,plane1"),
        ("links", r"p0:h0-leaf0 \(OK OK\)"),
        ("dump", "<Host h0: plane0:fd5f::"),
        ("py h0.IP()", "fd5f::"),
        ("py p0_leaf0", "<Router p0-leaf0: "),
        ("py nothing", "name 'nothing' is not defined"),
        ("px print(net.lab)", r"\w+"),
        ("sh echo $((6*7))", "^42$"),
        ("h0 ping -c1 h1", "1 received"),
        ("p0-leaf0 ip -br link show spine1", "spine1@"),
        ("noecho p0-leaf0 echo here", "here"),
        ("time p0-leaf0 true", "Elapsed time"),
        ("pingall", r"0% dropped \(2/2 received\)"),
        ("pingallfull", "h0->h1: 1/1"),
        ("pingpair", r"0% dropped \(2/2 received\)"),
        ("pingpairfull", "h1->h0: 1/1"),
        ("px net.iperf = __import__('functools').partial(net.iperf, seconds=1)", "^$"),
        ("iperf", r"Results: \['[\d.]+ \w+/sec', '[\d.]+ \w+/sec'\]"),
        ("iperf h1 h0", r"between h1 and h0[\s\S]*Results: \["),
        ("iperfudp 1M h0 h1", r"Results: \['1M', '[\d.]+ \w+/sec', '[\d.]+ \w+/sec'\]"),
        ("dpctl dump-flows", r"^\*\*\* dpctl: leaves and spines are Linux routers, without OpenFlow; .*$"),
        ("xterm h0", r"^\*\*\* xterm: there is no X display here; .*$"),
        ("gterm h0", r"^\*\*\* gterm: there is no X display here; .*$"),
        ("x h0 xeyes", r"^\*\*\* x: there is no X display here; .*$"),
        ("x h9 xeyes", r"^\*\*\* there is no node h9$"),
        ("source /nowhere", r"^\*\*\* there is no file /nowhere$"),
        ("switch p9-leaf0 stop", r"^\*\*\* there is no leaf or spine p9-leaf0$"),
        ("link p0-leaf0 p1-leaf0 down", "not connected"),
        ("h7 true", r"Unknown command: h7 true"),
        ("", "^$"),
    ],
)
def test_a_command(cli: PtySession, line: str, shown: str) -> None:
    said = cli.type(line)
    assert re.search(shown, said, re.MULTILINE), said
    assert "Traceback" not in said


def test_source_runs_a_file(cli: PtySession, tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text("h1 echo from a file\n")
    assert "from a file" in cli.type(f"source {script}")


@pytest.mark.parametrize(
    ("down", "up", "told"),
    [
        ("link p0-spine1 p0-leaf0 down", "link p0-leaf0 p0-spine1 up", {"p0:leaf0>spine1", "p0:spine1>leaf0"}),
        ("switch p1-spine0 stop", "switch p1-spine0 start", {"p1:spine0>leaf0", "p1:spine0>leaf1"}),
    ],
)
def test_an_outage_is_a_fault_and_its_end_puts_all_back(
    cli: PtySession, lab: Lab, down: str, up: str, told: set[str]
) -> None:
    kind = "down" if down.startswith("link") else "crash"
    assert cli.type(down) == ""
    assert {(each["link"], each["kind"]) for each in lab.json("fault", "show")} == {(link, kind) for link in told}
    assert "DOWN" in cli.type("links")
    assert cli.type(up) == ""
    assert lab.json("fault", "show") == []
    assert "DOWN" not in cli.type("links")
    lab("check")
    truth = [(each["event"], each["link"]) for each in read_records(lab.labdir.truth) if each["kind"] == kind]
    assert sorted(truth) == sorted((act, link) for link in told for act in ("FAULT_SET", "FAULT_CLEAR"))
