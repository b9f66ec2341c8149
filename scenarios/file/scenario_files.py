"""Which file a scenario name means: one of the catalog, or a path."""

import difflib
from pathlib import Path

from scenarios.errors import UsageError

CATALOG = Path(__file__).parents[1] / "catalog"


def catalog_names() -> tuple[str, ...]:
    """Names of the scenarios that come with the program."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.yaml")))


def find_scenario(text: str) -> Path:
    """The file for a catalog name or a path. Raises `UsageError` with near names."""
    if text in catalog_names():
        return CATALOG / f"{text}.yaml"
    path = Path(text)
    if path.is_file():
        return path
    if path.exists() and (path.parent != Path() or path.suffix in (".yaml", ".yml") or not path.is_dir()):
        raise UsageError(f"{text} is {'a folder' if path.is_dir() else 'not a regular file'}, not a scenario file")
    if path.suffix in (".yaml", ".yml") or path.parent != Path():
        raise UsageError(f"there is no file {text}")
    near = difflib.get_close_matches(text, catalog_names(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the catalog has {', '.join(catalog_names())}"
    raise UsageError(f"there is no scenario {text!r}; {hint}")
