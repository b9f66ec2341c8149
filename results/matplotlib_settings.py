"""Loads matplotlib with only our settings, whatever the user, the current folder or the environment configure.

Import this before any other module that imports matplotlib, because matplotlib reads its settings on import.
"""

import gc
import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from testbed.root_environment import tool_path

_ENVIRONMENT = {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
"""Environment in which matplotlib loads; its settings file replaces all others but a `matplotlibrc` in the current
folder.
"""

_OF_WINDOWS = ("backend", "backend_fallback", "interactive", "toolbar")
"""Settings of windows, which change no figure in a file; setting a backend would load it."""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Make the root folder the current one, with an environment that names no file of a user."""
    kept = os.environ.copy()
    os.environ.update(_ENVIRONMENT | {"PATH": tool_path()})  # it starts fc-list
    if os.geteuid() == 0:  # fonts are remembered in root's home, not in that of a user whose HOME sudo has kept
        os.environ["MPLCONFIGDIR"] = os.path.join(pwd.getpwuid(0).pw_dir, ".cache", "matplotlib")
    here = os.open(".", os.O_PATH | os.O_CLOEXEC)
    os.chdir("/")
    try:
        yield
    finally:
        with suppress(OSError):
            os.fchdir(here)
        os.close(here)
        os.environ.clear()
        os.environ.update(kept)


def _load() -> Any:
    if "matplotlib" in sys.modules:  # of a program that draws itself; `own_settings` sets all that matters
        return sys.modules["matplotlib"]
    with _undisturbed():
        import_module("matplotlib.figure")  # with all that it reads: settings and fonts
        return import_module("matplotlib")


matplotlib = _load()


@contextmanager
def own_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Return a context in which figures use only matplotlib's defaults and `settings`.

    Python's collector rests meanwhile: it took a fifth of the time, since it looks at the thousands of parts that a
    figure has again and again.
    """
    defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if name not in _OF_WINDOWS}
    collecting = gc.isenabled()
    gc.disable()
    try:
        with matplotlib.rc_context(defaults | dict(settings)):
            yield
    finally:
        if collecting:
            gc.enable()
