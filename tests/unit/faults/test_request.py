"""Faults in words: what they mean, and every mistake with what would be right."""

from fractions import Fraction

import pytest

from faults import kinds as model
from faults.errors import WordingError
from faults.kinds import Distribution
from faults.request import KIND_WORDS, worded
from faults.selector import ONLY_WORDS, Only
from faults.timing import Event, Timing

SAYS = [
    ({"drop": "1%"}, model.RandomDrop(Fraction(1, 100)), "drop 1%"),
    (
        {"gemodel": "p=1%,r=10%"},
        model.BurstDrop(Fraction(1, 100), Fraction(1, 10)),
        "gemodel p=1%,r=10%,bad=100%,good=0%",
    ),
    ({"one_in": 100}, model.CountedDrop(100), "one-in 100"),
    ({"black-hole": "h3"}, model.BlackHole(3), "black-hole to h3"),
    ({"hang": True}, model.Hang(), "hang"),
    ({"corrupt": "1%"}, model.Corrupt(Fraction(1, 100)), "corrupt 1%"),
    ({"duplicate": "50bp"}, model.Duplicate(Fraction(1, 200)), "duplicate 0.5%"),
    ({"reorder": "5%", "ahead": "1ms"}, model.Reorder(Fraction(1, 20), 10**6), "reorder 5% ahead 1ms"),
    ({"delay": "10ms"}, model.Delay(10**7), "delay 10ms"),
    (
        {"delay": "10ms", "jitter": "1.5ms", "distribution": "normal"},
        model.Delay(10**7, 1_500_000, Distribution.NORMAL),
        "delay 10ms +- 1.5ms normal",
    ),
    ({"rate": "1Gbit"}, model.RateLimit(10**9, 6_250_000), "rate 1Gbit queue 6250000 B"),
    ({"rate": "10Mbit", "queue": "128KiB"}, model.RateLimit(10**7, 1 << 17), "rate 10Mbit queue 131072 B"),
    ({"down": True}, model.Down(), "down"),
    ({"flap": "period=2s,count=3"},
     model.Flap(2 * 10**9, Fraction(1, 2), 3), "flap period=2s,duty=50%,count=3,jitter=0s"),
    ({"flap": {"period": "2s", "duty": "10%", "jitter": "10ms"}},
     model.Flap(2 * 10**9, Fraction(1, 10), 0, 10**7), "flap period=2s,duty=10%,count=0,jitter=10ms"),
    ({"reboot": "2min"}, model.Reboot(120 * 10**9), "reboot down for 120s"),
    ({"crash": True}, model.Crash(), "crash"),
    (
        {"drop": "1%", "only-qp": "0x4001", "only-ev": "7/0xff", "only-control": True},
        model.RandomDrop(Fraction(1, 100), Only(qpn=0x4001, ev=(7, 0xFF), control=True)),
        "drop 1% of qp 0x4001, ev 0x7/0xff, control packets",
    ),
    (
        {"drop": "1%", "only-size": "100-", "only-dscp": "control", "only-to": "h2", "only-last": 4},
        model.RandomDrop(Fraction(1, 100), Only((100, 0xFFFFFFFF), dscp=46, host=2, last=4)),
        "drop 1% of 100- B, dscp 46, what goes to h2, last 4 of a message",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "fault", "text"), SAYS, ids=[text for *_, text in SAYS])
def test_words_make_faults_that_tell_themselves(words, fault, text):
    said = worded(words)
    assert said.faults == (fault,)
    assert said.timing == Timing()
    assert str(fault) == text
    assert fault.name.startswith(fault.word)
    assert fault.word not in fault.amount.split()
    assert fault.makers
    assert not fault.is_nothing


def test_every_kind_has_a_word_and_a_case_above():
    assert {word.name for word in KIND_WORDS} == {kind.word for kind in model.kinds()}
    assert {type(fault) for _, fault, _ in SAYS} == set(model.kinds())


def test_several_kinds_in_one_order_compose():
    assert [fault.word for fault in worded({"delay": "1ms", "drop": "1%"}).faults] == ["drop", "delay"]


def test_when():
    timing = worded({"down": True, "at": "2s", "for": "1s", "every": "5s", "times": 3, "on": "traffic"}).timing
    assert timing == Timing(2 * 10**9, 10**9, 5 * 10**9, 3, Event.TRAFFIC)
    assert worded({"down": True, "until": "detected"}).timing.until is Event.DETECTED


@pytest.mark.parametrize("words", [
    {"drop": "0%"}, {"gemodel": "p=0%,r=0%"}, {"one-in": 0}, {"corrupt": "0%"}, {"duplicate": "0bp"},
    {"reorder": "0%", "ahead": "0"}, {"delay": "0"}, {"rate": "0"},
])  # fmt: skip
def test_zero_is_nothing(words):
    (fault,) = worded(words).faults
    assert fault.is_nothing


def test_what_selects_is_made_by_ebpf_alone():
    for word in ONLY_WORDS:
        value = True if word.flag else {"only-to": "h1", "only-ev": "1", "only-size": "1-2"}.get(word.name, "1")
        (fault,) = worded({"drop": "1%", word.name: value}).faults
        assert fault.makers == ("ebpf",)


@pytest.mark.parametrize(("words", "problem"), [
    ({}, ("fault", "no kind of fault is given")),
    ({"drpo": "1%"}, ("drpo", "unknown word", "did you mean drop?")),
    ({"drop": "0.01"}, ("drop", "'0.01' has no unit", "write 0.01% or 1%, whichever is meant")),
    ({"delay": "10"}, ("delay", "'10' has no unit", "write 10ms or 10s, whichever is meant")),
    ({"delay": "1ms", "jitter": "2ms"}, ("jitter", "is larger than the delay")),
    ({"delay": "10s", "jitter": "2.2s"}, ("jitter", "is more than the kernel can make", "at most 2.147s")),
    ({"delay": "10.1s"}, ("delay", "is longer than packets can wait", "at most 10s")),
    ({"reorder": "1%", "ahead": "11s"}, ("ahead", "is longer than packets can wait")),
    ({"drop": "1%", "only-size": "4294967296-"}, ("only-size", "'4294967296-' is longer than any frame")),
    ({"drop": "1%", "only-size": "-99999999999"}, ("only-size", "'-99999999999' is longer than any frame")),
    ({"flap": "period=1ns"}, ("flap", "period: '1ns' is too short")),
    ({"flap": "period=1s,duty=0.01%"}, ("flap", "is down or up for too short a time")),
    ({"flap": "period=1s,duty=50%,duty=20%"}, ("flap", "duty is given twice")),
    ({"reboot": "0s"}, ("reboot", "'0s' is too short")),
    ({"drop": "1%", "for": "0"}, ("for", "'0' is too short")),
    ({"drop": "1%", "for": "5ms", "every": "5.1ms"}, ("every", "is not longer than for")),
    ({"drop": "1%", "at": "999999999999min"}, ("at", "'999999999999min' is too long")),
    ({"rate": "1bit"}, ("rate", "'1bit' cannot be made")),
    ({"reorder": "1%", "ahead": "0"}, ("ahead", "0 reorders nothing")),
    ({"delay": "1ms", "distribution": "nromal"},
     ("distribution", "'nromal' is not a distribution", "did you mean normal?")),
    ({"gemodel": "p=1%"}, ("gemodel", "r is missing")),
    ({"gemodel": "p=1%,q=2%,r=1"}, ("gemodel", "'q' is not known")),
    ({"gemodel": "p=1%,r=0%"}, ("gemodel", "r=0% never leaves the bad state")),
    ({"rate": "10Mb"}, ("rate", "'10Mb' is not a bit rate", "write it as 800kbit, 10Mbit or 1.5Gbit")),
    ({"flap": "duty=50%"}, ("flap", "period is missing")),
    ({"flap": "period=1s,duty=100%"}, ("flap", "a duty of 0% or 100% does not flap")),
    ({"flap": "period=1s,jitter=1s"}, ("flap", "the jitter is too large to keep edges in order")),
    ({"drop": "1%", "only-to": "leaf3"}, ("only-to", "'leaf3' is not a host", "write it as h3")),
    ({"drop": "1%", "only-dscp": "contrl"}, ("only-dscp", "'contrl' is not a class", "did you mean CONTROL?")),
    ({"drop": "1%", "only-size": "9-3"}, ("only-size", "'9-3' ends before it begins", "write 3-9")),
    ({"delay": "1ms", "only-control": True}, ("only-control", "has no kind that selects packets")),
    ({"drop": "1%", "jitter": "1ms"}, ("jitter", "has no effect without delay")),
    ({"reorder": "1%"}, ("reorder", "reordering needs the delay that packets skip")),
    ({"down": True, "every": "1s"}, ("every", "has no effect without for")),
    ({"down": True, "every": "1s", "for": "2s"}, ("every", "is not longer than for")),
    ({"down": True, "until": "traffic"}, ("until", "'traffic' does not end a fault")),
    ({"down": "yes"}, ("down", "'yes' is not understood", "this word takes no value")),
])  # fmt: skip
def test_what_cannot_be_meant_is_told_with_what_would_be_right(words, problem):
    with pytest.raises(WordingError) as caught:
        worded(words)
    assert any(told[: len(problem)] == problem for told in caught.value.problems)


def test_all_problems_are_told_at_once():
    with pytest.raises(WordingError) as caught:
        worded({"drop": "5", "delay": "x", "only-qp": "-1", "wehn": "1s", "times": 2})
    assert {word for word, *_ in caught.value.problems} == {"drop", "delay", "only-qp", "wehn", "times"}


def test_the_long_run_rate_of_bursts():
    (fault,) = worded({"gemodel": "p=1%,r=9%,bad=50%,good=0.1%"}).faults
    assert fault.drop_rate == Fraction(1, 10) / 2 + Fraction(9, 10) / 1000


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ({"flap": "2s"}, "write period=2s"),
        ({"flap": "period=2s,30%"}, "write duty=30%"),
        ({"gemodel": "1%"}, "write p=1%"),
    ],
)
def test_a_value_without_its_name_is_answered_with_the_name(words: dict[str, str], right: str) -> None:
    with pytest.raises(WordingError) as caught:
        worded(words)
    assert right in {told for _, _, told in caught.value.problems}
