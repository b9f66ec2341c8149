"""Errors of the transport core that a caller can cause.

Bad frames are never exceptions: they are counted. Source: docs/transport.md.

    CoreError
    ├── ConfigError       a setting outside its range (several at once in `problems`)
    ├── StateError        a verb or transition that the queue pair's state does not allow
    │   └── ProfileStateError    the same for an EV profile
    └── RegionError       memory that is not registered, or not inside its region
"""


class CoreError(Exception):
    """Base of every exception raised by agent.core."""


class ConfigError(CoreError):
    """Settings outside their range; `problems` lists all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class StateError(CoreError):
    """The queue pair is in `state`, which does not allow `asked`."""

    whose = "queue pair"

    def __init__(self, state: str, asked: str) -> None:
        super().__init__(f"{self.whose} is in {state}, which does not allow {asked}")
        self.state = state
        self.asked = asked


class ProfileStateError(StateError):
    """The EV profile is in `state`, which does not allow `asked`."""

    whose = "EV profile"


class RegionError(CoreError):
    """Bytes are outside a registered region, or a key is registered twice or not at all."""
