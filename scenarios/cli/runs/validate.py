"""Checks a scenario file and shows what a run of it would do: `spraylab validate`."""

import click

from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import scenarios_like, with_output
from scenarios.cli.output import Output
from scenarios.errors import ScenarioRefusedError
from scenarios.file.scenario_files import find_scenario


@click.command("validate")
@click.argument("file", required=False, metavar="FILE", shell_complete=scenarios_like)
@with_output
@click.pass_context
def command(context: click.Context, file: str | None, output: Output) -> None:
    """Check a scenario FILE (or catalog name) and show what a run would do and detect. Starts nothing.

    Exits with 1 when a check of the run is sure to fail; warnings alone do not change the code.
    """
    from scenarios.cli.runs.plan_lines import plan_document, plan_lines
    from scenarios.file.load import load_scenario
    from scenarios.file.plan import plan_of
    from scenarios.run.judge.plan_warnings import failures_of

    try:
        plan = plan_of(load_scenario(find_scenario(file)))
    except ScenarioRefusedError as error:
        if not output.as_json:
            raise
        output.document({"ok": False, "problems": [vars(problem) for problem in error.problems]})
        context.exit(ExitCode.USAGE)
    failures = tuple(failures_of(plan))
    if output.as_json:
        scenario = plan.scenario.model_dump(mode="json")
        output.document({"ok": not failures, "scenario": scenario, "plan": plan_document(plan), "fails": failures})
    else:
        for line in plan_lines(plan, failures):  # as they are worked out, which takes long of a large plan
            output.text(line)
    context.exit(ExitCode.CHECK_FAILED if failures else ExitCode.OK)
