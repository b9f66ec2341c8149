"""What `spraylab down` asks of the owner before it goes."""

import os
import socket
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from scenarios.cli.lab.lifecycle import end_captures
from scenarios.lab.lab_dir import LabDir, LabState, write_state
from scenarios.lab.processes import ProcessId, identify
from scenarios.lab.protocol import Answer, Captures, CaptureState, CaptureStop, LabStatus, Request, Status

FILE = CaptureState("p0:leaf0-spine0", "p0-leaf0", "spine0", "/x/p0_leaf0-spine0.leaf0-spine0.pcap", "", 12, 0)


@pytest.fixture
def labdir(tmp_path: Path) -> LabDir:
    """A lab whose owner is this very process."""
    found = LabDir("red", tmp_path)
    found.path.mkdir(parents=True)
    write_state(found, LabState("red", me(), "", 1, 2, 1, 1, False, 9000, 1, ()))
    return found


def me() -> ProcessId:
    """Whoever runs the tests."""
    process = identify(os.getpid())
    assert process is not None
    return process


def asked_of_an_owner(labdir: LabDir, running: tuple[CaptureState, ...]) -> tuple[tuple[CaptureState, ...], list[str]]:
    """What `down` gets from an owner that records `running`, and what it has asked for."""
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(labdir.socket))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as link, link.makefile("rb") as lines:
                for line in lines:
                    request = msgspec.json.decode(line, type=Request)
                    heard.append(type(request).__name__)
                    status = LabStatus("red", me(), "", 1, 2, 1, 1, False, 4096, 1, (), 0, (), (), running)
                    told = status if isinstance(request, Status) else Captures((FILE,))
                    link.sendall(msgspec.json.encode(Answer(msgspec.Raw(msgspec.json.encode(told)))) + b"\n")

        owner = Thread(target=answer)
        owner.start()
        got = end_captures(labdir)
        owner.join(10)
    return got, heard


def test_captures_that_are_going_on_are_ended_and_told(labdir: LabDir) -> None:
    got, heard = asked_of_an_owner(labdir, (FILE,))
    assert got == (FILE,)
    assert heard == [Status.__name__, CaptureStop.__name__]


def test_without_captures_nothing_is_ended(labdir: LabDir) -> None:
    assert asked_of_an_owner(labdir, ()) == ((), [Status.__name__])


def test_a_lab_without_an_owner_has_none(labdir: LabDir, tmp_path: Path) -> None:
    assert end_captures(labdir) == ()
    assert end_captures(LabDir("blue", tmp_path)) == ()
