"""Implements the owner of a lab: its process, its state (faults, denials, captures), and its answers."""
