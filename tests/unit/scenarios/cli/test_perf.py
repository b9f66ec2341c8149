"""What `spraylab perf` refuses before it starts, and what it says of a long test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.host.requests import QpSettings
from scenarios import memory_room
from scenarios.cli import perf, perf_collectives, perf_progress
from scenarios.cli.main import main
from scenarios.cli.output import Output
from scenarios.run.order import LabInUse
from scenarios.workload.perf_writes import WriteTest
from testbed.model.fabric import Fabric, FabricSpec


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
    monkeypatch.setattr(memory_room, "free_bytes", lambda: 8 << 30)


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
    monkeypatch.setattr(perf_progress.time, "monotonic", lambda: now[-1])
    long = WriteTest("write-bw", (0, 1), (3 << 30,), None, None, 1, QpSettings(pmtu=4096, window_pkts=256))
    progress = perf_progress.Progress(Output(), long)
    for second in range(6):
        now.append(100.0 + second)
        progress.moved_to(3 << 30, second * (100 << 20))
    assert capsys.readouterr().err.splitlines() == [
        "write-bw of 3 GiB: 0% of 15,000 GiB, about 43 h left",
        "write-bw of 3 GiB: 0% of 15,000 GiB, about 43 h left",
    ]
