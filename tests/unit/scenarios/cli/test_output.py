"""Tables on narrow and wide terminals, numbers of things, and a stderr that is gone."""

import io
import json
import os
import sys

import pytest
from click.testing import CliRunner
from rich.console import Console

from scenarios.cli.main import main
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


def test_control_characters_of_files_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]0;title\x07b\r\x9bc\u202ed\udcff"
    shown = r"a\x1b]0;title\x07b\x0d\x9bc\u202ed\xff"
    output = Output()
    output.text(hostile)
    output.say(hostile)
    output.table(("name",), [(hostile,)], "nothing")
    captured = capsys.readouterr()
    assert captured.out == f"{shown}\nname\n{shown}\n"
    assert captured.err == f"{shown}\n"


def test_brackets_in_a_cell_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("name",), [("[red]x[/b] :smile:",)], "nothing")
    assert capsys.readouterr().out == "name\n[red]x[/b] :smile:\n"


@pytest.mark.parametrize("words", [["show", "\x1b[2Jx"], ["validate", "\x1b[2Jx"], ["run", "--\x1b[2J"], ["\x1b[2J"]])
def test_what_was_asked_for_is_told_without_control_characters(words: list[str]) -> None:
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 2
    assert "\x1b" not in said.output
    assert r"\x1b" in said.output


def test_names_that_are_not_utf8_come_back_from_json(capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"x\xff")
    Output().document({"path": name})
    Output().line([name])
    document, line = capsys.readouterr().out.rsplit("\n[", 1)
    assert os.fsencode(json.loads(document)["path"]) == b"x\xff"
    assert os.fsencode(json.loads("[" + line)[0]) == b"x\xff"
