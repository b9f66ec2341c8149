"""Registered memory: private, shared with a program, and its contents."""
