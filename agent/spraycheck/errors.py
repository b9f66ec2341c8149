"""Errors of SprayCheck's processes.

SprayCheckError
├── SettingsError      the settings file is missing or wrong
├── CountersError      the kernel refuses a map, or its layout is not ours
└── LeafProcessError   a leaf's own process has ended or does not answer
"""


class SprayCheckError(Exception):
    """Base of every error this folder raises on purpose."""


class SettingsError(SprayCheckError):
    """The settings file cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class CountersError(SprayCheckError):
    """A request about the map with kernel id `map_id` failed."""

    def __init__(self, map_id: int, reason: str) -> None:
        self.map_id, self.reason = map_id, reason
        super().__init__(f"map id {map_id}: {reason}")


class LeafProcessError(SprayCheckError):
    """The process of a leaf, which the message names, has ended or does not answer."""
