"""Starts agents on a fabric that is up, and checks what they need."""
