"""The command line without a lab: what is refused, with which words and which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from results.files.user_files import invoker
from scenarios import doctor
from scenarios.cli.exit_codes import ExitCode, exit_code_of
from scenarios.cli.main import main
from scenarios.cli.options import require_root
from scenarios.errors import LabStateError, RunStalledError, UsageError
from testbed.errors import MissingFeatureError, UnknownNameError

ROOT = Path(__file__).parents[4]
BROKEN = ROOT / "tests/golden/scenarios/ten-mistakes.yaml"
NO_LAB = ("--lab", "unittest0")


def spraylab(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="spraylab")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


NEED_ROOT = [
    ("up",),
    ("run", "gray-link"),
    ("run", "--attach", "gray-link"),
    ("inspect",),
    ("check",),
    ("exec", "h0", "--", "true"),
    ("fault", "set", "p0:leaf3>spine5", "--drop", "1%"),
    ("fault", "show"),
    ("fault", "clear", "--all"),
    ("capture", "start", "p0:leaf3-spine5"),
    ("capture", "stop"),
    ("deny", "set", "p0:leaf3>spine5"),
    ("deny", "show"),
    ("deny", "clear", "--all"),
    ("detect", "--follow"),
    ("watch",),
    ("watch", "--once"),
    ("perf", "write-bw", "h0", "h1"),
    ("perf", "write-lat", "h0", "h1"),
    ("perf", "all-reduce"),
    ("perf", "tp"),
    ("down",),
]


NEED_LAB = ("inspect", "check", "exec", "fault", "deny", "detect", "watch", "perf")


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("words", NEED_ROOT, ids=" ".join)
def test_without_root_one_line_and_3(words: tuple[str, ...]) -> None:
    result = spraylab(*words)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr == "spraylab: root is needed for network namespaces: run this with sudo\n"


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("words", [words for words in NEED_ROOT if words[0] in NEED_LAB], ids=" ".join)
def test_without_a_lab_4(words: tuple[str, ...]) -> None:
    cut = words.index("--") if "--" in words else len(words)
    place = 1 if words[0] == "exec" else cut
    result = spraylab(*words[:place], *NO_LAB, *words[place:])
    assert (result.exit_code, result.stdout) == (4, ""), result.stderr
    assert "lab 'unittest0' is not up" in result.stderr


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("named", [("--lab", "unittest0"), ("--lab=unittest0",)])
def test_exec_takes_the_lab_behind_the_node_as_well_and_the_command_keeps_its_own(named: tuple[str, ...]) -> None:
    for words in (("exec", "h0", *named, "--", "ls", "--lab", "other"), ("exec", *named, "h0", "--", "ls")):
        assert "lab 'unittest0' is not up" in spraylab(*words).stderr


def test_ten_mistakes_are_ten_lines_and_2() -> None:
    for words in (("validate", str(BROKEN)), ("run", str(BROKEN)), ("up", str(BROKEN))):
        result = spraylab(*words)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 10
        assert result.stdout == ""


def test_problems_as_json_are_for_programs() -> None:
    result = spraylab("validate", str(BROKEN), "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert not told["ok"]
    assert len(told["problems"]) == 10
    assert set(told["problems"][0]) == {"where", "path", "wrong", "right"}


def test_validate_shows_the_plan() -> None:
    result = spraylab("validate", "gray-link")
    assert result.exit_code == 0
    assert "16 flows, 256 MiB, PMTU 256" in result.stdout
    assert "  fault     p0:leaf3>spine5 drop 1%\n" in result.stdout
    assert "  expected  p0:leaf3>spine5\n" in result.stdout
    told = json.loads(spraylab("validate", "gray-link", "--json").stdout)
    assert told["plan"]["faults"] == [{"link": "p0:leaf3>spine5", "fault": "drop 1%"}]


def scenario_file(folder: Path, work: str) -> str:
    file = folder / "own.yaml"
    file.write_text(f"{{version: 1, name: own, workloads: [{work}]}}")
    return str(file)


def test_validate_of_a_scenario_that_must_fail_says_so_in_its_first_line_and_with_1(tmp_path: Path) -> None:
    short = scenario_file(tmp_path, "{strides: [1], packets: 2048}")
    result = spraylab("validate", short)
    assert result.exit_code == 1
    first, *others = result.stdout.splitlines()
    assert first == "own: valid, but a run of it fails"
    assert any(line.startswith("  fails     p0:leaf0>spine0 and") for line in others)
    as_json = spraylab("validate", short, "--json")
    told = json.loads(as_json.stdout)
    assert (as_json.exit_code, told["ok"], len(told["fails"])) == (1, False, 1)


def test_validate_counts_what_collectives_send_and_does_not_warn_of_barriers(tmp_path: Path) -> None:
    result = spraylab("validate", scenario_file(tmp_path, "{type: all-reduce, bytes: 64MiB, iterations: 2}"))
    assert result.exit_code == 0, "a warning alone changes no code"
    assert "  traffic   8 queue pairs of collectives, 2.6 GiB, PMTU 256\n" in result.stdout
    assert "not announced" not in result.stdout


@pytest.mark.parametrize(
    ("name", "faults", "too_few"),
    [
        ("nic-port-flap", ["p*:leaf1>h1 rate 20Mbit queue 125000 B (4 directions)", "p1:h0>leaf0 flap ",
                           "p2:h1>leaf1 down "], ""),
        ("dead-plane-at-start", ["p3 drop 100% (24 directions)"], ": a drop of 1% would not be shown"),
        ("hung-spine", ["p1-spine2 hang at 1s on traffic (4 directions)"], ": a drop of 1% would not be shown"),
    ],
)  # fmt: skip
def test_validate_says_that_detection_decides_nothing(name: str, faults: list[str], too_few: str) -> None:
    lines = spraylab("validate", name).stdout.splitlines()
    shown = [line.removeprefix("  fault     ") for line in lines if line.startswith("  fault")]
    assert len(shown) == len(faults)
    assert all(line.startswith(start) for line, start in zip(shown, faults, strict=True))
    assert "  expected  no link from SprayCheck: detection is recorded and decides nothing" in lines
    detector = next(line for line in lines if line.startswith("  detector"))
    assert detector.endswith(too_few)
    assert ("would not be shown" in detector) == bool(too_few)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "grey-link"), "did you mean gray-link"),
        (("fault", "set", "p0:leaf3>spine5", "--drop", "0.01"), "has no unit; write 0.01% or 1%"),
        (("fault", "set", "p0:leaf3>spine5"), "no kind of fault is given"),
        (("fault", "set", "p0:leaf3>spine5", "--drop", "1%", "--drop", "2%"), "given 2 times: 1%, 2%; which one"),
        (("fault", "clear"), "name a link, port or node to repair"),
        (("fault", "clear", "p0:leaf3>spine5", "--all"), "name a link, port or node to repair"),
        (("up", "--planes", "17"), "17 is not in 1..16"),
        (("up", "--workers", "0"), "neither a number of at least 1 nor per-host"),
        (("up", "--lab", "Nope"), "not a lab name"),
        (("inspect", "--lab", "a/../b"), "not a lab name"),
        (("nonsense",), "No such command"),
        (("dwn",), "did you mean down?"),
        (("exec", "h0", "--"), "name a command to run"),
        (("exec", "h0", "--json", "--", "true"), "where only --lab may"),
        (("exec", "h0", "--lab", "x", "true"), "where only --lab may"),
        (("exec", "h0", "--lab", "Nope", "--", "true"), "not a lab name"),
        (("exec", "h0", "--lab", "x", "--"), "name a command to run"),
        (("up", "--workers", "99999999"), "is too many"),
        (("up", "--workers", "9" * 5000), "is too many"),
        (("fault", "set", "p0:leaf3>spine5", "--drop", "9" * 9000 + "%"), "has 9001 characters"),
        (("validate", str(ROOT)), "is a folder"),
        (("completion", "csh"), "is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_is_2(words: tuple[str, ...], told: str) -> None:
    result = spraylab(*words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = spraylab("completion", shell)
    assert result.exit_code == 0
    assert "_SPRAYLAB_COMPLETE" in result.stdout


def test_destroy_is_down() -> None:
    assert spraylab("destroy", "--help").stdout.split("\n", 1)[1] == spraylab("down", "--help").stdout.split("\n", 1)[1]
    assert "destroy" not in spraylab("--help").stdout


def test_doctor_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_tool", lambda name: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = spraylab("doctor", "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert not told["fit"]
    assert findings["clang"]["advice"] == "install the package clang"
    assert not findings["root"]["present"]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "scenarios.cli", "--version"), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("spraylab, version ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), ExitCode.USAGE),
        (UnknownNameError("link", "x", "no such link"), ExitCode.USAGE),
        (MissingFeatureError("netem", "enable it"), ExitCode.ENVIRONMENT),
        (LabStateError("x"), ExitCode.LAB_STATE),
        (RunStalledError("x"), ExitCode.LAB_STATE),
    ],
)
def test_exit_codes(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize("depth", [80, 5000])
def test_deep_nesting_is_2(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("[" * depth + "]" * depth)
    result = spraylab("validate", str(file))
    assert result.exit_code == 2
    assert "nested too deeply" in result.stderr


def test_a_fifo_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    result = spraylab("validate", str(tmp_path / "fifo.yaml"))
    assert (result.exit_code, result.stderr) == (
        2,
        f"spraylab: {tmp_path}/fifo.yaml is not a regular file, not a scenario file\n",
    )


def _program(words: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m scenarios.cli {words}"
    return subprocess.run(
        ("bash", "-o", "pipefail", "-c", program), capture_output=True, text=True, cwd=ROOT, check=False
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("--help > /dev/full", 3, "spraylab: cannot read or write: No space left on device\n"),
        ("validate gray-link > /dev/full", 3, "spraylab: cannot read or write: No space left on device\n"),
        ("validate gray-link | true", 141, ""),
        ("validate gray-link >&-", 141, ""),
        ("--help >&-", 141, ""),
        ("validate nonesuch >&- 2>&-", 2, ""),
        ("validate nonesuch 2>&-", 2, ""),
        ("validate nonesuch 2>/dev/full", 2, ""),
        ("bogus 2>/dev/full", 2, ""),
        ("show --bogus 2>/dev/full", 2, ""),
        ("2>/dev/full", 2, ""),
        (
            "show $'a\\nb' --runs $'x\\ty'",
            2,
            "spraylab: a\\x0ab is no run folder, nor one in x\\x09y; `ls x\\x09y` shows what there is\n",
        ),
        ("validate $'a\\nb.yaml'", 2, "spraylab: there is no file a\\x0ab.yaml\n"),
    ],
)
def test_no_output_that_fails_is_a_traceback(words: str, code: int, told: str) -> None:
    done = _program(words)
    assert (done.returncode, done.stderr) == (code, told)


@pytest.mark.parametrize("words", ["validate", "run", "study", "show", "detect", "report", "pcap merge"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("circle", "Too many levels of symbolic links"),
        ("file/x.yaml", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_looked_up_is_not_said_to_be_missing(tmp_path: Path, words: str, name: str, why: str) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").touch()
    result = spraylab(*words.split(), str(tmp_path / name))
    assert (result.exit_code, result.stderr) == (3, f"spraylab: {tmp_path / name}: {why}\n")


def test_a_link_to_nothing_is_said_to_be_that(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").symlink_to("gone.yaml")
    result = spraylab("validate", str(tmp_path / "mine.yaml"))
    assert result.stderr == f"spraylab: {tmp_path}/mine.yaml is a link to gone.yaml, which is not there\n"


@pytest.mark.parametrize(
    ("hosts", "told"),
    [(1, "a host alone has nobody to write to"), (2, "with 2 hosts, only 1 is useful"), (4, "1 to 3 are useful")],
)
def test_a_stride_to_oneself_is_told_which_are_not(tmp_path: Path, hosts: int, told: str) -> None:
    file = tmp_path / "own.yaml"
    work = f"[{{strides: [{hosts}], packets: 8}}, {{pairs: [[0, {hosts}]], packets: 8}}]"
    file.write_text(f"{{version: 1, name: own, topology: {{leaves: 1, hosts_per_leaf: {hosts}}}, workloads: {work}}}")
    stderr = spraylab("validate", str(file)).stderr
    assert told in stderr
    assert ("the only host is h0" if hosts == 1 else f"hosts are h0 to h{hosts - 1}") in stderr


@pytest.mark.parametrize("user", ["abc", "-1", "99999999999", "²"])
def test_a_strange_sudo_user_is_left_aside(
    user: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUDO_UID", user)
    monkeypatch.setenv("SUDO_GID", "0")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    require_root()
    assert invoker() is None
    assert "files will belong to root" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("h0",), ("--evs",), ("h0", "--evs", "--qps"), ("h0", "--nodes")], ids=" ".join)
def test_a_host_to_inspect_and_what_of_it_go_together(words: tuple[str, ...]) -> None:
    result = spraylab("inspect", *words)
    assert result.exit_code == 2
    assert "go together" in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-n", "5", "-D", "1"), "-n and -D exclude each other"),
        (("-s", "4 apples"), "'4 apples' is not a size"),
        (("-s", "0"), "'0' is not a size"),
        (("-q", "0"), "0 is not in the range"),
        (("-m", "1500"), "'1500' is not one of"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_test_of_writes_is_2(words: tuple[str, ...], reason: str) -> None:
    result = spraylab("perf", "write-bw", "h0", "h1", *words)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-b", "2MiB", "-e", "1MiB"), "-b 2097152 is larger than -e 1048576"),
        (("-e", "2GiB"), "-e 2147483648 is too large"),
        (("-f", "1"), "1 is not in the range"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_test_of_collectives_is_2(words: tuple[str, ...], reason: str) -> None:
    result = spraylab("perf", "all-reduce", *words)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("group", [(), ("fault",), ("capture",), ("deny",), ("pcap",), ("perf",)], ids=" ".join)
def test_help_cuts_no_sentence(group: tuple[str, ...]) -> None:
    shown = spraylab(*group, "--help").stdout.split("Commands:")[1]
    assert "..." not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(("verb", "one"), [("run", "gray-link"), ("validate", "gray-link"), ("study", "paper-table")])
def test_without_a_name_the_catalog_is_listed(verb: str, one: str) -> None:
    result = spraylab(verb)
    assert result.exit_code == 2
    head, *lines = result.stderr.splitlines()
    assert head.startswith("spraylab: name a s")
    assert one in [line.split()[0] for line in lines]
    assert all(len(line.split()) > 4 for line in lines), "each with its question"


@pytest.mark.parametrize("words", [("run", "gray-link", "--seed", "x"), ("fault", "set", "x", "--seed", "1.5")])
def test_a_number_that_is_none_is_told_as_such(words: tuple[str, ...]) -> None:
    result = spraylab(*words)
    assert result.exit_code == 2
    assert "is not a whole number; 0 " in result.stderr


@pytest.mark.parametrize("number", ["x", "١", "1_0", "1.0", " 1"])
def test_a_whole_number_is_one_of_ascii_digits(number: str) -> None:
    """As in scenarios and their schema."""
    result = spraylab("up", "--planes", number)
    assert result.exit_code == 2
    assert f"{number!r} is not a whole number" in result.stderr


def test_a_capture_too_small_for_a_packet_is_refused() -> None:
    result = spraylab("capture", "start", "p0:leaf0-spine1", "--most", "1")
    assert (result.exit_code, result.stderr) == (
        2,
        "spraylab: --most 1 is too small: at least 65536 bytes, as in scenarios\n",
    )
