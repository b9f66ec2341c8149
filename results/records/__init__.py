"""Defines the records of a run's files as types: events, counters, the summary, performance tables."""
