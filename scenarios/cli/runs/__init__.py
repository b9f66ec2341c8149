"""Defines the commands that make runs and show their results."""
