"""Breaks the fabric: reads requests for faults, schedules them, makes the kernel produce them, and reads them back."""
