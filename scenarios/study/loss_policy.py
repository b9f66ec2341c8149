"""Names the loss policies that a study's file and its command can choose."""

from typing import Literal

LossPolicy = Literal["off", "paper"]
"""Reaction of all senders of a study to lost packets."""
