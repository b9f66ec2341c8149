"""Where Scapy may look for files of a user, and keep some: nowhere. Otherwise root would run a user's startup file.

To be called before Scapy is imported. Sources: scapy/main.py, scapy/config.py.
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
"""Environment of a process that is to load Scapy."""


def leave_home() -> None:
    """Let this process load Scapy without files of any user."""
    os.environ.update(HOMELESS)
