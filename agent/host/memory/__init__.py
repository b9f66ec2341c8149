"""Registered memory: private, shared with a program, and what is written into it."""
