"""Receive half of a queue pair: placing payloads, acceptance, SACKs and NACKs."""
