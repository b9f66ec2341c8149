"""Judges a run: what its plan lets SprayCheck detect, before it; checks and summary, after it."""
