"""Loads a study file: a `Study`, or every problem in it at once; finds the catalog's studies by name."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from results.files.yaml_document import Document, read_document
from scenarios.errors import Problem, ScenarioRefusedError, UsageError
from scenarios.file.load import RANGES, is_echo
from scenarios.file.plan import Complaint
from scenarios.file.scenario_files import (
    STUDIES,
    catalog_names,
    catalog_text,
    is_a_folder,
    is_file,
    is_folder,
    read_text,
    require_a_name,
    study_names,
)
from scenarios.file.values import written
from scenarios.study.model import Study, study_complaints


def find_study(text: str | None) -> Path:
    """Return the file for a catalog name or a path. Raises `UsageError` with near names, or with the catalog for
    None.
    """
    if text is None:
        raise UsageError(f"name a study: a file, or one of the catalog\n{catalog_text(STUDIES.glob('*.yaml'))}")
    require_a_name(text, f"one of the catalog ({', '.join(study_names())}), or a file")
    if text in study_names():
        return STUDIES / f"{text}.yaml"
    if is_file(Path(text)):
        return Path(text)
    if is_folder(Path(text)):
        raise UsageError(f"{text} {is_a_folder(Path(text), 'a study')}")
    if text in catalog_names():
        raise UsageError(f"{text} is a scenario, not a study; run it by `spraylab run {text}`")
    near = difflib.get_close_matches(text, study_names(), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the catalog has {', '.join(study_names())}"
    raise UsageError(f"there is no study {text!r} and no such file; {hint}")


def load_study(path: Path, instead: Mapping[str, Any] | None = None) -> Study:
    """Load the study in `path`, with some keys overridden.

    Raises `ScenarioRefusedError` with all problems, `UsageError`, `EnvironmentLackingError`.
    """
    return study_from(read_text(path), str(path), instead or {})


def study_from(text: str, name: str, instead: Mapping[str, Any]) -> Study:
    """Load the study in `text`; errors name the file `name`."""
    document = read_document(text)
    options = options_of(instead)
    complaints = [Complaint(flaw.place, flaw.wrong, flaw.right) for flaw in document.flaws]
    study = None
    if not complaints:
        study, complaints = _checked(document.values, instead)
    if study is None or complaints:
        raise ScenarioRefusedError([_problem(each, document, name, options) for each in dict.fromkeys(complaints)])
    return study


OPTIONS = {
    "rates": "--rate", "packets": "--packets", "spines": "--spines", "spray": "--spray", "expectation": "--expectation",
    "loss_policy": "--loss-policy", "seeds": "--seeds", "healthy_seeds": "--seeds",
}  # fmt: skip
"""Options of the command line that override keys."""


def options_of(instead: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the option of an overridden key, to name it in errors."""
    options = {key: OPTIONS[key] for key in instead if key in OPTIONS}
    if "pairs" in instead:  # which rates or packets took the place of
        options[""] = " and ".join(OPTIONS[key] for key in ("rates", "packets") if instead.get(key))
    if "spines" in options:  # the product of both has a limit
        options.setdefault("packets", options["spines"])
    return options


def _problem(each: Complaint, document: Document, name: str, options: Mapping[str, str]) -> Problem:
    """Report a problem at the option that set the key, or at the line in the file."""
    key = str(each.place[0]) if each.place else ""
    if key in options:
        return Problem(options[key], "", each.wrong, each.right)
    return Problem(f"{name}:{document.line_of(each.place)}", ".".join(map(str, each.place)), each.wrong, each.right)


def _checked(values: Any, instead: Mapping[str, Any]) -> tuple[Study | None, list[Complaint]]:
    if not isinstance(values, Mapping):
        return None, [Complaint((), "this is not a study", "start with `version: 1`, one key a line")]
    try:
        study = Study.model_validate({**values, **instead})
    except ValidationError as error:
        return None, [_translated(detail) for detail in error.errors() if not is_echo(detail)]
    return study, list(study_complaints(study))


def _translated(detail: ErrorDetails) -> Complaint:
    place, kind, told = detail["loc"], detail["type"], detail["msg"]
    known = {name: field.description or "" for name, field in Study.model_fields.items()}
    key = str(place[0]) if place else ""
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(place[-1]), known, n=1)
        return Complaint(place, "unknown key", f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
    meaning = known.get(key) or "see docs/studies.md"
    if kind in RANGES:
        wrong, right = RANGES[kind]
        return Complaint(place, f"{written(detail['input'])} is {wrong}", right.format_map(detail["ctx"]))
    wrong, _, right = told.removeprefix("Value error, ").partition("; ")
    return Complaint(place, "missing" if kind == "missing" else wrong[0].lower() + wrong[1:], right or meaning)
