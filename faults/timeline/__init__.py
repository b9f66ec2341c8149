"""When faults are set and cleared."""
