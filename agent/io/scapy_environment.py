"""Environment in which Scapy reads and writes no files of a user. Otherwise root would run a user's startup file.

Call this before Scapy is imported. Sources: scapy/main.py, scapy/config.py.
"""

import os

_NOWHERE = "/dev/null/none"

HOMELESS = {
    "HOME": "/",
    "XDG_CONFIG_HOME": _NOWHERE,  # prestart.py and startup.py
    "XDG_CACHE_HOME": _NOWHERE,  # pickles
    "XDG_DATA_HOME": _NOWHERE,
    "SCAPY_HISTFILE": "/dev/null",
}
"""Environment of a process that loads Scapy."""


def leave_home() -> None:
    """Make Scapy load in this process without files of any user."""
    os.environ.update(HOMELESS)
