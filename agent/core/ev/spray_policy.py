"""Spray policies: rules by which a sender chooses among its entropy values."""

from enum import StrEnum

from agent.wire.constants import SprayPolicyCode


class SprayPolicy(StrEnum):
    """How first transmissions are spread over entropy values; planes take turns in both."""

    ROTATION = "rotation"
    """Every EV once per rotation, in a pseudo-random order that is drawn again every `rotations_per_order` rotations
    (MRC 9.3.1)."""

    RANDOM = "random"
    """Planes in turn; within the plane an independent uniform draw per packet."""

    @property
    def code(self) -> SprayPolicyCode:
        """Return the code that announcements carry."""
        return SprayPolicyCode[self.name]
