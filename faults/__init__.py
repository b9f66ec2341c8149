"""Breaks the fabric: defines faults, and makes the kernel produce them."""
