"""Errors between an engine and a port.

PortError     PortOpenError    a ring could not be opened on an interface; says where and what the kernel answered
"""


class PortError(Exception):
    """Base of all exceptions of `agent.io`."""


class PortOpenError(PortError):
    """A frame port could not be opened.

    `interface` and `netns` say where, `reason` what the kernel answered.
    """

    def __init__(self, interface: str, netns: str | None, reason: str) -> None:
        super().__init__(f"cannot open {interface} in {netns or 'this network namespace'}: {reason}")
        self.interface = interface
        self.netns = netns
        self.reason = reason
