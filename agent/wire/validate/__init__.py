"""Validation of received frames: which may be read, and why the others are refused."""
