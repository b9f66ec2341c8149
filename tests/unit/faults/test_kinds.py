"""Every kind answers every question: what a kind leaves open is named, and each of its mechanisms can make it."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

from faults.grammar import Takes, Word
from faults.kinds import By, Fault, Hit, RandomDrop, kind_named, kinds
from faults.kinds.base import Kind
from faults.mechanisms.ebpf_config import config_of, fault_of
from faults.mechanisms.netem_config import held, netem_of
from faults.mechanisms.port_queue import limit_in, tbf_of
from faults.request import KIND_WORDS, worded

UNCOUNTED = {"delay", "reorder", "rate", "down", "flap", "reboot", "crash"}
EVERY_KIND = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.word)


def example_of(kind: type[Fault]) -> Fault:
    (fault,) = worded(kind.says.example).faults
    return fault


def held_by_netem(fault: Fault) -> Fault | None:
    netem = netem_of({fault.word: fault}, seed=1)
    assert netem is not None
    return held(fault, netem, others_ns=0)


def held_by_tbf(fault: Fault) -> Fault | None:
    tbf = tbf_of({fault.word: fault})
    return None if tbf is None else limit_in(tbf)


HELD = {
    By.NETEM: held_by_netem,
    By.EBPF: lambda fault: fault_of(config_of(fault, seed=1, priority=100)),
    By.TBF: held_by_tbf,
    By.LINK: lambda fault: fault,  # a port is shut or not, whatever the kind
}
"""What the configuration of each mechanism says of a fault, read back."""


@EVERY_KIND
def test_each_of_its_mechanisms_makes_it_and_reads_it_back(kind):
    fault = example_of(kind)
    for by in kind.says.makers:
        assert fault.agrees(HELD[by](fault)), f"{kind.__name__} says that {by} makes it, and {by} does not"


@EVERY_KIND
def test_its_example_is_of_this_kind_and_something(kind):
    fault = example_of(kind)
    assert type(fault) is kind
    assert not fault.is_nothing
    assert str(fault).startswith(kind.word)
    assert kind_named(kind.kind) is kind


@EVERY_KIND
def test_what_it_hits_and_what_it_drops_agree(kind):
    assert (kind.says.hits is Hit.LOST) == (example_of(kind).drop_rate is not None)
    assert kind.shuts_ports() == (By.LINK in kind.says.makers)


@EVERY_KIND
def test_whether_it_counts_what_it_costs(kind):
    assert (kind.why_uncounted(kind.says.makers[0]) is not None) == (kind.word in UNCOUNTED)


def test_corruption_is_counted_by_ebpf_only():
    (corrupt,) = worded({"corrupt": "1%"}).faults
    assert corrupt.drop_rate is None
    assert corrupt.why_uncounted("ebpf") is None
    assert "netem" in (corrupt.why_uncounted("netem") or "")


WORD = Word("melt", "RATE", "Melt packets.", "Share of packets molten.", Takes.SHARE)


def test_what_a_kind_leaves_open_is_named():
    with pytest.raises(TypeError, match=r"kind of fault Melt does not say: drop_rate, is_nothing, why_uncounted"):

        @Kind(WORD, makers=(By.EBPF,), hits=Hit.SPOILT, example={"melt": "1%"})
        @dataclass(frozen=True, slots=True)
        class Melt(Fault):
            rate: Fraction

            @classmethod
            def read(cls, words):
                return cls(words.rate("melt"))

            @property
            def text(self):
                return ""

    assert "melt" not in {each.word for each in kinds()}


def test_a_word_is_of_one_kind():
    declared = Kind(RandomDrop.says.word, makers=(By.EBPF,), hits=Hit.LOST, example={"drop": "1%"})
    with pytest.raises(TypeError, match="RandomDrop has its word or name already"):
        declared(RandomDrop)
    assert [word.name for word in KIND_WORDS] == [each.word for each in kinds()]
