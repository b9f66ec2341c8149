"""Counts answered probes in a row over each denied link, from the workers' sums. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.host.control.requests import DeniedLink

Counts = tuple[int, int]
"""Probes answered and lost."""


@dataclass
class Trials:
    """Keeps each link's last sums, and the probes answered since the last one that was lost."""

    _told: dict[DeniedLink, Counts] = field(default_factory=dict)
    _clean: dict[DeniedLink, int] = field(default_factory=dict)

    def keep(self, links: Collection[DeniedLink]) -> None:
        """Forget all other links: one that is denied again starts anew."""
        self._told = {link: told for link, told in self._told.items() if link in links}
        self._clean = {link: clean for link, clean in self._clean.items() if link in links}

    def passed(self, rows: Iterable[Mapping[str, Any]], enough: int) -> list[DeniedLink]:
        """Return links with at least `enough` answers in a row, by every worker's counts since it probes them.

        Workers report no order among themselves: where any probe was lost since the last look, all that was
        answered since then does not count either.
        """
        sums: dict[DeniedLink, Counts] = {}
        for row in rows:
            link = DeniedLink(row["plane"], row["leaf"], row["spine"], row["up"])
            answered, lost = sums.get(link, (0, 0))
            sums[link] = answered + row["answered"], lost + row["lost"]
        for link, (answered, lost) in sums.items():
            before = self._told.get(link, (0, 0))
            self._clean[link] = 0 if lost > before[1] else self._clean.get(link, 0) + answered - before[0]
            self._told[link] = answered, lost
        return [link for link in sums if self._clean[link] >= enough]
