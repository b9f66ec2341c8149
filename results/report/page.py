"""Writes the report of a run: one HTML file that needs nothing else, and its figures as files."""

import re
from collections.abc import Callable
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from results.naming import naming
from results.report import (
    arrivals_figure,
    fabric_figure,
    reordering_figure,
    style,
    tables,
    timeline_figure,
    words,
)
from results.report.run_data import RunData, read_run
from results.run_dir import RunDir


def write_report(run: RunDir, told: Callable[[str], object] | None = None) -> RunData:
    """Read a run's folder and write `report.html` and `figures/` into it; `told` of each step.

    Raises OSError when it cannot be written.
    """
    tell = told or (lambda _: None)
    tell(f"1 of 3: reading {run.path}")
    data = read_run(run)
    tell(f"2 of 3: drawing figures of {sum(data.agents.events.values()):,} records of agents")
    drawn = figures_of(data)
    tell("3 of 3: writing them and the page")
    style.save(drawn, run.figures)
    with naming(run.report):
        run.report.write_text(page_of(data, drawn), encoding="utf-8")
    return data


def figures_of(data: RunData) -> list[style.Drawn]:
    """All figures, in the order of the page."""
    return [
        fabric_figure.draw(data),
        *arrivals_figure.draw(data),
        timeline_figure.draw(data),
        reordering_figure.draw(data),
    ]


def page_of(data: RunData, drawn: list[style.Drawn]) -> str:
    """The report as HTML."""
    told: dict[str, Callable[[RunData], tables.Table]] = {
        "checks": tables.checks,
        "broken": tables.broken,
        "witnesses": tables.witnesses,
        "lost_paths": tables.lost_paths,
        "flows": tables.flows,
        "machine": tables.machine,
    }
    environment = data.environment
    return rendered(
        "report.html.j2",
        title=str(data.scenario.get("name") or data.name),
        description=data.scenario.get("description") or "",
        sentence=words.sentence_of(data),
        facts=words.facts_of(data),
        problems=data.problems,
        figures={figure.name: figure for figure in drawn},
        repeats=environment.repeats_with_seed if environment else (),
        varies=environment.varies if environment else (),
        scenario_text=data.scenario_text,
        run=data.name,
        **{name: table_of(data) for name, table_of in told.items()},
    )


def _breakable(text: str) -> Markup:
    """Text that may go on in a new line after a comma, too, so that `p=1%,r=20%,bad=80%` makes no table wide."""
    return Markup("<wbr>").join(re.split(r"(?<=,)(?=[^\d\s])", text))


def rendered(template: str, **values: object) -> str:
    """A template of this folder filled in, with the style sheet as `css`."""
    environment = Environment(
        loader=PackageLoader("results", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    css = files("results.report").joinpath("style.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(css=css, **values).lstrip()
