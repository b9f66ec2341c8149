"""Runs a module of this copy of spraylab: `python -I PLACE/scenarios/isolated.py MODULE ARGUMENTS...`.

The interpreter is isolated: neither the current folder nor PYTHONPATH nor a user's site-packages is searched. The
program's own folders come from the place of this file, so each clone runs its own code, installed or not.
"""

import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.records.source_hash import SourceCode

_FILE = os.path.abspath(__file__)

CODE_FOLDER = os.path.dirname(os.path.dirname(_FILE))
"""Folder of this copy of the program: a clone, or site-packages."""

OWN_PACKAGES = ("testbed", "agent", "faults", "results", "scenarios")
"""Packages of the program."""


class _OwnPlace:
    """Finds the program's own packages in `CODE_FOLDER`, before any other finder."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the place of a package; None for what is not ours."""
        if name not in OWN_PACKAGES:
            return None
        folder = os.path.join(CODE_FOLDER, name)
        return spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])


def isolated_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs a module of this copy of the program."""
    return (sys.executable, "-I", _FILE, module, *arguments)


@cache
def own_code() -> "SourceCode":
    """Identify this copy of the program. Reads it once, as early as the caller can, because files may change later."""
    from pathlib import Path

    from results.records.source_hash import source_code

    return source_code(Path(CODE_FOLDER), OWN_PACKAGES)


def isolate() -> None:
    """Restart the command line isolated, unless this interpreter is; only for the very start of the program."""
    if not sys.flags.isolated:
        os.execv(sys.executable, isolated_command("scenarios.cli", *sys.argv[1:]))


def _run(arguments: list[str]) -> None:
    import runpy

    sys.meta_path.insert(0, _OwnPlace)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(sys.argv[1:])
