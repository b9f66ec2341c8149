"""Full disks, small ones that are a test's own: what is lost is counted or named, and the rest goes on."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from agent.host.records.event_log import EventLog
from results.files.user_files import write_file
from results.summary import Summary
from scenarios.errors import EnvironmentLackingError, OwnerFailedError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.captures import CapturePlace, Captures
from scenarios.lab.processes import ProcessId
from scenarios.lab.protocol import ChildStatus, LabStatus
from scenarios.lab.start import capacity
from scenarios.lab.start.capacity import KEPT_BYTES
from scenarios.lab.start.children import Children
from scenarios.lab.start.requirements import lacks_of_folder
from scenarios.run import stages
from scenarios.run.disk_errors import TRUTH_BYTES, FolderIncompleteError, KeptRoom, Unwritten
from scenarios.run.progress import Samples
from testbed.kernel.bpf import programs as bpf
from tests.support.namespaces import needs_root
from tests.support.own_mounts import in_own_mounts, mount_tmpfs
from tests.support.run_folder import write_run
from tests.support.spraylab_command import COMMAND

pytestmark = [pytest.mark.root, needs_root]


def fill(folder: Path) -> None:
    """To the last byte."""
    with (folder / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def disk(size: str) -> Path:
    """A file system of that size."""
    place = Path("/run/disk")
    place.mkdir()
    mount_tmpfs(place, size)
    return place


def test_no_lab_is_begun_where_its_files_have_no_room() -> None:
    in_own_mounts(_no_lab)


def _no_lab() -> None:
    mount_tmpfs(Path("/run"), "1m")
    for words in (("up", "--planes", "2"), ("run", "gray-link-small", "--runs", "/tmp")):
        done = subprocess.run((*COMMAND, *words), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("spraylab: /run: No space left on device: ")
        assert len(done.stderr.splitlines()) == 1
    assert not Path("/run/spraylab").exists()


def test_agents_go_on_and_count_what_a_full_disk_takes_from_their_log() -> None:
    in_own_mounts(_agents)


def _agents() -> None:
    place = disk("64k")
    with EventLog(place / "worker0.jsonl") as log:
        for at in range(1000):
            log._write(0, 1, at, "X", {"text": "x" * 100})
            log.flush(at)
        lost = log.cut
        assert 0 < lost < 1000
        log._write(0, 1, 1001, "X", {})
    lines = (place / "worker0.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["mono_ns"] for line in lines][: 1000 - lost] == list(range(1000 - lost))


def test_every_error_of_a_full_disk_names_the_file() -> None:
    in_own_mounts(_named)


def _named() -> None:
    place = disk("1m")
    labdir = LabDir("red", place)
    labdir.bpf.mkdir(parents=True)
    fill(place)
    children = Children(labdir)
    for file, act in (
        (labdir.settings("worker0"), lambda: children.start("worker0", "nothing", ProcessId(1, 2))),
        (labdir.bpf / "a.bpf.o", lambda: bpf.build(_source(), {}, labdir.bpf)),
        (labdir.bpf / "a.h", lambda: bpf.build(_source(), {"a.h": "#define A 1"}, labdir.bpf)),
        (place / "x", lambda: write_file(place / "x", b"x")),
    ):
        with pytest.raises(OSError, match="No space left") as raised:
            act()
        assert raised.value.filename == str(file)
    assert not (place / "x").exists()
    with pytest.raises(EnvironmentLackingError, match="0 B free in /run/disk/red, where tcpdump"):
        Captures(labdir).start((), CapturePlace(place))
    assert capacity.no_room_for_lab(place / "a/b") is not None
    mount_tmpfs(Path("/run"), "64k")
    dead = (ChildStatus("spraycheck", ProcessId(1, 2), "exited 3"),)
    status = LabStatus("red", ProcessId(1, 2), "", 1, 2, 1, 1, False, 4096, 1, (), 0, dead, (), ())
    LabDir("red").path.mkdir(parents=True)
    fill(Path("/run"))
    with pytest.raises(OwnerFailedError, match="went on; No space left on device: 0 B free in /run"):
        stages._require_running(status)


def _source() -> Path:
    source = Path("/run/a.bpf.c")
    source.write_text("int x[1000] = {1};")
    return source


def _summary() -> Summary:
    folder = write_run(Path("/run/a-run"))
    return msgspec.json.decode(folder.summary.read_bytes(), type=Summary)


def test_truth_and_summary_have_room_that_captures_cannot_take() -> None:
    in_own_mounts(_room)


def _room() -> None:
    place = disk("6m")
    assert list(filter(None, lacks_of_folder(place / "runs"))) == []
    room = KeptRoom(place)
    room.keep()
    (lack,) = filter(None, lacks_of_folder(place / "runs"))
    assert "and a run keeps 4 MiB for its results" in lack
    assert os.stat(place / ".room").st_blocks * 512 >= KEPT_BYTES
    fill(place)
    samples, unwritten = Samples(place / "counters.jsonl", "run", 1), Unwritten()
    samples._append("LOAD", {})
    assert list(samples.unwritten.texts) == ["/run/disk/counters.jsonl: No space left on device"]
    room.give(KEPT_BYTES - TRUTH_BYTES)
    with unwritten.noting():
        write_file(place / "truth.jsonl", bytes(TRUTH_BYTES // 2))
    fill(place)
    room.give()
    with unwritten.noting():
        write_file(place / "summary.json", bytes(KEPT_BYTES // 2))
    assert unwritten == Unwritten()
    assert not (place / ".room").exists()
    fill(place)
    with unwritten.noting():
        write_file(place / "report.html", b"x")
    summary = _summary()
    with pytest.raises(FolderIncompleteError, match="the result is whole") as raised:
        unwritten.require_none(summary)
    assert raised.value.summary is summary
    assert "report.html: No space left on device" in str(raised.value)
