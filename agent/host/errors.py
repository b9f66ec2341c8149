"""Errors of the host agent process.

HostError
├── SettingsError    the settings file is wrong; `path` and `reason`
├── RequestError     a control request that cannot be served; becomes {"ok": false, "error": ...}
└── ProgramError     a program on a host cannot continue; becomes its result
"""


class HostError(Exception):
    """Base of all exceptions of `agent.host`."""


class SettingsError(HostError):
    """The settings file cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RequestError(HostError):
    """A control request names what does not exist or is not allowed."""


class ProgramError(HostError):
    """A condition that a program waits for has failed or can no longer occur."""
