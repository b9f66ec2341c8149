"""State of a port: qdiscs, shaping, priority, whether it is open."""
