"""What can go wrong in the host agent process.

HostError
    SettingsError    the settings file does not say what it must; `path` and `reason`
    RequestError     a control request that cannot be served; becomes {"ok": false, "error": ...}
    ProgramError     a program on a host cannot go on; becomes its result
"""


class HostError(Exception):
    """Base of everything `agent.host` raises."""


class SettingsError(HostError):
    """The settings file cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RequestError(HostError):
    """A control request asks for what is not there or not allowed."""


class ProgramError(HostError):
    """What a program waits for has failed or cannot come."""
