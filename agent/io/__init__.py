"""Frame transport of hosts: ports, the codec between frames and columns, and the engine that drives many agents."""
