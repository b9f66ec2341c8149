"""Words of a study that its file and its command share."""

from typing import Literal

LossPolicy = Literal["off", "paper"]
"""What all senders of a study do about lost packets."""
