"""`spraylab watch` without a lab: whom it tells, and how it ends when nobody listens."""

import os
import sys
from types import SimpleNamespace

import pytest

from scenarios.cli.lab import watch_loop
from scenarios.cli.output import Output
from tests.unit.scenarios.watch_readings import large_view


@pytest.mark.parametrize("as_json", [False, True])
def test_a_closed_pipe_is_told_to_whoever_ends_the_command(monkeypatch, as_json):
    read_end, write_end = os.pipe()
    os.close(read_end)
    monkeypatch.setattr(watch_loop, "_views", lambda _reader, once: [large_view()])
    with os.fdopen(write_end, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        with pytest.raises(BrokenPipeError):
            watch_loop.show(SimpleNamespace(), Output(as_json=as_json), once=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), write_end)
