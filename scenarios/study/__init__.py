"""Runs a grid of runs, on a fabric or simulated, and computes their error rates."""
