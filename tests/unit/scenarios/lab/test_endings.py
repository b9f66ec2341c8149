"""What is said of processes that end before anybody could use them."""

import socket
import subprocess
from pathlib import Path

import pytest

from results.captures.tcpdump import ends_of
from scenarios.errors import OwnerFailedError
from scenarios.lab.lifecycle import Launched
from scenarios.lab.owner import captures
from scenarios.lab.processes import last_words
from testbed.model.node_names import LinkId


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "lab 'x' was taken down while it was built, by `down` or a signal to its owner"),
        ("kill $$", "lab 'x' was taken down while it was built, by `down` or a signal to its owner"),
        ("kill -9 $$", "the owner of lab 'x' ended while the lab was built: killed by SIGKILL"),
        ("exit 1", "the owner of lab 'x' ended while the lab was built: exited 1"),
    ],
)
def test_an_owner_that_hangs_up_is_told_with_what_became_of_it(script: str, said: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sh", "-c", script]) as process:
        assert str(Launched(process, ours).hung_up("x")) == said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        (
            "echo 'tcpdump: eth0: No such device exists'; exit 1",
            "exited 1; its last output: tcpdump: eth0: No such dev",
        ),
    ],
)
def test_a_tcpdump_that_ends_at_its_start_is_told_with_its_end(tmp_path: Path, script: str, said: str) -> None:
    link = LinkId.named("p0:leaf0-spine1")
    assert link is not None
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(["sh", "-c", script], stdout=log) as process:
        capture = captures._Running(ends_of(link)[0], tmp_path / "x.pcap", tmp_path / "log", "", None, process, 256, 1)
        with pytest.raises(OwnerFailedError, match=f"ended before it recorded: {said}"):
            captures._wait_listening(capture)


def test_last_words_of_a_long_log_are_found_and_of_none_there_are_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == ""
    log.write_text("x\n" * 100_000 + "the end\n\n")
    assert last_words(log) == "the end"
