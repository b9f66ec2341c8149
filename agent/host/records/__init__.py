"""What the worker writes down: events, activity of queue pairs, rejected packets, its own CPU time."""
