"""Defines types of option values: numbers within limits, sizes, paths, engines."""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from faults.errors import QuantityError
from faults.quantities import parse_bytes
from scenarios.errors import UsageError
from testbed.model.node_names import those_there_are

if TYPE_CHECKING:
    from scenarios.file.model import Scenario


_DIGITS = re.compile(r"[+-]?[0-9]+")
"""Pattern of whole numbers in JSON and scenarios: no digits of other scripts, no underscores."""


class Whole(click.IntRange):
    """A whole number within limits, with a clearer error than click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Fails as click does."""
        if isinstance(value, str) and not _DIGITS.fullmatch(value):
            self.fail(f"{value!r} is not a whole number{self._limits()}", param, ctx)
        return super().convert(value, param, ctx)

    def _limits(self) -> str:
        if self.max is not None:
            return f"; {self.min or 0} to {self.max} are possible"
        return "" if self.min is None else f"; {self.min} is the least"


class Real(click.FloatRange):
    """A number within limits, which excludes `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Fails as click does."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number from {self.min} to {self.max}", param, ctx)
        return found


class Size(click.ParamType[int]):
    """A size: `65536`, `64KiB`, `4MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes, at least 1."""
        if isinstance(value, int):
            return value
        size = 0
        with suppress(QuantityError):
            size = parse_bytes(value)
        if size < 1:
            self.fail(f"{value!r} is not a size; write bytes as 1048576, or with a unit as 1MiB", param, ctx)
        return size


SIZE = Size()


class GivenPath(click.Path):
    """A `click.Path` that refuses the empty path, as in `--runs "$UNSET"`."""

    def __init__(self, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails as click does."""
        if value == "":
            self.fail("is empty; name a path", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True)
class EngineWanted:
    """The value of `--engine`."""

    engine: Literal["ring", "scapy"]
    hosts: tuple[int, ...] | None
    """Hosts that it applies to; None: all."""

    def applied(self, scenario: "Scenario") -> "Scenario":
        """Return the scenario with this engine. Raises `ScenarioRefusedError` for hosts that its fabric does not
        have.
        """
        from scenarios.file.plan import checked_on

        chosen = {"engine": self.engine, "engine_hosts": self.hosts}
        transport = scenario.transport.model_copy(update=chosen)
        return checked_on(scenario.model_copy(update={"transport": transport}), scenario.topology.model_dump())

    def scapy_hosts(self, hosts: int) -> tuple[int, ...]:
        """Return the named hosts of `hosts`. Raises `UsageError` for one that does not exist."""
        from scenarios.file.transport import Transport

        if beyond := [host for host in self.hosts or () if host >= hosts]:
            raise UsageError(f"--engine: there is no h{beyond[0]}; {those_there_are('host', 'h', hosts)}")
        return Transport(engine=self.engine, engine_hosts=self.hosts).scapy_hosts(hosts)


def _engine(_context: click.Context, _param: click.Parameter, value: str | None) -> EngineWanted | None:
    if value is None:
        return None
    if value == "ring":
        return EngineWanted("ring", None)
    engine, colon, names = value.partition(":")
    hosts = [re.fullmatch(r"h?([0-9]{1,5})", name, re.ASCII) for name in names.split(",")]
    if engine != "scapy" or (colon and not all(hosts)):
        raise click.BadParameter(f"{value[:40]!r} is neither ring, nor scapy, nor hosts as in scapy:h0,h3")
    return EngineWanted("scapy", tuple(int(found[1]) for found in hosts if found) if colon else None)


engine_option = click.option(
    "--engine",
    metavar="ring|scapy|scapy:HOST,...",
    callback=_engine,
    help="Engine of all hosts, or of those named; scapy: readable and slow.  [default: the scenario's]",
)
