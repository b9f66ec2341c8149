"""Breaks the fabric: what can go wrong, and how the kernel is made to do it."""
