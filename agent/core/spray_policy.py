"""How a sender chooses among its entropy values."""

from enum import StrEnum

from agent.wire.constants import SprayPolicyCode


class SprayPolicy(StrEnum):
    """How first transmissions are spread over the entropy values; planes take turns in both."""

    ROTATION = "rotation"
    """Every EV once per rotation, in a pseudo-random order that is redrawn now and then (MRC 9.3.1)."""

    RANDOM = "random"
    """Planes in turn; inside the plane an independent uniform draw for every packet."""

    @property
    def code(self) -> SprayPolicyCode:
        """How announcements tell it."""
        return SprayPolicyCode[self.name]
