"""Drives everything: scenario files, runs, and the command line."""
