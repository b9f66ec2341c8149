"""Nothing of a lab is left, however it ends, and nothing of anybody else's is touched."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.records import outstanding
from results.files.event_log import read_records
from scenarios.file.load import load_scenario
from scenarios.file.scenario_files import find_scenario
from scenarios.lab.processes import marked, spawn
from scenarios.run import stages
from scenarios.run.request import RunRequest
from scenarios.run.runner import run_scenario
from testbed.kernel.features import probe_features
from testbed.kernel.netns import create_namespaces, delete_namespaces, namespaces
from tests.support.namespaces import needs_root, wait_until
from tests.support.spraylab_command import Lab, own_lab, trusted
from tests.support.sudo_user import SUDO, USER, let_in

pytestmark = [pytest.mark.root, needs_root]

SMALL = ("--planes", "2", "--leaves", "4", "--spines", "4")
TRAFFIC = "traffic:"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with own_lab(tmp_path / "runs") as lab:
        yield lab


@pytest.fixture
def long_run(tmp_path: Path) -> str:
    """gray-link-small with eight times the packets: some seconds of traffic to interfere with."""
    text = find_scenario("gray-link-small").read_text()
    file = tmp_path / "long.yaml"
    file.write_text(text.replace("packets: 16384", "packets: 131072"))
    return str(file)


@pytest.fixture(autouse=True)
def _foreign(lab: Lab, tmp_path: Path) -> Iterator[None]:
    """A namespace with a veth pair, processes and a file of somebody else, under names much like ours."""
    other = f"{lab.name[:8]}zz"
    name, veth = f"spraylab-{other}-h0", f"sl{lab.name[:8]}"
    mine = Path(f"/tmp/spraylab-{lab.name}")
    with ExitStack() as undo:
        create_namespaces([name])
        undo.callback(delete_namespaces, [name])
        subprocess.run(("ip", "link", "add", veth, "type", "veth", "peer", f"{veth}p"), check=True)
        undo.callback(subprocess.run, ("ip", "link", "del", veth), check=True)
        subprocess.run(("ip", "-n", name, "link", "set", "lo", "up"), check=True)
        pinging = ("ip", "netns", "exec", name, "ping", "-q", "::1")
        pinger = subprocess.Popen(pinging, stdout=subprocess.DEVNULL)
        undo.callback(pinger.wait)
        undo.callback(pinger.kill)
        marked_otherwise = spawn(("sleep", "300"), other)
        undo.callback(marked_otherwise.wait)
        undo.callback(marked_otherwise.kill)
        mine.write_text("not yours")
        undo.callback(mine.unlink)
        yield
        assert namespaces(name) == (name,)
        assert Path(f"/sys/class/net/{veth}").exists()
        assert pinger.poll() is None
        assert marked_otherwise.poll() is None
        assert mine.read_text() == "not yours"


def owner_of(lab: Lab) -> int:
    """Number of the owner process, found before it has written any file."""
    for process in marked(lab.name):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        if b"scenarios.lab.owner.process" in command:
            return process.pid
    raise AssertionError("no owner")


def wait_for_line(process: "subprocess.Popen[str]", beginning: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(beginning):
            return
    raise AssertionError(f"ended without saying {beginning!r}")


def killed_at(lab: Lab, process: "subprocess.Popen[str]", line: str, chance: random.Random) -> str:
    """kill -9 of the owner at a random moment after it said `line`; what it said from there on."""
    wait_for_line(process, line)
    time.sleep(chance.uniform(0, 0.2))  # the moment is what is tested: no condition to wait for
    os.kill(owner_of(lab), signal.SIGKILL)
    return process.communicate(timeout=120)[1]


@pytest.mark.parametrize("moment", [f"{step} of 4, " for step in (1, 2, 3, 4)])
def test_owner_killed_while_it_starts(lab: Lab, moment: str) -> None:
    chance = random.Random(f"{os.getpid()} {moment}")
    up = lab.start("up", *SMALL)
    killed_at(lab, up, moment, chance)
    lab("down")
    assert lab.left() == []
    lab("down")


def test_owner_killed_in_full_traffic(lab: Lab, long_run: str) -> None:
    lab("up", *SMALL)
    lab("fault", "set", "p*:leaf0>spine*", "--drop", "1%")
    lab("capture", "start", "p0:leaf1-spine1")
    run = lab.start("run", "--attach", long_run)
    run_said = killed_at(lab, run, TRAFFIC, random.Random())
    assert run.returncode == 4
    assert "has died" in run_said
    assert "no living owner; `spraylab down" in lab("inspect", code=4).stderr
    assert "left behind" in lab("up", *SMALL, code=4).stderr
    removed = lab.json("down")
    assert (removed["by_owner"], removed["namespaces"]) == (False, 20)
    assert lab.left() == []


def test_owner_killed_under_a_run_of_its_own(lab: Lab, long_run: str) -> None:
    run = lab.start("run", long_run)
    killed_at(lab, run, TRAFFIC, random.Random())
    assert run.returncode == 4
    assert lab.left() == [], "the run removes what its owner could not"


@pytest.mark.parametrize("name", ["worker0", "spraycheck"])
def test_a_process_of_the_lab_killed(lab: Lab, long_run: str, name: str) -> None:
    lab("up", *SMALL)
    run = lab.start("run", "--attach", long_run)
    wait_for_line(run, TRAFFIC)
    pids = {child["name"]: child["process"]["pid"] for child in lab.json("inspect")["children"]}
    os.kill(pids[name], signal.SIGKILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 4
    assert re.search(f"{name} (was )?killed by SIGKILL", said), said
    states = {child["name"]: child["state"] for child in lab.json("inspect")["children"]}
    assert states[name] == "killed by SIGKILL"
    lab("down")
    assert lab.left() == []


def test_a_lab_taken_down_under_a_run_and_a_capture_killed_are_told(lab: Lab, long_run: str) -> None:
    lab("up", *SMALL)
    run = lab.start("run", "--attach", long_run)
    wait_for_line(run, TRAFFIC)
    tcpdumps = [process.pid for process in marked(lab.name) if runs_tcpdump(process.pid)]
    os.kill(tcpdumps[0], signal.SIGKILL)
    assert run.stderr is not None
    wait_for_line(run, "tcpdump of ")
    lab("down")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 4
    assert re.search(f"lab '{lab.name}' (was taken down meanwhile|is being taken down)", said), said
    assert lab.left() == []


def runs_tcpdump(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "tcpdump"


def test_state_file_and_folder_gone(lab: Lab) -> None:
    lab("up", *SMALL)
    os.kill(owner_of(lab), signal.SIGKILL)
    lab.labdir.remove()
    lab("down")
    assert lab.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", ["1 of 4, fabric:", "3 of 4, agents:", TRAFFIC])
def test_interrupted_run(lab: Lab, long_run: str, number: signal.Signals, moment: str) -> None:
    run = lab.start("run", long_run)
    wait_for_line(run, moment)
    os.killpg(run.pid, number)
    os.killpg(run.pid, number)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert lab.left() == []


def test_interrupted_run_on_a_lab_that_stays_up(lab: Lab, long_run: str) -> None:
    lab("up", *SMALL)
    run = lab.start("run", "--attach", long_run)
    wait_for_line(run, TRAFFIC)
    assert lab.json("fault", "show")
    assert "a run is going on" in lab("run", "--attach", "gray-link-small", code=4).stderr
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=120)
    assert run.returncode == 130
    assert lab.json("fault", "show") == []
    assert lab.json("inspect")["captures"] == []
    trusted(lab, "run", "--attach", "gray-link-small")
    lab("down")
    assert lab.left() == []


def test_killed_run_on_a_lab_that_stays_up(lab: Lab, long_run: str) -> None:
    """Its faults, timelines and captures go with its connection; those set by hand stay, and so does the lab."""
    lab("up", *SMALL)
    lab("fault", "set", "p1:leaf0>spine0", "--drop", "0.001%")
    lab("capture", "start", "p1:leaf0-spine0")
    run = lab.start("run", "--attach", long_run)
    wait_for_line(run, TRAFFIC)
    stopped = lab("capture", "stop")
    assert "2 captures of the run that is going on: left alone" in stopped.stderr
    assert {each["by"] for each in lab.json("fault", "show")} == {"hand", "scenario"}
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until(lambda: lab.json("inspect")["captures"] == [], "the owner ends the captures of the dead run")
    assert [each["by"] for each in lab.json("fault", "show")] == ["hand"]
    trusted(lab, "run", "--attach", "gray-link-small")
    lab("down")
    assert lab.left() == []


def test_run_killed(lab: Lab, long_run: str) -> None:
    """Nobody is left to clean up but the owner, which holds the other end of the lease."""
    run = lab.start("run", long_run)
    wait_for_line(run, TRAFFIC)
    run.kill()
    run.communicate()
    wait_until(lambda: lab.left() == [], "the owner takes the lab down", within_s=20)


def test_interrupted_up(lab: Lab) -> None:
    up = lab.start("up", *SMALL)
    wait_for_line(up, "3 of 4, agents:")
    os.killpg(up.pid, signal.SIGINT)
    up.communicate(timeout=120)
    assert up.returncode == 130
    assert lab.left() == []


def test_owner_asked_to_end_by_a_signal(lab: Lab) -> None:
    lab("up", *SMALL)
    os.kill(owner_of(lab), signal.SIGTERM)
    wait_until(lambda: lab.left() == [], "the owner takes the lab down", within_s=20)
    assert "not up; nothing to remove" in lab("down").stdout


class _Deaf:
    def stage(self, name: str) -> None: ...
    def note(self, text: str) -> None: ...
    def waiting(self, text: str) -> None: ...
    def progress(self, done_bytes: int, all_bytes: int, resent: int) -> None: ...


@pytest.mark.parametrize("stage", ["set_faults", "open_traffic", "wait_ended", "clear_faults"])
def test_error_inside_a_stage(lab: Lab, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(stage)

    monkeypatch.setattr(stages, stage, fail)
    for name, value in SUDO.items():
        monkeypatch.setenv(name, value)
    let_in(lab.runs)
    scenario = load_scenario(find_scenario("gray-link-small"))
    order = RunRequest(scenario, lab.labdir, False, lab.runs, ("pytest",))
    with pytest.raises(ZeroDivisionError, match=stage):
        run_scenario(order, _Deaf())
    assert lab.left() == []
    owners = {path.lstat().st_uid for path in lab.runs.rglob("*")}
    if stage == "set_faults":
        assert owners == set(), "refused before anything was in force: no folder"
    else:
        assert owners == {USER.uid}, "the folder is the user's, also of a run that failed"


def test_tool_missing_is_3_and_leaves_nothing(lab: Lab) -> None:
    hidden = f'mount --bind /dev/null "{shutil.which("clang")}" && exec "$@"'
    words = ("unshare", "--mount", "sh", "-c", hidden, "sh", *lab.words("up", *SMALL))
    told = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert told.returncode == 3, told.stderr
    assert "clang is missing: install the package clang" in told.stderr
    assert lab.left() == []


def test_an_order_that_is_interrupted_is_taken_back(lab: Lab) -> None:
    """Ctrl-C while the owner is at it: nothing of the order is left, and what stood before stands again."""
    lab("up", *SMALL)
    lab("fault", "set", "p0:leaf0>spine0", "--drop", "1%")
    os.kill(owner_of(lab), signal.SIGSTOP)
    order = lab.start("fault", "set", "p*:leaf*>spine*", "--drop", "2%")
    wait_until(lambda: waits_for_an_answer(order), "the order is on its way")
    os.killpg(order.pid, signal.SIGINT)
    order.communicate(timeout=60)
    os.kill(owner_of(lab), signal.SIGCONT)
    assert order.returncode == 130
    assert [(each["link"], each["requested"]) for each in lab.json("fault", "show")] == [("p0:leaf0>spine0", 0.01)]
    truth = [record["event"] for record in read_records(lab.labdir.truth)]
    assert truth.count("FAULT_SET") == truth.count("FAULT_CLEAR") + 1 == 34, "it was in force for a while, and is told"
    a_stopped_worker_is_named(lab)
    lab("down")
    assert lab.left() == []


def a_stopped_worker_is_named(lab: Lab) -> None:
    """And stops nobody who does not need it: the owner answers, also while it has a request for it."""
    pid = next(each["process"]["pid"] for each in lab.json("inspect")["children"] if each["name"] == "worker0")
    os.kill(pid, signal.SIGSTOP)
    assert {each["name"]: each["state"] for each in lab.json("inspect")["children"]}["worker0"] == "stopped"
    began = time.monotonic()
    for words in (("deny", "set", "p0:leaf0>spine0"), ("inspect", "h0", "--qps")):
        assert f"worker0 (process {pid}) is stopped and does not answer" in lab(*words, code=4).stderr
    assert "is not whole before this run" in lab("run", "--attach", "gray-link-small", code=4).stderr
    assert time.monotonic() - began < 20
    assert lab.json("deny", "show") == []
    os.kill(pid, signal.SIGCONT)
    assert [each["link"] for each in lab.json("deny", "set", "p0:leaf0>spine0")] == ["p0:leaf0>spine0"]
    os.kill(pid, signal.SIGSTOP)  # `down` wakes it


def waits_for_an_answer(process: "subprocess.Popen[str]") -> bool:
    """Whether it has asked: it is inside poll(), by which Python waits for a socket (proc_pid_syscall(5))."""
    return Path(f"/proc/{process.pid}/syscall").read_text().split()[0] == "7"  # asm/unistd_64.h


STANDING = {
    "p0:leaf0>spine0": ("--drop", "1%", "--mechanism", "ebpf"),
    "p0:leaf0>spine1": ("--flap", "period=40ms,duty=50%,jitter=5ms"),
    "p0:leaf0-spine2": ("--down",),
    "p0-spine3": ("--hang",),
    "p0-leaf1": ("--crash",),
    "p0-leaf2": ("--reboot", "1min"),
    "p0:leaf3>spine0": ("--rate", "10Mbit", "--corrupt", "1%", "--duplicate", "1%"),
    "h0:plane0": ("--down",),
    "p0-leaf3:spine[1-2]": ("--one-in", "7", "--only-last", "2"),
    "p0:leaf3>h3": ("--gemodel", "p=1%,r=10%", "--every", "60ms", "--for", "30ms"),
    "p1": ("--down",),
}
"""One of every kind that a kernel without netem makes, and every form of target; all in force at once."""
DELAYED = {"p0:leaf3>spine3": ("--delay", "10ms", "--jitter", "2ms", "--reorder", "5%", "--ahead", "1ms")}


def test_owner_killed_with_every_kind_of_fault_in_force(lab: Lab) -> None:
    lab("up", *SMALL)
    netem = next(feature.present for feature in probe_features() if feature.name == "netem")
    for target, words in {**STANDING, **(DELAYED if netem else {})}.items():
        lab("fault", "set", target, *words)
    flapping = lab.labdir.path / "faults.jsonl"
    at_first = len(flapping.read_bytes())
    wait_until(lambda: len(flapping.read_bytes()) > at_first, "the flap goes on")
    kinds = {line.kind for line in outstanding(flapping)} | {"flap", "burst-drop"}  # these two come and go
    told = lab.json("fault", "show")
    asked = {each["kind"] for each in told if each["state"] != "failed"}  # edges too quick for a busy machine
    assert kinds == asked, "what was applied is written down"
    os.kill(owner_of(lab), signal.SIGKILL)
    assert outstanding(flapping) != ()
    lab("down")
    assert lab.left() == []
    lab("down")


def test_owner_killed_in_the_middle_of_an_edge(lab: Lab) -> None:
    """Half a plane flaps every 20 ms, so that a random moment is likely to be between a journal line and its act."""
    chance = random.Random()
    lab("up", "--planes", "2", "--leaves", "2", "--spines", "2")
    lab("fault", "set", "p0:leaf*>spine*", "--flap", "period=20ms")
    time.sleep(chance.uniform(0.1, 0.3))  # the moment is what is tested: no condition to wait for
    os.kill(owner_of(lab), signal.SIGKILL)
    acts = [line.act for line in outstanding(lab.labdir.path / "faults.jsonl")]
    assert set(acts) <= {"applying", "in-force"}
    lab("down")
    assert lab.left() == []
