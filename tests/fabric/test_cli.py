"""Commands on a lab that is up: what they print, what they return, what they refuse."""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.kernel.features import probe_features
from tests.support.namespaces import needs_root
from tests.support.spraylab_command import COMMAND, Lab, own_lab
from tests.support.sudo_user import SUDO, USER, let_in, meanwhile_as_user, plant_links, swap_folder, users_folder

pytestmark = [pytest.mark.root, needs_root]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of two leaves and two spines in two planes."""
    with own_lab(tmp_path_factory.mktemp("runs")) as lab:
        before = os.umask(0)
        try:
            lab("up", "--planes", "2", "--leaves", "2", "--spines", "2")
        finally:
            os.umask(before)
        yield lab


def test_modes_of_a_labs_files_are_ours_and_not_the_umasks(lab: Lab) -> None:
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in (lab.labdir.path, *lab.labdir.path.rglob("*"))}
    for path, mode in found.items():
        private = path.is_socket() or path == lab.labdir.lock
        assert mode == (0o600 if private else 0o755 if path.is_dir() else 0o644), path
    assert sum(path.is_socket() for path in found) >= 2


def test_inspect_tells_what_is_up(lab: Lab) -> None:
    told = lab.json("inspect")
    assert (told["planes"], told["leaves"], told["spines"], told["hosts_per_leaf"]) == (2, 2, 2, 1)
    assert [child["state"] for child in told["children"]] == ["running"] * len(told["children"])
    assert "spraycheck" in lab("inspect").stdout


def test_detect_without_runs_says_nothing(lab: Lab) -> None:  # before any test that runs
    assert lab("detect").stdout == ""


SPINE = ("exec", "p0-spine1", "--")


def test_check_tells_what_somebody_changed_by_hand_and_not_what_the_lab_did(lab: Lab) -> None:
    assert lab("check").stdout == "all 10 nodes are as planned\n"
    for words in (("p0:leaf0>spine1", "--drop", "1%"), ("p1:leaf0-spine1", "--down"), ("h1:plane0", "--rate", "1Gbit")):
        lab("fault", "set", *words)
    lab("check")
    lab("exec", "p1-leaf0", "--", "ip", "link", "set", "spine1", "up")
    (found,) = lab.json("check", code=1)["differences"]
    assert (found["what"], found["words"]) == (
        "fault",
        "was set to down for p1:leaf0>spine1, and the kernel holds nothing",
    )
    lab("fault", "clear", "--all")
    lab("check")
    (route,) = json.loads(
        lab(*SPINE, "ip", "-j", "-6", "route", "show", "table", "local", "dev", "leaf1", "proto", "static").stdout
    )
    steps = [
        (("ip", "link", "set", "leaf0", "mtu", "1500"), "has MTU 1500, planned 9000"),
        (
            ("tc", "qdisc", "add", "dev", "leaf0", "root", "tbf", "rate", "1mbit", "burst", "10k", "limit", "10k"),
            "has queue tbf",
        ),
        (("ip", "-6", "route", "del", route["dst"], "table", "local"), f"lacks its route to {route['dst']}"),
        (("ip", "link", "set", "leaf0", "down"), "is down, planned up"),
        (("ip", "link", "set", "leaf0", "up"), "as if it had been taken down and up"),
    ]
    for words, told in steps:
        lab(*SPINE, *words)
        found = lab.json("check", code=1)["differences"]
        assert any(told in each["words"] and each["node"] == "p0-spine1" for each in found), found
        assert {link for each in found for link in each["links"]} <= {
            f"p0:{way}" for way in ("leaf0>spine1", "spine1>leaf0", "spine1>leaf1")
        }
    for words in (("ip", "link", "set", "leaf0", "mtu", "9000"), ("tc", "qdisc", "del", "dev", "leaf0", "root")):
        lab(*SPINE, *words)
    assert "2 things differ from the plan, and spraylab did not do it" in lab("check", code=1).stderr
    planned = ("via", route["gateway"], "dev", "leaf1", "proto", "static", "table", "local")
    lab(*SPINE, "ip", "-6", "route", "add", route["dst"], *planned)
    lab("fault", "set", "p0:spine1>leaf0", "--down")
    lab("fault", "clear", "--all")  # opening the port puts back what the plan gives it
    lab("check")


CHANGED = """
version: 1
name: changed
topology: {planes: 2, leaves: 2, spines: 2}
transport: {pmtu: 4096, ack_timeout_ms: 50}
workloads:
  - {type: write, strides: [1], packets: 512}
expect: {detection: recorded}
"""


def test_a_run_tells_what_somebody_changed_and_does_not_call_it_this_machine(lab: Lab, tmp_path: Path) -> None:
    scenario = tmp_path / "changed.yaml"
    scenario.write_text(CHANGED)
    lab(*SPINE, "tc", "qdisc", "add", "dev", "leaf0", "root", "tbf", "rate", "10mbit", "burst", "10k", "limit", "20k")
    try:
        summary = lab.json("run", "--attach", str(scenario), code=1)
    finally:
        lab(*SPINE, "tc", "qdisc", "del", "dev", "leaf0", "root")
    (changed,) = summary["changed"]
    assert (changed["words"], changed["when"]) == ("has queue tbf, planned none", "both")
    assert changed["links"] == ["p0:spine1>leaf0"]
    assert summary["totals"]["retransmissions"] > 3
    assert not any("resent" in reason or "not explained" in reason for reason in summary["load"]["reasons"])
    assert [check["name"] for check in summary["checks"] if not check["ok"]] == ["the lab is as planned"]
    assert "Changed   p0-spine1 port leaf0 has queue tbf" in (Path(summary["folder"]) / "summary.txt").read_text()


def test_inspect_of_a_host_needs_queue_pairs_and_a_host(lab: Lab) -> None:
    assert lab.json("inspect", "h1", "--evs") == lab.json("inspect", "h1", "--qps") == []
    assert lab("inspect", "h1", "--evs").stdout == "h1 has no queue pairs\n"
    assert "p0-leaf0 is a switch" in lab("inspect", "p0-leaf0", "--qps", code=2).stderr
    assert "did you mean" in lab("inspect", "h7", "--qps", code=2).stderr


def test_a_second_up_is_4(lab: Lab) -> None:
    assert "already up" in lab("up", code=4).stderr


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exec_returns_the_commands_code(lab: Lab, code: int) -> None:
    lab("exec", "p0-leaf1", "--", "sh", "-c", f"exit {code}", code=code)


def test_exec_is_inside_the_node(lab: Lab) -> None:
    links = json.loads(lab("exec", "p0-leaf1", "--", "ip", "-j", "link").stdout)
    assert {link["ifname"] for link in links} == {"lo", "spine0", "spine1", "h1"}


def test_exec_passes_signals_and_the_commands_own_options(lab: Lab) -> None:
    assert lab("exec", "h0", "--", "echo", "--json", "-q").stdout == "--json -q\n"


def test_exec_of_a_wrong_node_or_command(lab: Lab) -> None:
    assert "did you mean" in lab("exec", "p0-leaf7", "--", "true", code=2).stderr
    assert "command not found" in lab("exec", "h0", "--", "no-such-command", code=127).stderr


def test_a_fault_is_read_back_and_taken_away(lab: Lab) -> None:
    (fault,) = lab.json("fault", "set", "p0:leaf0>spine1", "--drop", "0.003%")
    assert (fault["link"], fault["requested"]) == ("p0:leaf0>spine1", 0.00003)
    assert fault["in_force"] == pytest.approx(0.00003, rel=1e-4)
    assert fault["in_force_text"] == "0.003%"
    assert fault["mechanism"] in ("ebpf", "netem")
    assert "p0:leaf0>spine1" in lab("fault", "show").stdout
    (removed,) = lab.json("fault", "set", "p0:leaf0>spine1", "--drop", "0%")
    assert (removed["in_force"], removed["in_force_text"], removed["dropped"]) == (None, "removed", 0)
    assert lab.json("fault", "show") == []


def test_a_wildcard_selects_many_and_clear_takes_all(lab: Lab) -> None:
    assert len(lab.json("fault", "set", "p*:leaf0>spine*", "--drop", "50bp")) == 4
    assert len(lab.json("fault", "set", "p0:leaf1-spine0", "--drop", "1%")) == 2
    assert len(lab.json("fault", "clear", "p1:leaf0>spine*")) == 2
    assert len(lab.json("fault", "clear", "--all")) == 4


def test_a_link_that_does_not_exist_is_2_with_near_names(lab: Lab) -> None:
    told = lab("fault", "set", "p0:leaf3>spine5", "--drop", "1%", code=2)
    assert "no such link" in told.stderr
    assert "did you mean p0:leaf" in told.stderr
    assert "no such link" in lab("capture", "start", "p0:leaf3-spine5", code=2).stderr
    assert lab.json("fault", "show") == []


def test_captures_belong_to_the_invoking_user(lab: Lab) -> None:
    let_in(lab.runs)
    lab("capture", "start", "p0:leaf0-spine1", "p1:h0-leaf0", env=SUDO)
    assert len(lab.json("inspect")["captures"]) == 4
    stopped = lab.json("capture", "stop")
    assert sorted(Path(each["file"]).name for each in stopped) == [
        "p0_leaf0-spine1.leaf0-spine1.pcap",
        "p0_leaf0-spine1.spine1-leaf0.pcap",
        "p1_h0-leaf0.h0-plane1.pcap",
        "p1_h0-leaf0.leaf0-h0.pcap",
    ]
    for each in stopped:
        assert os.stat(each["file"]).st_uid == USER.uid
        assert os.stat(Path(each["file"]).parent).st_uid == USER.uid
    assert not list(lab.labdir.path.glob("tcpdump*.log"))


def test_a_scenario_is_moved_to_the_lab_or_refused(lab: Lab) -> None:
    assert "no such link" in lab("run", "--attach", "gray-link", code=2).stderr


def test_colour_is_for_terminals(lab: Lab) -> None:
    assert "\x1b" not in lab("inspect").stdout


def test_another_lab_is_named_when_the_default_is_not_up(lab: Lab) -> None:
    done = subprocess.run((*COMMAND, "inspect", "--lab", "nosuchlab"), capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert lab.name in done.stderr


def test_a_run_whose_faults_cannot_be_made_builds_nothing(tmp_path: Path) -> None:
    if any(feature.name == "netem" and feature.present for feature in probe_features()):
        pytest.skip("this kernel has netem")
    file = tmp_path / "slow.yaml"
    file.write_text(
        "version: 1\nname: slow\nworkloads: [{type: write, strides: [1], packets: 64}]\n"
        "faults: [{link: 'p0:leaf3>spine5', delay: 10ms}]\n"
    )
    with own_lab(tmp_path) as lab:
        refused = lab("run", str(file), "-v", code=3)
        assert "fault mechanism netem: netem is missing; this kernel needs" in refused.stderr
        assert "fabric" not in refused.stderr
        assert lab.left() == []


def test_clearing_twice_is_harmless_and_zero_leaves_nothing(lab: Lab) -> None:
    for words in (("--drop", "1%"), ("--one-in", "9"), ("--corrupt", "1%"), ("--duplicate", "1%"), ("--rate", "1Gbit")):
        lab("fault", "set", "p0:leaf0>spine1", *words)
        (removed,) = lab.json("fault", "set", "p0:leaf0>spine1", words[0], "0" if "-in" in words[0] else "0%"
                              if words[1].endswith("%") else "0")  # fmt: skip
        assert (removed["state"], removed["next"]) == ("removed", None)
        assert lab.json("fault", "show") == []
    lab("fault", "set", "p0:leaf0-spine1", "--drop", "1%")
    assert len(lab.json("fault", "clear", "--all")) == 2
    assert lab.json("fault", "clear", "--all") == []
    assert lab.json("fault", "clear", "p0:leaf0-spine1") == []


def test_a_timeline_is_told_before_it_begins_while_it_lasts_and_until_what_event(lab: Lab) -> None:
    (waits,) = lab.json("fault", "set", "p0:leaf0>spine0", "--drop", "1%", "--at", "1min", "--for", "2min")
    assert (waits["state"], waits["next"]["act"], waits["next"]["event"]) == ("waiting", "set", None)
    assert 50 < waits["next"]["in_s"] <= 60
    lab("fault", "set", "p0:leaf0>spine1", "--drop", "2%", "--for", "2min", "--until", "detected")
    lab("fault", "set", "p1:leaf0>spine0", "--one-in", "5", "--on", "traffic")
    told = {each["link"]: each for each in lab.json("fault", "show")}
    assert {link: (each["state"], each["next"]["act"], each["next"]["event"]) for link, each in told.items()} == {
        "p0:leaf0>spine0": ("waiting", "set", None),
        "p0:leaf0>spine1": ("in-force", "clear", "detected"),
        "p1:leaf0>spine0": ("waiting", "set", "traffic"),
    }
    assert "or on detected" in lab("fault", "show").stdout
    lab("fault", "clear", "--all")
    assert lab.json("fault", "show") == []


def test_netem_where_there_is_none_is_3_and_changes_nothing(lab: Lab) -> None:
    if next(feature.present for feature in probe_features() if feature.name == "netem"):
        pytest.skip("this kernel has netem")
    lab("fault", "set", "p0:leaf0>spine1", "--drop", "5%")
    before = lab.json("fault", "show")
    told = lab("fault", "set", "p0:leaf0-spine1", "--drop", "1%", "--mechanism", "netem", code=3)
    assert "CONFIG_NET_SCH_NETEM" in told.stderr
    assert "CONFIG_NET_SCH_NETEM" in lab("fault", "set", "p0:leaf0-spine1", "--delay", "1ms", code=3).stderr
    assert lab.json("fault", "show") == before
    assert "ebpf" in lab("fault", "show").stdout, "the automatic choice says what it took"
    refused = lab("run", "--attach", "gray-link-small", "--mechanism", "netem", code=2)
    assert "no such" in refused.stderr
    lab("fault", "clear", "--all")


SMALL_RUN = """
version: 1
name: small
topology: {planes: 2, leaves: 2, spines: 2}
workloads: [{strides: [1], packets: 2048}]
capture: ["p0:leaf0-spine1"]
"""


@pytest.mark.parametrize("trick", [plant_links, swap_folder])
def test_a_user_who_plants_links_while_root_writes_gains_nothing(lab: Lab, trick: Callable[[Path, Path], bool]) -> None:
    with users_folder() as home:
        roots = home.parent / "root"
        roots.mkdir(mode=0o755)
        (roots / "file").write_text("root's")
        (home / "small.yaml").write_text(SMALL_RUN)
        with meanwhile_as_user(trick, home / "runs", roots / "file") as succeeded:
            done = subprocess.run(
                (*COMMAND, "run", "--lab", lab.name, "--attach", "--runs", home / "runs", home / "small.yaml"),
                capture_output=True, text=True, env=os.environ | SUDO, timeout=120, check=False,
            )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert [path.name for path in roots.iterdir()] == ["file"]
        assert (roots / "file").read_text() == "root's"
        assert (roots / "file").stat().st_uid == roots.stat().st_uid == 0
        mine = [path for path in home.rglob("*") if path != home / "small.yaml"]
        assert succeeded(), "no try was made"
        assert {path.lstat().st_uid for path in mine} == {USER.uid}
    assert lab.json("fault", "show") == []
    assert lab.json("inspect")["captures"] == []
