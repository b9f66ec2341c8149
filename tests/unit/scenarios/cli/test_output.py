"""Tables on narrow and wide terminals, numbers of things, and a stderr that is gone."""

import io
import sys

import pytest
from rich.console import Console

from scenarios.cli.output import Output, echo_aside


class _Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = request.param
    monkeypatch.setattr(Output, "_console", lambda _: Console(file=sys.stdout, width=columns))


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("width", [40], indirect=True)
def test_a_narrow_terminal_gets_one_value_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("link", "by", "SEEN"), [("p0:leaf0>spine0" * 3, "", "7"), ("x", "y", "8")], "nothing")
    assert capsys.readouterr().out == f"link  {'p0:leaf0>spine0' * 3}\nseen  7\n\nlink  x\nby    y\nseen  8\n\n"


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("width", [80], indirect=True)
def test_a_wide_terminal_gets_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("link", "SEEN"), [("p0:leaf0>spine0", "7")], "nothing")
    assert capsys.readouterr().out.splitlines() == ["link             seen", "p0:leaf0>spine0     7"]


def test_a_broken_stderr_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Broken())
    echo_aside("x")


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("width", [80], indirect=True)
def test_heads_stay_as_they_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("", "A", "A to B"), [("seconds", "7.5", "+1%")], "nothing", as_named=True)
    assert capsys.readouterr().out.splitlines() == ["           A  A to B", "seconds  7.5  +1%"]
