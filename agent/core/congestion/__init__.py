"""Congestion control decides how much may be in flight: one interface, one algorithm per file."""
