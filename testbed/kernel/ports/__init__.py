"""What stands on a port: qdiscs, shaping, priority, whether it is open."""
