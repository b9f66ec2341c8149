"""Drives everything: scenario files, the life of a run, and the command line."""
