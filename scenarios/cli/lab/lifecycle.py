"""Builds a lab that stays up for other commands, and removes it or its remains: `spraylab up` and `down`."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from results.text import count_text
from scenarios.cli.lab.capture import print_captures
from scenarios.cli.options import of_lab, require_root, scenarios_like, with_output, workers_option
from scenarios.cli.output import Output, echo_aside
from scenarios.cli.parameters import EngineWanted, Whole, engine_option
from scenarios.errors import ScenariosError
from scenarios.file.scenario_files import find_scenario
from scenarios.interrupts import interrupts_raise, keyboard_interrupts
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir, owner_of, run_going_on
from scenarios.lab.lifecycle import OwnerEnd, Removed, take_down
from scenarios.lab.owner.captures import flaw_of
from scenarios.lab.processes import is_stopped
from scenarios.lab.protocol import Captures, CaptureState, CaptureStop, LabStatus, Status
from testbed.model.fabric import Fabric, FabricSpec
from testbed.root_environment import tool_path

if TYPE_CHECKING:
    from scenarios.file.model import Scenario
    from scenarios.lab.lifecycle import OwnerSettings


@click.command("up")
@click.argument("scenario", required=False, shell_complete=scenarios_like)
@click.option("--planes", type=Whole(), help="Planes: independent leaf/spine fabrics.  [default: 2]")
@click.option("--leaves", type=Whole(), help="Leaves per plane.  [default: 8]")
@click.option("--spines", type=Whole(), help="Spines per plane.  [default: 8]")
@click.option("--hosts-per-leaf", type=Whole(), help="Hosts per leaf.  [default: 1]")
@workers_option
@engine_option
@click.option("--host-stack", is_flag=True, help="Let ordinary programs (ping, iperf3) use the fabric; slower.")
@click.option("--cli", "open_cli", is_flag=True, help="Open Mininet's own CLI on the lab.")
@of_lab
@with_output
def command(
    labdir: LabDir,
    output: Output,
    scenario: str | None,
    workers: int | Literal["per-host"] | None,
    engine: EngineWanted | None,
    host_stack: bool,
    open_cli: bool,
    **counts: int | None,
) -> None:
    """Build a fabric and leave it up, by default 8x8x2 or that of SCENARIO. Options go before the scenario."""
    from scenarios.file.load import load_scenario
    from scenarios.file.model import Topology
    from scenarios.file.transport import Transport
    from scenarios.lab.lifecycle import launch
    from scenarios.lab.processes import fewer_workers_text
    from scenarios.lab.start.requirements import is_per_leaf, lacks_of_lab, require

    chosen = load_scenario(find_scenario(scenario)) if scenario else None
    base = (chosen.topology if chosen else Topology()).model_dump()
    given = {name: count for name, count in counts.items() if count is not None}
    fabric = Fabric.of(FabricSpec(**base | given, host_stack=host_stack))
    wanted = engine or (chosen.transport if chosen else Transport())
    scapy_hosts = wanted.scapy_hosts(fabric.host_count)
    require_root()
    require(lacks_of_lab(fabric, workers, per_leaf=chosen is not None and is_per_leaf(chosen)))
    if fewer := fewer_workers_text(workers, fabric.host_count):
        output.say(fewer)
    settings = _settings(labdir, fabric.spec, chosen, workers)
    with interrupts_raise():
        launch(msgspec.structs.replace(settings, scapy_hosts=scapy_hosts), output.say).release()
    with Owner(labdir) as owner:
        status = owner.ask(Status(), LabStatus)
    if output.as_json:
        output.document(status)
    else:
        output.text(f"lab {labdir.lab} is up: {_size(fabric.spec)}; `{labdir.down_command}` ends it")
    if open_cli:
        _mininet_cli(fabric, labdir)


def _settings(
    labdir: LabDir, spec: FabricSpec, scenario: "Scenario | None", workers: int | Literal["per-host"] | None
) -> "OwnerSettings":
    from scenarios.file.plan import plan_of
    from scenarios.lab.lifecycle import OwnerSettings
    from scenarios.run.judge.detector_demands import measuring_of

    settings = OwnerSettings(
        labdir.lab,
        spec.planes,
        spec.leaves,
        spec.spines,
        spec.hosts_per_leaf,
        host_stack=spec.host_stack,
        workers=workers,
    )
    if scenario is None:
        return settings
    return msgspec.structs.replace(settings, seed=scenario.seed, measuring=measuring_of(plan_of(scenario)))


def _size(spec: FabricSpec) -> str:
    switches = f"{count_text(spec.leaves, 'leaf', 'leaves')} and {count_text(spec.spines, 'spine')}"
    return f"{count_text(spec.planes, 'plane')} of {switches}, {count_text(spec.hosts_per_leaf, 'host')} a leaf"


def _mininet_cli(fabric: Fabric, labdir: LabDir) -> None:
    """Run Mininet's CLI in this process; leaving it leaves the lab up. Mininet is loaded only for this."""
    from scenarios.lab.mininet_view import LabCLI, mininet_of

    os.environ["PATH"] = tool_path()  # Mininet looks up programs there
    network = mininet_of(labdir, fabric)
    try:
        with keyboard_interrupts():
            LabCLI(network)
    finally:
        network.stop()
    echo_aside(f"lab {labdir.lab} is still up; `{labdir.down_command}` ends it")


@click.command("down")
@of_lab
@with_output
def down_command(labdir: LabDir, output: Output) -> None:
    """Take the lab down and remove everything that belongs to it. Does no harm if it is not up; touches nothing
    else.
    """
    require_root()
    if run_going_on(labdir):
        output.say(f"a run is going on in lab {labdir.lab}; it ends with the lab")
    captures = end_captures(labdir)
    removed = take_down(labdir)
    if output.as_json:
        output.document(vars(removed) | {"captures": captures})
        return
    if captures:
        print_captures(output, captures)
    output.text(_told(removed))
    for flaw in filter(None, map(flaw_of, captures)):
        echo_aside(f"spraylab: {flaw}")


def end_captures(labdir: LabDir) -> tuple[CaptureState, ...]:
    """Return captures started by hand; none if there were none, or the owner does not answer."""
    process = owner_of(labdir)
    if process is None or is_stopped(process):
        return ()  # `take_down` is to wait for it once only
    with suppress(ScenariosError), Owner(labdir) as owner:
        if owner.ask(Status(), LabStatus).captures:
            return owner.ask(CaptureStop(), Captures).captures
    return ()


def _told(removed: Removed) -> str:
    if not removed.was_up:
        return f"lab {removed.lab} is not up; nothing to remove"
    if removed.by_owner and not removed.processes and not removed.namespaces:
        return f"lab {removed.lab} is down"
    namespaces = count_text(removed.namespaces, "namespace")
    processes = count_text(removed.processes, "process", "processes")
    return f"lab {removed.lab} is down; {_OWNER[removed.owner]}, removed {namespaces} and {processes} that were left"


_OWNER = {
    OwnerEnd.ORDERLY: "its owner ended",
    OwnerEnd.KILLED: "its owner did not answer and was killed",
    OwnerEnd.BUILDING: "its owner was building it, or taking it down, and was stopped",
    OwnerEnd.GONE: "its owner was gone",
    OwnerEnd.NONE: "it had no owner",
}
