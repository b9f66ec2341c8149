"""Defines `--engine`: how all or some hosts move packets, in place of the scenario's setting."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from scenarios.errors import UsageError
from testbed.model.ids import those_there_are

if TYPE_CHECKING:
    from scenarios.file.model import Scenario


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
