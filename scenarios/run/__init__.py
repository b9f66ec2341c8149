"""Runs one scenario: the stages of the run in their order, its records, and its judgement."""
