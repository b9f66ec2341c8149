"""Finds the file that a scenario name means: one of the catalog, or a path."""

import difflib
import os
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from results.errors import TooLargeError
from results.files.reading import read_limited
from results.files.yaml_document import MOST_BYTES
from scenarios.errors import EnvironmentLackingError, UsageError

CATALOG = Path(__file__).parents[1] / "catalog"

STUDIES = CATALOG / "studies"

_MOST_NAMED = 5
"""Most files of a folder in a message (our choice)."""


def catalog_names() -> tuple[str, ...]:
    """Return names of the scenarios that come with the program."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.yaml")))


def study_names() -> tuple[str, ...]:
    """Return names of the studies that come with the program."""
    return tuple(sorted(path.stem for path in STUDIES.glob("*.yaml")))


def is_a_folder(path: Path, wanted: str) -> str:
    """Report a folder in place of a `wanted` file, and list files in it that may be meant."""
    inside = sorted(each for each in path.glob("*.y*ml") if each.is_file())
    named = ", ".join(map(str, inside[:_MOST_NAMED])) + (", ..." if len(inside) > _MOST_NAMED else "")
    return f"is a folder, not {wanted} file; " + (f"in it: {named}" if named else "no YAML file is in it")


def looked_up(path: Path) -> os.stat_result | None:
    """Return what a path leads to; None where nothing is there.

    Raises OSError, which names the path, where that cannot be seen: links in a circle, a folder that may not be
    entered, a file in a folder's place, a name too long. `Path.is_file` takes most of them for nothing.
    """
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def is_file(path: Path) -> bool:
    """Return the same as `Path.is_file`. Raises OSError as `looked_up`."""
    found = looked_up(path)
    return found is not None and S_ISREG(found.st_mode)


def is_folder(path: Path) -> bool:
    """Return the same as `Path.is_dir`. Raises OSError as `looked_up`."""
    found = looked_up(path)
    return found is not None and S_ISDIR(found.st_mode)


def require_a_name(text: str, such_as: str) -> None:
    """Refuse an empty name, as of "$UNSET", which as a path would be the current folder. Raises `UsageError`."""
    if not text:
        raise UsageError(f"the name is empty; name {such_as}")


def question_of(path: Path) -> str:
    """Return the question of a catalog file, from the comment that it begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
    return comment.partition("Question:")[2].partition("Expectation:")[0].strip()


def catalog_text(files: Iterable[Path]) -> str:
    """Return names and questions of a catalog, a line each."""
    named = {path.stem: question_of(path) for path in sorted(files)}
    width = max(map(len, named), default=0)
    return "\n".join(f"  {name:{width}}  {question}" for name, question in named.items())


def find_scenario(text: str | None) -> Path:
    """Return the file for a catalog name or a path.

    Raises `UsageError` with near names, or with the catalog for None; OSError as `looked_up`.
    """
    if text is None:
        raise UsageError(f"name a scenario: a file, or one of the catalog\n{catalog_text(CATALOG.glob('*.yaml'))}")
    require_a_name(text, f"one of the catalog ({', '.join(catalog_names())}), or a file")
    if text in catalog_names():
        return CATALOG / f"{text}.yaml"
    path = Path(text)
    if is_file(path):
        return path
    if is_folder(path):
        raise UsageError(f"{text} {is_a_folder(path, 'a scenario')}")
    if looked_up(path):
        raise UsageError(f"{text} is not a regular file, not a scenario file")
    if path.is_symlink():
        raise UsageError(f"{text} is a link to {os.readlink(path)}, which is not there")
    if path.suffix in (".yaml", ".yml") or path.parent != Path():
        raise UsageError(f"there is no file {text}")
    if text in study_names():
        raise UsageError(f"{text} is a study, not a scenario; run it by `spraylab study {text}`")
    near = difflib.get_close_matches(text, catalog_names(), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the catalog has {', '.join(catalog_names())}"
    raise UsageError(f"there is no scenario {text!r}; {hint}")


_OWN = Path(__file__).parents[1].resolve()
"""Folder of the program's files, which the user behind sudo may be unable to read; others are read with this
user's rights.
"""


def read_text(path: Path) -> str:
    """Return the text of a YAML file.

    Raises `UsageError` for one that is too large or, with the line, not UTF-8; `EnvironmentLackingError` for one that
    cannot be read.
    """
    try:
        real = path.resolve()
        data = real.read_bytes() if real.is_relative_to(_OWN) else read_limited(path, MOST_BYTES)
        return data.decode()
    except TooLargeError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise EnvironmentLackingError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        odd = data[error.start]
        raise UsageError(f"{path}:{line}: byte {odd:#04x} is not UTF-8; save the file as UTF-8") from error
