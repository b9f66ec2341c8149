"""Defines a scenario file: its model, the checks of every value, and the plan that follows from it."""
