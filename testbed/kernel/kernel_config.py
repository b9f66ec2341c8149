"""Options that the running kernel was built without, from its configuration if readable. Needs no rights."""

import gzip
import os
from pathlib import Path


def lacks_option(option: str, places: tuple[Path, ...] | None = None) -> bool:
    """Report whether an option, as `CONFIG_NET_SCH_NETEM`, is neither built in nor a module.

    False if the configuration cannot be read.
    """
    config = _config(_places() if places is None else places)
    return bool(config) and not any(line in config for line in (f"{option}=y", f"{option}=m"))


def _places() -> tuple[Path, ...]:
    return Path("/proc/config.gz"), Path("/boot") / f"config-{os.uname().release}"


def _config(places: tuple[Path, ...]) -> frozenset[str]:
    """Return the lines of the first readable file; empty without one."""
    for place in places:
        try:
            content = place.read_bytes()
            text = gzip.decompress(content) if place.suffix == ".gz" else content
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        return frozenset(text.decode(errors="replace").splitlines())
    return frozenset()
