"""Defines the commands for one lab: build it, inspect it, break it, look at its packets, remove it."""
