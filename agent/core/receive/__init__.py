"""What the receive half of a queue pair does: placing payloads, deciding what is acknowledged, SACKs and NACKs."""
