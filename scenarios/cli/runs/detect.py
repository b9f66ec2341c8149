"""Shows what SprayCheck reports, so far or live, or reported in a finished run: `spraylab detect`."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from results.detect_log import DETECT_LINES
from results.errors import RunFolderError
from results.files.event_log import Tail
from results.files.reading import checked_records
from results.files.run_dir import RunDir
from results.text import count_text, open_sets, suspects_text, untimely_text
from scenarios.cli.options import of_lab, require_root, with_output
from scenarios.cli.output import Output
from scenarios.cli.runs.folders import find_run, require_run, runs_like, runs_option
from scenarios.errors import LabStateError, OwnerFailedError, UsageError
from scenarios.lab.client import Owner, not_up
from scenarios.lab.lab_dir import LabDir, read_state
from scenarios.lab.processes import is_alive, is_stopped, stays_stopped, stopped_text
from scenarios.lab.protocol import RUNNING, STOPPED, LabStatus, Status

POLL_S = 0.2

SPRAYCHECK = "spraycheck"
"""Name of the monitor's process, as in `scenarios.lab.start.deploy`; leaves' own processes have it as a prefix.
Importing that module takes long.
"""


@click.command("detect")
@click.argument("run", required=False, shell_complete=runs_like)
@click.option("--follow", is_flag=True, help="Continue until the lab is down or Ctrl-C.")
@click.option("--all", "everything", is_flag=True, help="Also show healthy and insufficient paths.")
@click.option("--all-runs", is_flag=True, help="Show every kept run since `up`, not only the latest.")
@runs_option
@of_lab
@with_output
@click.pass_context
def command(
    context: click.Context,
    labdir: LabDir,
    output: Output,
    run: str | None,
    follow: bool,
    everything: bool,
    all_runs: bool,
    runs: Path,
) -> None:
    """Show verdicts and named links of RUN (a folder, a name or `latest`), default the latest.

    The default is the latest run in the lab that is up (needs root), or else the latest run folder.
    --json prints the records as JSON Lines.
    """
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    of_lab_only = sorted(given & {"follow", "all_runs", "lab"})
    if run is not None or "runs" in given:
        if of_lab_only:
            raise UsageError(f"--{of_lab_only[0].replace('_', '-')} applies to the lab that is up, not to the folder of a run")
        _print_folder(require_run(find_run(run, runs)), output, everything)
    elif of_lab_only or read_state(labdir) is not None:
        _of_lab(labdir, output, follow, everything, all_runs)
    else:
        folder = _latest_folder(labdir, runs)
        output.say(f"no lab is up; of {folder.path}:")
        _print_folder(folder, output, everything)


def _latest_folder(labdir: LabDir, runs: Path) -> RunDir:
    """Return the latest run folder if no lab is up. Raises `LabStateError` if there is no run, either."""
    try:
        return require_run(find_run(None, runs))
    except UsageError as error:
        raise LabStateError(f"{not_up(labdir)}, and {error}") from error


def _print_folder(folder: RunDir, output: Output, everything: bool) -> None:
    """Read the records of a run's folder. Raises RunFolderError if there are none, or in an unknown format."""
    try:
        records = list(checked_records(folder.detect, DETECT_LINES))
    except FileNotFoundError as error:
        why = "the run ended before that"
        raise RunFolderError(f"{folder.path} has no {folder.detect.name}: {why}") from error
    printed = _print(records, output, everything)
    if not printed:
        output.say(_nothing("no verdicts", records) if records else f"{folder.detect} is empty: it has no verdict")


def _of_lab(labdir: LabDir, output: Output, follow: bool, everything: bool, all_runs: bool) -> None:
    require_root()
    if read_state(labdir) is None:
        raise LabStateError(f"{not_up(labdir)}; of a run that is over: `spraylab detect latest`")
    tail = Tail(labdir.detect, labdir.older_detect)
    records = list(tail.fresh())
    if not all_runs:
        records = latest_run(records)
    printed, lives = _print(records, output, everything), _lives(labdir)
    if not printed:
        output.say(_nothing("no verdicts yet", records))
    while lives and follow:
        time.sleep(POLL_S)
        _print(tail.fresh(), output, everything)
        lives = _lives(labdir)
    _print(tail.fresh(), output, everything)


def _nothing(told: str, records: Iterable[dict[str, Any]]) -> str:
    healthy = any(record["event"] == "DETECT" for record in records)
    return told + (", other than healthy ones (--all shows those)" if healthy else "")


def _lives(labdir: LabDir) -> bool:
    """Return whether more may come; False when the lab went down in order. Raises `LabStateError` when a process
    has died.
    """
    state = read_state(labdir)
    if state is None:
        return False
    if not is_alive(state.owner):
        if read_state(labdir) is None:
            return False
        raise LabStateError(not_up(labdir))
    if is_stopped(state.owner):
        raise LabStateError(stopped_text(f"the owner of lab {labdir.lab!r}", state.owner))
    detector = {child.name: child.process for child in state.children if child.name.startswith(SPRAYCHECK)}
    for name, process in detector.items():
        if stays_stopped(process):
            who = "SprayCheck" if name == SPRAYCHECK else name
            raise LabStateError(f"{stopped_text(f'{who} of lab {labdir.lab!r}', process)}; no verdicts come until then")
    if detector and all(map(is_alive, detector.values())):
        return True
    try:
        with Owner(labdir) as owner:  # it knows whether SprayCheck is being started anew just now
            children = owner.ask(Status(), LabStatus).children
    except (LabStateError, OwnerFailedError):
        return True  # it has begun to take the lab down
    states = {child.name: child.state for child in children if child.name.startswith(SPRAYCHECK)}
    dead = {name: state for name, state in states.items() if state not in (RUNNING, STOPPED)}
    if dead or not states:
        first = min(dead, default=SPRAYCHECK, key=lambda name: name == SPRAYCHECK)  # the monitor ends after a leaf's
        raise LabStateError(
            f"SprayCheck of lab {labdir.lab!r} is dead ({_ends_text(dead)}), no more verdicts will come; "
            f"see {labdir.log(first)}; `{labdir.down_command}` and up again"
        )
    return True


def _ends_text(dead: Mapping[str, str]) -> str:
    """State how processes ended, by name unless it is the one for all leaves."""
    if not dead:
        return "not running"
    return ", ".join(
        state if len(dead) == 1 and name == SPRAYCHECK else f"{name} {state}" for name, state in dead.items()
    )


def latest_run(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records of the newest run that has any, after earlier denials that are still in force."""
    latest = max((record["epoch"] for record in records if "epoch" in record), default=None)
    denied: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["event"] == "DENY" and record["epoch"] != latest:
            denied[record["link"]] = record
        elif record["event"] == "ALLOW":
            denied.pop(record["link"], None)
    return [*denied.values(), *(record for record in records if record.get("epoch") == latest)]


def lines_of(records: Iterable[dict[str, Any]], everything: bool) -> Iterator[str]:
    """Select the records to show. Without `everything`, healthy paths are left out and many others are summed."""
    unsure, links = Counter[tuple[int, str, str]](), defaultdict[tuple[int, str], set[str]](set)
    for record in map(_OLDER.__or__, records):
        if _is_unsure(record) and not everything:
            unsure[record["epoch"], record["expectation"], record["reason"]] += 1
        elif _is_healthy_link(record) and not everything:
            links[record["epoch"], record["expectation"]].add(record["link"])
        elif (text := _line(record, everything)) is not None:
            yield text
    for (epoch, expectation, reason), count in unsure.items():
        told = count_text(count, "verdict of one flow on a path", "verdicts of one flow on a path")
        yield f"run {epoch}  {expectation}  {told} insufficient: {reason} (--all shows each)"
    for (epoch, expectation), healthy in links.items():
        yield f"run {epoch}  {expectation}  {count_text(len(healthy), 'link')} healthy (--all shows each)"


def _is_unsure(record: dict[str, Any]) -> bool:
    return (record["event"], record.get("verdict")) == ("DETECT", "insufficient")


def _is_healthy_link(record: dict[str, Any]) -> bool:
    return (record["event"], record.get("verdict")) == ("LINK", "healthy")


def _print(records: Iterable[dict[str, Any]], output: Output, everything: bool) -> int:
    """Print the selected records; return how many there were."""
    wanted = [record for record in records if _line(_OLDER | record, everything) is not None]
    if output.as_json:
        for record in wanted:
            output.line(record)
    else:
        for text in lines_of(wanted, everything):
            output.text(text)
    return len(wanted)


_OLDER: dict[str, Any] = {"expectation": "uniform", "common": [], "common_candidates": [], "deciding": []}
"""Values that older run folders lack, as they were then."""

_ACTS = {"DENY": "is denied", "ALLOW": "is allowed again", "DENY_REFUSED": "would leave too few links, not denied"}
"""Words for the controller's actions."""


def _line(record: dict[str, Any], everything: bool) -> str | None:
    if record["event"] == "DETECT" and (everything or record["verdict"] != "healthy"):
        return f"{record['ts']}  run {record['epoch']}  {record['expectation']}  {_verdict(record)}"
    if record["event"] == "UNMEASURED":
        return f"{record['ts']}  run {record['epoch']}  {_refusal(record)}"
    if record["event"] in _ACTS:
        return f"{record['ts']}  run {record['epoch']}  {record['link']} {_ACTS[record['event']]} by {record['by']}"
    if record["event"] == "PATH" and everything:
        return f"{record['ts']}  run {record['epoch']}  {record['expectation']}  {_path(record)}"
    if record["event"] == "LINK":
        return f"{record['ts']}  run {record['epoch']}  {record['expectation']}  {_link(record)}"
    if record["event"] == "LOCALIZE":
        return f"{record['ts']}  run {record['epoch']}  {record['expectation']}  {_accusation(record)}"
    return None


def _refusal(record: dict[str, Any]) -> str:
    return f"{record['node']}: {_flow(record)} is not measured: {record['reason']}"


def _flow(record: dict[str, Any]) -> str:
    """Name a flow by hosts and the destination's queue pair."""
    return f"h{record['src_host']}>h{record['dst_host']} (queue pair {record['qpn']:#x})"


def _verdict(record: dict[str, Any]) -> str:
    path = f"p{record['plane']}:leaf{record['src_leaf']}>spine{record['spine']}>leaf{record['dst_leaf']}"
    expected = f"{'expected' if record['expectation'] == 'uniform' else 'sent'} {record['lambda']:,.0f}"
    if record["threshold"] is not None:
        expected += f", threshold {record['threshold']:,.1f}"
    said = f"{record['verdict']}: {count_text(record['count'], 'packet')}, {expected}{_reason(record)}"
    return f"{record['node']}: {path} of {_flow(record)} {said}"


_BY = {"flow": "", "flows": ", by several flows together", "links": ", by all flows over its links"}
"""Words for the basis of the conclusion on a path."""


def _path(record: dict[str, Any]) -> str:
    path = f"p{record['plane']}:leaf{record['src_leaf']}>spine{record['spine']}>leaf{record['dst_leaf']}"
    sent = f"{count_text(round(record['lambda']), 'packet')} of {count_text(record['flows'], 'flow')}"
    return f"path {path} {record['verdict']}{_BY.get(record['by'], '')}: {record['count']:,} of {sent}{_reason(record)}"


def _link(record: dict[str, Any]) -> str:
    text = f"link {record['link']} {record['verdict']}"
    if record.get("sent"):
        sent = f"{count_text(record['sent'], 'packet')} of {count_text(record['flows'], 'flow')}"
        text += f": {record['lost']:,} of {sent} lost"
    return text + _reason(record)


def _reason(record: dict[str, Any]) -> str:
    return f" ({record['reason']})" if record.get("reason") else ""


def _accusation(record: dict[str, Any]) -> str:
    named = ", ".join(record["links"])
    unsettled = "; ".join(open_sets(record["candidates"], record.get("fewest", [])))
    owed = f", {count_text(record['pending'], 'verdict')} still pending" if record["pending"] else ""
    parts = (named, unsettled, *_common(record), *_untimely(record), *_deciding(record))
    return f"{record['state'].upper()} {'; '.join(filter(None, parts)) or 'no link'}{owed}"


def _common(record: dict[str, Any]) -> Iterator[str]:
    """Describe the cause of equal losses on all paths."""
    yield from (f"all paths alike: {cause}" for cause in record["common"])
    yield from (f"all paths alike: {suspects_text(causes)}" for causes in record["common_candidates"])


def _untimely(record: dict[str, Any]) -> Iterator[str]:
    if untimely := record.get("untimely"):
        yield untimely_text(len(untimely))


def _deciding(record: dict[str, Any]) -> Iterator[str]:
    """Suggest flows to send next; while verdicts are pending, they may already suffice."""
    if record["pending"]:
        return
    for flow in record["deciding"]:
        length = f" with {count_text(flow['packets'], 'packet')} a path" if flow["packets"] else ""
        yield f"a flow from leaf{flow['src_leaf']} to leaf{flow['dst_leaf']}{length} would decide"
