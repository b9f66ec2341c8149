"""Congestion control: how much may be in flight. One interface, one algorithm per file."""
