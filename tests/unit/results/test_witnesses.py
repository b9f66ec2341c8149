"""The table of witnesses for people."""

from results.witnesses import DECLARED, MRC, UNIFORM, Witness, WitnessedLink, witness_lines

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
    ]
    assert max(map(len, lines)) <= 120
    assert list(witness_lines(())) == []


def test_open_evidence_is_not_called_nothing() -> None:
    open_ended = Witness(UNIFORM, True, "ambiguous", (), ((UP, "b"),), (UP,), 0, None, 0.0, None, None)
    assert "one of several" in list(witness_lines((open_ended,)))[1]
