"""The picture of a lab: it fits its terminal, is read without colour, and says what it leaves out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from scenarios.watch.frame import LEAST_HEIGHT, LEAST_WIDTH, frame, too_small, whole_frame
from scenarios.watch.grid import letter
from scenarios.watch.snapshot import Detection, FaultView, LinkView, View
from scenarios.watch.tables import folded
from tests.unit.scenarios.watch_readings import large_view

NARROW = """\
lab lab  05:06:12Z  run 3 going on  2 x 8 leaves x 8 spines, 8 hosts
plane 0                                plane 1
      s0  s1  s2  s3  s4  s5  s6  s7         s0  s1  s2  s3  s4  s5  s6  s7
leaf0 ..  ..  ..  ..  ..  ..  ..  ..   leaf0 ..  ..  ..  ..  ..  ..  ..  ..
leaf1 ..  ..  ..  ..  ..  ..  ..  ..   leaf1 ..  ..  ..  ..  ..  ..  ..  ..
leaf2 ..  ..  ..  ..  ..  ..  ..  ..   leaf2 ..  ..  ..  ..  ..  ..  ..  ..
leaf3 ..  ..  ..  ..  ..  ..  ..  ..   leaf3 ..  ..  ..  ..  ..  ..  ..  ..
leaf4 ..  ..  ..  ..  ..  ..  ..  ..   leaf4 ..  ..  ..  ..  ..  ..  ..  ..
leaf5 ..  ..  ..  ..  ..  ..  ..  ..   leaf5 ..  ..  ..  ..  ..  ..  ..  ..
leaf6 ..  ..  ..  ..  ..  ..  ..  ..   leaf6 ..  ..  ..  ..  ..  ..  ..  ..
leaf7 ..  ..  ..  ..  ..  ..  ..  ..   leaf7 ..  ..  ..  ..  ..  ..  ..  C.^
link up, down by loss: . none  a ~.01%  b ~.1%  c ~1%  d ~10%  e more  - unused
^ v x fault up, down, both; CAPITAL or #: named. Loss of links is estimated.
FLOWS measured over 1.0 s      FAULTS, counted by the kernel
flow        Mb/s  done resent  p1:leaf7>spine7 drop 1% dropped 80 of 8,194
h0>h1       22.2   50%     40  DETECTED in run 3
h1>h2       22.2   50%     40  links: 2 failed, 254 healthy; paths: none yet
h2>h3       22.2   50%     40  05:06:11 monitor names p1:leaf7>spine7 (uniform)
h3>h4       22.2   50%     40  EVs by state good  bad denied
h4>h5       22.2   50%     40  h7             31    1      0
h5>h6       22.2   50%     40  7 hosts        32    0      0
h6>h7       22.2   50%     40  flow        Mb/s  done resent
h7>h0       22.2   50%     40  h1>h2       22.2   50%     40
h0>h1       22.2   50%     40  ... 6 more flows
"""


def lines(view, width: int, height: int | None, age_s: int = 0) -> list[str]:
    return frame(view, width, height, age_s).plain.splitlines()


def test_the_picture_on_a_narrow_terminal() -> None:
    assert lines(large_view(), 80, 24) == NARROW.splitlines()


def test_a_wide_terminal_shows_numbers_of_links_and_all_flows() -> None:
    shown = lines(large_view(), 200, 50)
    assert sum(line.split()[3:6] == ["22.2", "50%", "40"] for line in shown) == 16
    assert any(line.startswith("h1>h2      0x1001   0x2001 ") for line in shown)
    assert [line for line in shown if "p1:leaf7>spine7   C   0.980%     8,192 sent  fault, named" in line]
    assert not [line for line in shown if "more" in line and "..." in line]


@settings(max_examples=150, deadline=None)
@given(height=st.integers(24, 60), planes=st.integers(1, 4), leaves=st.integers(2, 12), flows=st.integers(1, 90))
def test_no_lines_are_left_empty_beside_flows_that_have_no_room(height, planes, leaves, flows) -> None:
    view = large_view(planes, leaves, 8, flows=flows)
    for width, table in ((80, 29), (200, 50)):
        shown = lines(view, width, height)
        told = [line for line in shown if "more flows" in line]
        if told:
            assert len(shown) == height
            free = next(at for at, line in enumerate(reversed(shown)) if line[table:].strip())
            assert free <= 2, "a head and one flow more have no room, or nothing would be missing"


def test_hosts_that_are_alike_share_a_line_where_lines_are_few() -> None:
    (line,) = (line for line in lines(large_view(), 80, 24) if " hosts  " in line and "leaves" not in line)
    assert line.split()[-5:] == ["7", "hosts", "32", "0", "0"]
    assert not any(" hosts  " in line and "leaves" not in line for line in lines(large_view(), 80, None))


def test_links_stand_beside_a_small_grid_on_a_narrow_terminal_too() -> None:
    shown = lines(large_view(2, 3, 2), 80, 24)
    assert shown[1].endswith("LINKS by loss, estimated")
    assert shown[2].endswith("p1:leaf2>spine1 C   0.980%  fault, named")


SIZES = {"width": st.integers(80, 250), "height": st.integers(24, 80)}
COUNTS = {"planes": st.integers(1, 6), "leaves": st.integers(1, 40), "spines": st.integers(1, 40)}


@settings(max_examples=150, deadline=None)
@given(**SIZES, **COUNTS, flows=st.integers(0, 60), bad=st.booleans())
def test_it_fits_and_shows_the_failing_link(width, height, planes, leaves, spines, flows, bad) -> None:
    shown = lines(large_view(planes, leaves, spines, bad, flows), width, height)
    assert len(shown) <= height
    assert max(map(len, shown)) <= width
    picture = "\n".join(shown[:-1])
    assert ("C.^" in picture) == bad
    assert ("no room here for" in picture) <= (planes * leaves * spines > 1)


def wordy() -> View:
    """The longest words that a lab has."""
    link, other = "p15:leaf255>spine255", "p15:spine255>leaf254"
    faults = (
        FaultView(link, "flap", "period=2s,duty=50%,count=10,jitter=100ms", "nothing", 8194, 80, "hand"),
        FaultView(other, "burst-drop", "1%", "p=12.3456%,r=10%,bad=100%,good=0.00001%", 81_944_444, 80_000, "scenario"),
    )
    said = tuple(Detection("2026-03-04T05:06:11.500000Z", "p15-leaf255", f"names one of {link}, {other} ({how})")
                 for how in ("uniform", "declared, preliminary"))  # fmt: skip
    view = large_view(4, 16, 8, flows=3)
    evs = replace(view.evs[0], not_good=tuple(f"p{plane}:spine255 ASSUMED_BAD" for plane in range(16)))
    far = replace(view.flows[0], source="h65534", destination="h65535", resent=12_345_678, goodput_bps=12_345_678_901)
    return replace(view, lab="abcdefghij", evs=(evs, *view.evs[1:9]), flows=(far, *view.flows), faults=faults,
                   detections=said, troubles=("spraycheck killed by SIGKILL", "worker255 does not answer"))  # fmt: skip


WORDY = wordy()


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_nothing_is_cut_inside_a_word(width, height) -> None:
    for text in (frame(WORDY, width, height, age_s=1000), frame(large_view(), width, height)):
        assert "…" not in text.plain
        assert max(map(len, text.plain.splitlines())) <= width


def test_a_pipe_gets_everything_a_thing_a_line() -> None:
    shown = whole_frame(WORDY).plain.splitlines()
    assert sum(line.startswith("h65534>h65535") for line in shown) == 1
    assert [line for line in shown if line.endswith("p15:spine255 ASSUMED_BAD")]
    for fault in WORDY.faults:
        assert any(fault.link in line and fault.in_force in line and f"{fault.seen:,}" in line for line in shown)
    for said in WORDY.detections:
        assert any(line.endswith(said.text) for line in shown)
    grid = [line for line in shown if line.startswith(("plane ", "leaf15 "))]
    assert " ".join(grid).count("plane") == " ".join(grid).count("leaf15") == 4
    assert "…" not in "".join(shown)
    assert not any("more" in line and "..." in line for line in shown)


def test_a_pipe_gets_all_spines() -> None:
    shown = whole_frame(large_view(1, 2, 250)).plain.splitlines()
    assert shown[2].split()[-1] == "249"
    assert shown[4].endswith("C.^")


@pytest.mark.parametrize(("width", "height"), [(60, 15), (79, 24), (80, 23), (20, 50), (20, 2), (1, 1)])
def test_a_terminal_that_is_too_small_is_told_so_and_no_word_is_cut(width: int, height: int) -> None:
    told = lines(large_view(), width, height)
    assert len(told) <= height
    whole = f"watch needs 80x24, this terminal has {width}x{height}"
    assert whole.split()[: len(" ".join(told).split())] == " ".join(told).split()
    assert height < 3 or " ".join(" ".join(told).split()) == whole


def test_one_frame_needs_columns_only() -> None:
    assert too_small(LEAST_WIDTH, None) == ""
    assert too_small(LEAST_WIDTH, LEAST_HEIGHT) == ""
    assert lines(large_view(), 60, None) == [
        "watch needs 80 columns, this terminal has 60; a pipe shows",
        "  everything",
    ]
    assert lines(large_view(), 40, None) == [
        "watch needs 80 columns, this terminal",
        "  has 40; a pipe shows everything",
    ]


def test_everything_is_there_when_no_height_is_given() -> None:
    shown = lines(large_view(4, 20, 8, flows=50), 80, None)
    assert sum(">" in line.partition(" ")[0] for line in shown) == 50
    assert sum(line.startswith("h") and ">" not in line.partition(" ")[0] for line in shown) == 20
    assert sum("leaf19" in line for line in shown) >= 4


def test_more_planes_than_fit_are_counted() -> None:
    assert any("no room here for 2 planes, 4 leaves" in line for line in lines(large_view(8, 8, 8), 80, 30))


@pytest.mark.parametrize(
    ("loss", "named", "drawn"),
    [
        (None, False, "-"), (None, True, "#"), (0.0, False, "."), (0.0, True, "#"), (0.0001, False, "a"),
        (0.001, False, "b"), (0.01, False, "c"), (0.01, True, "C"), (0.1, False, "d"), (1.0, False, "e"),
        (1.0, True, "E"),
    ],
)  # fmt: skip
def test_letters(loss: float | None, named: bool, drawn: str) -> None:
    assert letter(LinkView("p0:leaf0>spine0", 0, 0, 0, True, 1, loss, 0, named))[0] == drawn


def test_a_fault_that_the_kernel_does_not_hold_says_so() -> None:
    lost = FaultView("p1:leaf7>spine7", "random-drop", "1%", "nothing", 0, 0, "hand")
    shown = "\n".join(lines(replace(large_view(), faults=(lost,)), 200, 50))
    assert "p1:leaf7>spine7 drop 1% (nothing in force) no packet yet" in shown


def test_a_lab_before_its_first_run_claims_nothing() -> None:
    idle = replace(large_view(bad=False), run=0, running=False, links=(), flows=(), evs=(), verdicts={}, paths={})
    shown = "\n".join(lines(idle, 80, 24))
    for text in (
        "no run yet",
        "no queue pair sends now",
        "none in use",
        "links: none yet; paths: none yet",
    ):
        assert text in shown
    assert " .." not in shown


def test_links_and_paths_are_counted_apart() -> None:
    view = replace(large_view(bad=False), verdicts={"healthy": 256}, paths={"insufficient": 3584})
    assert "links: 256 healthy; paths: 3,584 insufficient" in "\n".join(lines(view, 200, 50))


def test_troubles_and_old_pictures_are_told() -> None:
    shown = lines(replace(large_view(), troubles=("worker0 killed by SIGKILL",)), 80, 24, age_s=7)
    assert "nothing read for 7 s" in shown[0]
    assert shown[1] == "  spines, 8 hosts"
    assert shown[2].startswith("worker0 killed by SIGKILL")


def test_what_stays_of_a_run_that_ended_is_called_its_last_reading() -> None:
    over = replace(large_view(), running=False)
    assert "run 3 ended, last reading" in lines(over, 80, 24)[0]
    unread = replace(over, links=tuple(replace(link, loss=None) for link in over.links))
    assert "run 3 ended  " in lines(unread, 80, 24)[0]


WORDS = st.lists(st.text("abc,-", min_size=1, max_size=12), min_size=1, max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "  two"]),
        ("p0:leaf0>h0 black-hole", 12, ["p0:leaf0>h0", "  black-hole"]),
        ("a=1,b=2,c=3", 8, ["a=1,b=2,", "  c=3"]),
        ("unbreakable", 5, ["unbreakable"]),
        ("", 5, [""]),
    ],
)
def test_where_a_line_goes_on(text: str, width: int, lines: list[str]) -> None:
    assert [line.plain for line in folded(Text(text), width)] == lines


@given(WORDS, st.integers(10, 40))
def test_nothing_is_lost_and_short_pieces_fit(text: str, width: int) -> None:
    lines = [line.plain for line in folded(Text(text, "bold"), width)]
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(len(line) <= width for line in lines) or any(len(word) > width - 2 for word in text.split())


def test_without_a_width_a_line_is_a_line() -> None:
    assert [line.plain for line in folded(Text("x " * 500), None)] == ["x " * 500]
