"""Frame transport: packet rings, an in-memory fabric, and the engine that drives many agents."""
