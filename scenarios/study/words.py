"""Defines words that a study's file and its command share."""

from typing import Literal

LossPolicy = Literal["off", "paper"]
"""Reaction of all senders of a study to lost packets."""
