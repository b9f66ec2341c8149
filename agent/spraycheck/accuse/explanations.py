"""The fewest causes that explain all findings, each of which has a few suspects. Pure combinatorics, no network."""

from collections.abc import Collection, Hashable, Iterator
from typing import TypeVar

MOST_CAUSES = 12
"""No explanation with more causes is searched for. Our choice: 2^12 steps where findings have two suspects."""

T = TypeVar("T", bound=Hashable)


def smallest_explanations(findings: Collection[tuple[T, ...]]) -> set[frozenset[T]] | None:
    """Every smallest set with one suspect of each finding at least, or None if it would have more than MOST_CAUSES.

    Findings with two suspects each: a set of n is found among 2^n choices; n grows until one fits.
    """
    for size in range(1, MOST_CAUSES + 1):
        if found := set(_covers(findings, frozenset(), size)):
            return found
    return None


def larger_explanations(found: set[frozenset[T]], findings: Collection[tuple[T, ...]]) -> set[frozenset[T]]:
    """Those with one cause more than the ones in `found`, all of one size."""
    size = len(next(iter(found))) + 1
    suspects = frozenset(each for finding in findings for each in finding)
    grown = {smaller | {extra} for smaller in found for extra in suspects - smaller}
    return grown | {each for each in _covers(findings, frozenset(), size) if len(each) == size}


def independent_parts(findings: Collection[tuple[T, ...]]) -> list[list[tuple[T, ...]]]:
    """Connected groups; findings without a common suspect have nothing to do with each other."""
    groups: list[tuple[set[T], list[tuple[T, ...]]]] = []
    for finding in findings:
        apart = [group for group in groups if group[0].isdisjoint(finding)]
        touching = [group for group in groups if not group[0].isdisjoint(finding)]
        suspects = set(finding).union(*(group[0] for group in touching))
        groups = [*apart, (suspects, [finding, *(other for group in touching for other in group[1])])]
    return [members for _, members in groups]


def _covers(findings: Collection[tuple[T, ...]], chosen: frozenset[T], room: int) -> Iterator[frozenset[T]]:
    unexplained = next((each for each in findings if not chosen.intersection(each)), None)
    if unexplained is None:
        yield chosen
    elif room:
        for suspect in unexplained:
            yield from _covers(findings, chosen | {suspect}, room - 1)
