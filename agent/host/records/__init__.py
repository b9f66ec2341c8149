"""Records of the worker: events, activity of queue pairs, rejected packets, its own CPU time."""
