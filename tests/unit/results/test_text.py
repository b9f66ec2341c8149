"""Text for people: rates with four significant digits, and faults in the words that set them."""

from fractions import Fraction

import pytest

from faults import kinds as model
from faults.kinds import Fault, kinds
from faults.selector import Only
from results.text import count_text, fault_text, held_text, in_force_text, share_text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"), (1, "100%"), (0.01, "1%"), (1 / 11, "9.091%"), (0.999999, "100%"), (0.123456, "12.35%"),
        (1e-7, "0.00001%"), (2.3283064365386963e-10, "0.00000002328%"),
    ],
)  # fmt: skip
def test_a_share(share: float, text: str) -> None:
    assert share_text(share) == text


def test_one_is_not_many() -> None:
    assert [count_text(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert count_text(3, "leaf", "leaves") == "3 leaves"


FAULTS: tuple[Fault, ...] = (
    model.RandomDrop(Fraction(1, 100), Only(host=3)),
    model.BurstDrop(Fraction(1, 100), Fraction(1, 10)),
    model.CountedDrop(100),
    model.BlackHole(3),
    model.Hang(),
    model.Corrupt(Fraction(1, 100)),
    model.Duplicate(Fraction(1, 100)),
    model.Reorder(Fraction(5, 100), 1_000_000),
    model.Delay(10_000_000),
    model.RateLimit(10_000_000),
    model.Down(),
    model.Flap(2_000_000_000),
    model.Reboot(300_000_000),
    model.Crash(),
)


def test_every_kind_is_looked_at() -> None:
    assert tuple(map(type, FAULTS)) == kinds()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_kind_and_amount_of_records_are_the_words_that_set_the_fault(fault: Fault) -> None:
    assert fault_text(fault.kind, fault.amount) == str(fault)
    assert fault_text(fault.kind) == fault.word
    assert held_text(fault.kind, fault.amount) == str(fault)
    assert in_force_text(fault.kind, fault.amount, fault.amount) == "in force as asked"


def test_what_the_kernel_holds_instead_is_told() -> None:
    assert held_text("random-drop", "nothing") == "nothing"
    assert in_force_text("random-drop", "1%", "nothing") == "nothing in force"
    assert in_force_text("random-drop", "1%", "removed") == "removed"
    assert in_force_text("random-drop", "1%", "0.98%") == "drop 0.98% in force"
