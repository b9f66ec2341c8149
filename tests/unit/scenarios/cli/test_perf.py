"""What `spraylab perf` refuses before it starts, and what it says of a long test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.host.control import requests as ask
from results.records.perf_rows import Cost, LatencyRow
from scenarios.cli.main import main
from scenarios.cli.output import Output
from scenarios.cli.perf import collectives as perf_collectives
from scenarios.cli.perf import writes
from scenarios.cli.perf import writes as perf
from scenarios.lab.protocol import Denials, DenialState, DenyShow, FaultPlanned, Faults, FaultShow, FaultState
from scenarios.lab.start import capacity
from scenarios.run.request import LabInUse
from scenarios.workload.perf_writes import WriteTest
from testbed.model.fabric import Fabric, FabricSpec
from tests.support.queue_pairs import qp_settings


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab of four hosts on a machine with 8 GiB free; whatever is asked of its workers fails the test."""

    @contextmanager
    def under_test(_labdir: Path) -> Iterator[tuple[LabInUse, ExitStack]]:
        with ExitStack() as undo:
            yield LabInUse(Fabric.of(FabricSpec(2, 4, 2, 1)), None, ()), undo

    for module in (perf, perf_collectives):
        monkeypatch.setattr(module, "require_root", lambda: None)
        monkeypatch.setattr(module, "under_test", under_test)
    monkeypatch.setattr(capacity, "free_bytes", lambda: 8 << 30)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["perf", *words])


@pytest.mark.parametrize("test", ["write-bw", "write-lat"])
@pytest.mark.parametrize("size", ["4GiB", "4294967296", "1000000GiB"])
def test_a_size_that_cannot_be_is_2(test: str, size: str) -> None:
    done = run(test, "h0", "h1", "-s", size)
    assert done.exit_code == 2
    assert "a message is at most 4294967295 bytes" in done.stderr


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("write-bw", "h0", "h1", "-s", "3GiB"), "the memory of 1 queue pair at both hosts takes 12,288 MiB"),
        (("write-lat", "h0", "h1", "-s", "2GiB"), "the memory of 1 queue pair at both hosts takes 8,192 MiB"),
        (
            ("write-bw", "h0", "h1", "-a", "-q", "1024"),
            "1,024 queue pairs at both hosts takes 32,768 MiB",
        ),
        (("all-reduce", "-e", "1GiB"), "the memory of 4 ranks takes "),
    ],
)
def test_memory_that_is_not_there_is_3_before_anything_is_asked_of_the_lab(words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert done.exit_code == 3
    assert told in done.stderr
    assert "more than half of the free memory (4,096 MiB)" in done.stderr


@pytest.mark.parametrize("words", [("write-bw", "h0", "h1"), ("all-reduce",)])
def test_a_number_that_nobody_waits_for_is_2(words: tuple[str, ...]) -> None:
    done = run(*words, "-n", "99999999999999999999")
    assert done.exit_code == 2
    assert "is not in the range 1<=x<=1000000000" in done.stderr


@pytest.mark.parametrize(("seconds", "told"), [("nan", "'nan' is not a number from 0.01 to 3600"), ("inf", "range")])
def test_a_duration_that_is_no_time_is_2(seconds: str, told: str) -> None:
    done = run("write-lat", "h0", "h1", "-D", seconds)
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_long_test_says_how_far_it_is_and_a_short_one_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(writes.time, "monotonic", lambda: now[-1])
    long = WriteTest("write-bw", (0, 1), (3 << 30,), None, None, 1, qp_settings(pmtu=4096, window_pkts=256))
    progress = writes.Progress(Output(), long)
    for second in range(6):
        now.append(100.0 + second)
        progress.moved_to(3 << 30, second * (100 << 20))
    assert capsys.readouterr().err.splitlines() == [
        "write-bw of 3 GiB: 0% of 15,000 GiB, about 43 h left",
        "write-bw of 3 GiB: 0% of 15,000 GiB, about 43 h left",
    ]


class Engine:
    """A worker whose engine ran and waited so long whenever it was asked."""

    def __init__(self, ran_ns: int, waited_ns: int, lost: int = 0) -> None:
        self._step = (ran_ns, waited_ns, lost)
        self._asked = 0

    def ask(self, request: object) -> dict[str, object]:
        if isinstance(request, ask.Progress):
            return {"qps": [{"packets_tx": 1000 * self._asked, "packets_rtx": 0, "timeouts": 0}]}
        self._asked += 1
        ran_ns, waited_ns, lost = (each * self._asked for each in self._step)
        port = {"rx_drops": lost, "tx_errors": 0}
        return {"ports": [port], "rejected": [], "cpu_ns": ran_ns, "sched_wait_ns": waited_ns}


class Broken:
    """An owner of a lab with these faults and one denied link."""

    def __init__(self, *later: FaultState) -> None:
        self._later = later
        self._faults: tuple[FaultState, ...] = (FAULT,)

    def ask(self, request: object, _reply: object) -> Faults | Denials:
        if isinstance(request, DenyShow):
            return Denials((DenialState("p0:leaf1>spine0", "hand", "t"),))
        assert isinstance(request, FaultShow)
        told, self._faults = self._faults, self._faults + self._later
        return Faults(told, (PLANNED,))


FAULT = FaultState(
    "p0:leaf0>spine1", "random-drop", 0.01, 0.01, "ebpf", "hand", "t", 9, 1, 1, requested_text="1%", in_force_text="1%"
)
CHANGED = FaultState(
    "p1:leaf0>spine1", "delay", None, None, "netem", "hand", "t", 0, 0, 0, requested_text="1ms", in_force_text="2ms"
)
PLANNED = FaultPlanned("p1-spine0", "hang", "hang", "", "clear", 1.5, "t", None, "hand")
ROW = LatencyRow(("h0", "h1"), 2, 1000, "answer", 1.0, 9.0, 2.0, 2.0, 0.5, 3.0, 4.0, Cost(2000, 0, 0))


def measured(monkeypatch: pytest.MonkeyPatch, engine: Engine, owner: Broken, *words: str) -> Result:
    @contextmanager
    def under_test(_labdir: Path) -> Iterator[tuple[LabInUse, ExitStack]]:
        with ExitStack() as undo:
            yield LabInUse(Fabric.of(FabricSpec(2, 4, 2, 1)), owner, (engine,)), undo

    monkeypatch.setattr(perf, "require_root", lambda: None)
    monkeypatch.setattr(perf, "under_test", under_test)
    monkeypatch.setattr("scenarios.workload.perf_writes.write_rows", lambda *_, **__: iter([ROW]))
    return run("write-lat", "h0", "h1", *words)


HINDRANCES = (
    "fault in force: p0:leaf0>spine1 drop 1%, set by hand",
    "fault to come: a timeline will clear hang on p1-spine0, set by hand (`spraylab fault show` says when)",
    "denied to all queue pairs: p0:leaf1>spine0 (`spraylab deny show`)",
)


def test_faults_and_denials_stand_above_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measured(monkeypatch, Engine(100, 10), Broken())
    assert [line[2:] for line in done.stdout.splitlines() if line.startswith("# ")][3:6] == list(HINDRANCES)
    assert (done.exit_code, done.stderr) == (0, "")


def test_with_json_they_go_to_stderr_and_so_do_those_that_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measured(monkeypatch, Engine(100, 10), Broken(CHANGED), "--json")
    assert len(done.stdout.splitlines()) == 1
    told = done.stderr.splitlines()
    assert told[:3] == [f"spraylab: {line}" for line in HINDRANCES]
    assert told[3] == "spraylab: faults or denials changed during the test, now:"
    assert "fault in force: p1:leaf0>spine1 delay 1ms (the kernel holds: delay 2ms), set by hand" in done.stderr


@pytest.mark.parametrize("words", [(), ("--json", "--quiet")])
def test_a_busy_machine_is_5(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    done = measured(monkeypatch, Engine(100, 150), Broken(), *words)
    told = "spraylab: OVERLOADED: engines waited 60% of their time for a core: the times are unreliable"
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (5, told)


def test_a_machine_that_loses_packets_is_5(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measured(monkeypatch, Engine(100, 10, lost=1), Broken())
    assert done.exit_code == 5
    assert "OVERLOADED: this machine itself lost 1 of 1,000 packets" in done.stderr


@pytest.mark.parametrize(("words", "told"), [((), "half the round trip"), (("--completion",), "sender's own")])
def test_the_table_says_what_a_time_is(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str) -> None:
    done = measured(monkeypatch, Engine(100, 10), Broken(), *words)
    assert f"# a time is {'from posting' if words else told}" in done.stdout
    assert told in done.stdout
