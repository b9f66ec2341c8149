"""`spraylab watch` on a lab with a fault and traffic, on terminals of two sizes: what is shown, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab
from tests.support.terminal import TMUX, Terminal, terminal

pytestmark = [
    pytest.mark.root,
    needs_root,
    pytest.mark.skipif(TMUX is None, reason="tmux is not installed (apt install tmux)"),
]

BAD = "p1:leaf0>spine1"
SCENARIO = """
version: 1
name: watched
transport: {pmtu: 256, ack_timeout_ms: 5000}
workloads:
  - {type: write, strides: [1, 2], bytes: 16MiB, message_bytes: 1MiB}
detector: {min_rate: 10%}
expect: {detection: recorded}
"""
NARROW, WIDE = (80, 24), (200, 50)
AFTER = [
    "plane 0        plane 1",
    "      s0  s1         s0  s1",
    "leaf0 ..  ..   leaf0 ..  D.^",
    "leaf1 ..  ..   leaf1 ..  ..",
    "leaf2 ..  ..   leaf2 ..  ..",
]
"""The faulty direction loses about 10 % or more, is named, and has a fault in force; all others lose nothing."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three leaves and two spines in two planes, so that every link is on two paths; one drops a fifth."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "watched.yaml").write_text(SCENARIO)
    with own_lab(folder) as lab:
        lab("up", "--planes", "2", "--leaves", "3", "--spines", "2")
        lab("fault", "set", BAD, "--drop", "20%", "--mechanism", "ebpf")
        yield lab


def watching(lab: Lab, size: tuple[int, int]) -> Terminal:
    return terminal(lab.words("watch"), *size)


def grid_of(screen: list[str]) -> list[str]:
    """The grid alone: what stands beside it on a wide terminal is left out."""
    at = next(number for number, line in enumerate(screen) if line.startswith("plane 0"))
    return [line[: len(AFTER[2]) + 1].rstrip() for line in screen[at : at + len(AFTER)]]


def test_a_run_is_watched_on_a_narrow_and_a_wide_terminal_to_the_end_of_the_lab(lab: Lab, tmp_path: Path) -> None:
    with watching(lab, NARROW) as narrow, watching(lab, WIDE) as wide:
        before = narrow.wait(lambda text: "no run yet" in text, 20, "a first picture")
        assert grid_of(before)[2:] == [
            "leaf0 --  --   leaf0 --  --^",
            *(f"leaf{at} --  --   leaf{at} --  --" for at in (1, 2)),
        ]
        run = lab.start("run", "--attach", str(lab.runs / "watched.yaml"))
        for shown in (narrow, wide):
            shown.wait(lambda text: "run 1 going on" in text and "h0>h1" in text, 60, "flows")
        assert run.wait(120) in (0, 5), run.communicate()
        for shown, size in ((narrow, NARROW), (wide, WIDE)):
            screen = shown.wait(lambda text: "run 1 ended" in text and "D.^" in text, 10, "the end of the run")
            assert grid_of(screen) == AFTER
            assert len(screen) <= size[1] + 1
            assert max(map(len, screen)) <= size[0]
            assert "…" not in "".join(screen)
        text = "\n".join(wide.screen())
        assert f"{BAD} drop 20% dropped " in text
        assert f"names {BAD} (uniform)" in text
        assert any(line.split()[-2:] == ["fault,", "named"] for line in wide.screen() if BAD in line)

        narrow.resize(*WIDE)
        assert (
            grid_of(narrow.wait(lambda text: "LINKS by loss: least of any path" in text, 10, "the wide picture"))
            == AFTER
        )
        narrow.press("q")
        assert narrow.exit_code() == 0
        with watching(lab, NARROW) as interrupted:
            interrupted.wait(lambda text: "plane 1" in text, 20, "a picture")
            interrupted.press("C-c")
            assert interrupted.exit_code() == 0
        lab("down")
        assert wide.exit_code() == 0
        assert f"lab {lab.name} is down" in "\n".join(wide.screen())


def test_without_a_terminal_one_plain_frame_and_json(lab: Lab) -> None:
    lab("down")
    lab("up", "--planes", "1", "--leaves", "2", "--spines", "2")
    shown = lab("watch").stdout
    assert "\x1b" not in shown
    assert "leaf1 --  --" in shown
    assert [line for line in shown.splitlines() if line.startswith(("LINKS", "FLOWS", "EVs", "FAULTS", "DETECTED"))]
    with watching(lab, (60, 15)) as small:
        shown_small = small.wait(lambda text: "watch needs" in text, 20, "that it is too small")
        assert [line for line in shown_small if line] == ["watch needs 80x24, this terminal has 60x15"]
    view = lab.json("watch", "--once")
    assert (view["planes"], view["run"], view["flows"]) == (1, 0, [])
    stream = lab.start("watch", "--json")
    assert stream.stdout is not None
    assert [json.loads(stream.stdout.readline())["lab"] for _ in range(2)] == [lab.name] * 2
    lab("down")
    assert (stream.wait(20), stream.communicate()[1]) == (0, f"lab {lab.name} is down\n")
    assert "is not up" in lab("watch", code=4).stderr
