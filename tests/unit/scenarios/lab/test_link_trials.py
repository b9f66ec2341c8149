"""Probes in a row over a denied link, by the sums of several workers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.host.control.requests import DeniedLink
from scenarios.lab.owner.link_trials import Trials

LINK, OTHER = DeniedLink(0, 3, 5, up=True), DeniedLink(0, 3, 5, up=False)


def row(link: DeniedLink, answered: int, lost: int) -> dict[str, Any]:
    return {"plane": 0, "leaf": 3, "spine": 5, "up": link.up, "answered": answered, "lost": lost}


looks = st.lists(st.lists(st.booleans(), max_size=12), max_size=20)
"""By look the outcomes of its probes, in order."""


@given(looks, looks, st.integers(1, 30))
def test_a_link_passes_only_after_so_many_answers_without_a_loss_between(
    first: list[list[bool]], second: list[list[bool]], enough: int
) -> None:
    trials, counts = Trials(), [[0, 0], [0, 0]]
    history: list[bool] = []
    for parts in zip(first, second, strict=False):
        for at, outcomes in enumerate(parts):
            counts[at][0] += sum(outcomes)
            counts[at][1] += len(outcomes) - sum(outcomes)
            history += outcomes
        passed = trials.passed([row(LINK, *each) for each in counts], enough)
        if passed:
            assert len(history) >= enough
            assert all(history[-enough:])


def test_all_workers_answers_count_together_and_links_apart() -> None:
    trials = Trials()
    rows = [row(LINK, 6, 0), row(LINK, 5, 0), row(OTHER, 10, 0)]
    assert trials.passed(rows, 11) == [LINK]
    assert trials.passed([row(LINK, 6, 0), row(LINK, 5, 1), row(OTHER, 11, 0)], 11) == [OTHER]


def test_a_link_that_is_denied_again_begins_anew() -> None:
    trials = Trials()
    assert trials.passed([row(LINK, 10, 0)], 10) == [LINK]
    trials.keep(())
    assert trials.passed([row(LINK, 9, 0)], 10) == []
