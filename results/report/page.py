"""Writes the report of a run: one self-contained HTML file, and its figures as files."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import results.matplotlib_settings  # noqa: F401 - it loads matplotlib, before figures import it
from results.files.run_dir import RunDir
from results.files.user_files import write_file
from results.report import (
    arrivals_figure,
    fabric_figure,
    reordering_figure,
    scales,
    sentences,
    style,
    tables,
    timeline_figure,
)
from results.report.run_data import RunData, read_run

FIGURES = (
    fabric_figure.NAME,
    arrivals_figure.PAIRS_NAME,
    arrivals_figure.ALL_NAME,
    timeline_figure.NAME,
    reordering_figure.NAME,
)
"""Names of a report's figures, in the order of the page."""
COLUMN = "-column"
"""Suffix of a figure's file whose width is a column."""
COLUMN_FORMATS = ("svg", "pdf")
"""File formats of figures with the width of a column; papers need no PNG, which costs as much as a figure."""
FILES = (*FIGURES, *(f"{name}{COLUMN}" for name in FIGURES))
"""Names of the files in `figures/`, each in some of `style.FORMATS`."""

_INTERVAL = r"\([\d.]+% to [\d.]+%\)"


def write_report(run: RunDir, told: Callable[[str], object] | None = None, for_paper: bool = True) -> RunData:
    """Read a run's folder and write `report.html` and `figures/` into it; `told` is called with the text of each step.

    Without `for_paper` there are no PDF files and none as wide as a column, which take most of the time. Raises OSError
    when something cannot be written.
    """
    tell = told or (lambda _: None)
    tell(f"1 of 3: reading {run.path}")
    data = read_run(run)
    tell(f"2 of 3: drawing figures of {sum(data.agents.events.values()):,} records of agents")
    drawn, columns = figures_of(data), figures_of(data, style.COLUMN_IN)
    tell("3 of 3: writing them and the page")
    if for_paper:
        style.save(drawn, run.figures, style.FORMATS)
        style.save(columns, run.figures, COLUMN_FORMATS, COLUMN)
    else:
        style.save(drawn, run.figures, ("svg", "png"))
    write_file(run.report, page_of(data, drawn, columns).encode())
    return data


def figures_of(
    data: RunData, width_in: float = style.WIDTH_IN, shared: scales.Reaches | None = None
) -> list[style.Drawn]:
    """Draw all figures in the order of the page; axes fit the run, or follow `shared`."""
    reach = {**reaches_of(data), **(shared or {})}
    if shared is not None:
        reach |= {each: replace(reach[each], own=True) for each in reach if each not in shared}
    return [
        fabric_figure.draw(data, width_in),
        *arrivals_figure.draw(data, width_in, reach),
        timeline_figure.draw(data, width_in, reach),
        reordering_figure.draw(data, width_in, reach),
    ]


def reaches_of(data: RunData, end: float | None = None) -> scales.Reaches:
    """Return the ranges of a run's axes; `end` is the last time that figures show, if not the run's own."""
    return arrivals_figure.reaches(data) | timeline_figure.reaches(data, end) | reordering_figure.reaches(data)


def shared_by(runs: Sequence[RunData]) -> scales.Reaches:
    """Return axis ranges that all runs share."""
    found = scales.shared([reaches_of(run) for run in runs])
    time = found.get(scales.Quantity.SECONDS)
    return found if time is None else scales.shared([reaches_of(run, time.high) for run in runs])


def page_of(data: RunData, drawn: list[style.Drawn], columns: Sequence[style.Drawn] = ()) -> str:
    """Render the report as HTML; `columns` holds the figures for a narrow window. Without them, wide figures scroll
    there.
    """
    told: dict[str, Callable[[RunData], tables.Table]] = {
        "checks": tables.checks,
        "broken": tables.broken,
        "witnesses": tables.witnesses,
        "lost_paths": tables.lost_paths,
        "collectives": tables.collectives,
        "flows": tables.flows,
        "machine": tables.machine,
        "environment": tables.environment,
    }
    environment = data.environment
    return rendered(
        "report.html.j2",
        title=str(data.scenario.get("name") or data.name),
        description=data.scenario.get("description") or "",
        sentence=sentences.sentence_of(data),
        facts=sentences.facts_of(data),
        arrivals=sentences.arrivals_of(data),
        problems=data.problems,
        figures={figure.name: figure for figure in drawn},
        columns={figure.name: figure for figure in columns},
        repeats=environment.repeats_with_seed if environment else (),
        varies=environment.varies if environment else (),
        scenario_text=data.scenario_text,
        run=data.name,
        **{name: table_of(data) for name, table_of in told.items()},
    )


def _breakable(text: str) -> Markup:
    """Let text break after a comma, too (`p=1%,r=20%`), but not within an interval (`(1% to 2%)`)."""
    parts = re.split(rf"({_INTERVAL})", text)
    free = [Markup("<wbr>").join(re.split(r"(?<=,)(?=[^\d\s])", part)) for part in parts[::2]]
    whole = [Markup('<span class="whole">{}</span>').format(part) for part in parts[1::2]] + [Markup("")]
    return Markup("").join(part for pair in zip(free, whole, strict=True) for part in pair)


def rendered(template: str, **values: object) -> str:
    """Render a template of this folder."""
    environment = Environment(
        loader=PackageLoader("results", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template(template).render(**values).lstrip()
