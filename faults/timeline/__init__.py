"""Defines when faults are set and cleared."""
