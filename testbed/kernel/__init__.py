"""Kernel access, and the only code that has it: it knows records, not fabrics."""
