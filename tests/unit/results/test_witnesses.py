"""The table of witnesses for people."""

from results.records.witnesses import CLOCK, DECLARED, MRC, UNIFORM, Witness, WitnessedLink, named_links, witness_lines

UP = "p0:leaf3>spine5"


def test_each_witness_has_a_line_and_the_one_that_decides_a_star() -> None:
    links = (WitnessedLink(UP, True, 5.954, 8192, 2), WitnessedLink("p1:spine0>leaf2", False, 5.0, 10, 1))
    lines = list(
        witness_lines(
            (
                Witness(MRC, False, "silent", (), (), (UP,), 0, None, 0.0, None, None, "no events (loss policy off)"),
                Witness(UNIFORM, True, "named", links, (), (), 1, 0.5, 1.0, 5.954, 8192),
                Witness(DECLARED, False, "none", (), (), (UP,), 0, None, 0.0, None, None, "2 of 8 verdicts"),
            )
        )
    )
    assert [line.split() for line in lines] == [
        ["witness", "named", "right", "wrong", "missed", "seconds", "packets", "paths", "precision", "recall"],
        ["MRC", "events", "no", "events", "(loss", "policy", "off)"],
        f"SprayCheck uniform * {UP} and 1 more 1 1 0 5.95 8,192 2 50% 100%".split(),
        ["SprayCheck", "declared", "no", "link", "0", "0", "1", "-", "-", "-", "-", "0%"],
        ["2", "of", "8", "verdicts"],
        CLOCK.split(),
    ]
    assert max(map(len, lines)) <= 120
    assert list(witness_lines(())) == []


def test_the_right_link_that_was_named_first_stands_first_and_its_numbers_beside() -> None:
    links = (
        WitnessedLink("p0:leaf0>spine0", False, 0.2, 5, 1),
        WitnessedLink("p0:leaf1>spine1", True, 2.45, 900, 3),
        WitnessedLink(UP, True, 0.5, 36, 2),
    )
    witness = Witness(UNIFORM, True, "named", links, (), (), 1, 0.67, 1.0, 0.5, 36)
    assert f"{UP} and 2 more 2 1 0 0.50 36 2".split() == list(witness_lines((witness,)))[1].split()[3:-2]
    assert named_links(witness) == [UP, "p0:leaf0>spine0", "p0:leaf1>spine1"]


def test_open_evidence_is_not_called_nothing() -> None:
    open_ended = Witness(UNIFORM, True, "ambiguous", (), ((UP, "b"),), (UP,), 0, None, 0.0, None, None)
    assert "one of several" in list(witness_lines((open_ended,)))[1]


def test_what_is_among_suspects_is_told() -> None:
    open_ended = Witness(UNIFORM, True, "ambiguous", (), ((UP, "b"),), (), 0, None, None, None, None, suspected=(UP,))
    lines = list(witness_lines((open_ended,)))
    assert lines[2].strip() == f"among its suspects, neither named nor missed: {UP}"
    assert CLOCK not in lines, "nothing was named, so there are no seconds"
